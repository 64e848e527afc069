#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bytes/source.h"
#include "bytes/syscalls.h"

namespace hfshard {

/// A file without a name, for what may not fit in memory: it goes with this object, and with the
/// process. Bytes that were never written are zeros. Where the caller has memory for it, that is
/// used instead, with what it holds.
class ScratchFile final : public SourceFile {
 public:
  /// Of nothing, until `reset`. `name`: what it holds, as errors name it.
  explicit ScratchFile(std::string name) : name_(std::move(name)) {}
  /// Makes the file in `directory`. Throws: io.
  void reset(const std::string& directory, std::uint64_t size_bytes);
  /// Uses this memory, which outlives its use, instead of a file.
  void reset_in(std::span<std::byte> memory);
  /// Gives its space back.
  void clear() noexcept;
  /// Where these bytes lie, if in memory; else nothing.
  std::span<std::byte> in_memory(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Throws: io (a full disk is said as such).
  void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);

  std::uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  View view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
            std::span<std::byte> scratch) const override;
  FileIdentity identity() const override { return {size_bytes_, {}}; }
  /// Nobody else can open it.
  void check_unchanged() const override {}
  bool takes_hints() const noexcept override { return false; }

 private:
  std::string name_;
  std::string directory_;
  sys::Descriptor file_;
  std::span<std::byte> memory_;  // empty: the file
  std::uint64_t size_bytes_ = 0;
};

}  // namespace hfshard
