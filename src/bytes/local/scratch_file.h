#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bytes/local/source.h"
#include "bytes/local/syscalls.h"

namespace hfshard {

/// A file without a name, for data that may not fit in memory. It is deleted with this object or
/// the process. Bytes that were never written are zeros. If the caller has memory for it, the
/// memory and its contents are used instead.
class ScratchFile final : public SourceFile {
 public:
  /// Is empty until `reset`. `name` describes its contents, for errors.
  explicit ScratchFile(std::string name) : name_(std::move(name)) {}
  /// Makes the file in `directory`. Throws: io.
  void reset(const std::string& directory, std::uint64_t size_bytes);
  /// Uses memory instead of a file. The memory must outlive its use.
  void reset_in(std::span<std::byte> memory);
  /// Frees its space.
  void clear() noexcept;
  /// Returns these bytes if they are in memory, or an empty span.
  std::span<std::byte> in_memory(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Throws: io (names a full disk).
  void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);

  std::uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  View view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
            std::span<std::byte> scratch) const override;
  FileIdentity identity() const override { return {size_bytes_, {}}; }
  /// No other process can open it.
  void check_unchanged() const override {}
  bool takes_hints() const noexcept override { return false; }

 private:
  std::string name_;
  std::string directory_;
  sys::Descriptor file_;
  std::span<std::byte> memory_;  // empty: in the file
  std::uint64_t size_bytes_ = 0;
};

}  // namespace hfshard
