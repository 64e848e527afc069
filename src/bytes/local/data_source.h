#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bytes/local/drop_behind.h"
#include "bytes/local/source.h"
#include "bytes/local/syscalls.h"

#include "hfshard/io.h"

namespace hfshard {

/// The tensor data of one local file, read with the mode that is best for it (docs/adr/0013). In
/// all modes, errors and exactness are FileSource's. `view` uses the mode; `read_at` is for a few
/// bytes and uses the page cache.
class DataSource final : public SourceFile {
 public:
  /// If the file wasn't cached when it was opened, `behind` drops its pages later. `behind` can be
  /// null. Throws: as FileSource.
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
  /// Returns the mode, which is never automatic.
  IoMode mode() const noexcept { return mode_; }
  /// Returns the reason for the mode, a few words.
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
