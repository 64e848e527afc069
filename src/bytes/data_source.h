#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bytes/drop_behind.h"
#include "bytes/source.h"
#include "bytes/syscalls.h"

#include "hfshard/io.h"

namespace hfshard {

/// The tensor data of one local file, moved in the way that suits it (docs/adr/0013). Errors and
/// exactness are FileSource's, whatever the way. `view` uses that way; `read_at` is for a few bytes
/// and goes through the page cache.
class DataSource final : public SourceFile {
 public:
  /// `behind` takes the pages of a file that was not cached when it was opened; may be null.
  /// Throws: as FileSource.
  DataSource(std::string path, IoMode wanted, std::shared_ptr<DropBehind> behind);
  std::uint64_t size_bytes() const override { return file_.size_bytes(); }
  const std::string& name() const override { return file_.name(); }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  View view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
            std::span<std::byte> scratch) const override;
  void will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const override;
  void done_with(std::uint64_t offset_bytes, std::uint64_t length_bytes) const override;
  void check_used(const View& view, std::uint64_t offset_bytes,
                  std::uint64_t length_bytes) const override;
  FileIdentity identity() const override { return file_.identity(); }
  void check_unchanged() const override { file_.check_unchanged(); }
  bool takes_hints() const noexcept override { return mode_ != IoMode::direct; }
  std::optional<IoChoice> choice() const override { return IoChoice{mode_, why_, 1}; }
  /// Never automatic.
  IoMode mode() const noexcept { return mode_; }
  /// Why it is this mode, a few words.
  const std::string& why() const noexcept { return why_; }

 private:
  void choose(IoMode wanted);
  bool open_direct();
  View read_direct(std::uint64_t offset, std::uint64_t length, std::span<std::byte> scratch) const;

  FileSource file_;
  std::shared_ptr<DropBehind> behind_;  // null if the pages stay
  IoMode mode_ = IoMode::buffered;
  std::string why_;
  sys::Descriptor direct_;
  std::uint64_t alignment_ = 0;
};

}  // namespace hfshard
