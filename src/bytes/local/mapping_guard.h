#pragma once

#include <cstddef>

namespace hfshard {

/// Makes a mapped file safe to read although others can truncate it, or its disk can fail. Touching
/// a missing page would end the process with SIGBUS. While this lives, such a page and those behind
/// it become zeros, and `gone` returns true. Readers check it afterwards and discard their values.
/// Every other SIGBUS goes to the handler from before the first guard (docs/adr/0017).
///
/// Threads: any number. One thread can read the range while another owns the guard.
class MappingGuard {
 public:
  MappingGuard() = default;
  /// Guards whole pages, [begin, begin + size) rounded out. Guards nothing if another handler took
  /// the signal, this thread blocks it, or too many ranges are guarded.
  MappingGuard(const void* begin, std::size_t size_bytes) noexcept;
  /// Destroy it before unmapping the range.
  ~MappingGuard();
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  /// Returns whether it guards anything.
  explicit operator bool() const noexcept { return slot_ >= 0; }
  /// Returns whether a page of the range was gone when it was read.
  bool gone() const noexcept;

 private:
  int slot_ = -1;
};

}  // namespace hfshard
