#pragma once

#include <cstddef>

namespace hfshard {

/// Makes a mapped file safe to read while others may truncate it, or its disk may fail: touching a
/// page that is gone would end the process by SIGBUS. While this lives, such a page and those
/// behind it become zeros, and `gone` says so; who reads the range asks afterwards and throws its
/// values away. Every other SIGBUS goes to whoever had the signal before the first of these was
/// made (docs/adr/0017).
///
/// Threads: any number; the range may be read by one thread and looked after by another.
class MappingGuard {
 public:
  MappingGuard() = default;
  /// Guards whole pages, [begin, begin + size) rounded out. Guards nothing where that cannot be
  /// done: the signal was given to somebody else since, or this thread blocks it, or too many
  /// ranges are guarded.
  MappingGuard(const void* begin, std::size_t size_bytes) noexcept;
  /// Before the range is unmapped.
  ~MappingGuard();
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  /// Whether it guards anything.
  explicit operator bool() const noexcept { return slot_ >= 0; }
  /// Whether a page of the range was gone when it was read.
  bool gone() const noexcept;

 private:
  int slot_ = -1;
};

}  // namespace hfshard
