#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "ops/index_map.h"

namespace hfshard {

/// A digit with steps in bytes.
struct ByteDigit {
  std::size_t extent = 1;
  std::ptrdiff_t src_step = 0;
  std::ptrdiff_t dst_step = 0;
};

/// Up to 16 digits, slow to fast on the target side.
struct ByteDigits {
  std::array<ByteDigit, DigitList::kMax> items;
  std::size_t size = 0;

  void push_back(const ByteDigit& digit) noexcept { items[size++] = digit; }
  /// Removes and returns a digit. The others keep their order.
  ByteDigit take(std::size_t index) noexcept {
    const ByteDigit out = items[index];
    for (std::size_t k = index + 1; k < size; ++k) items[k - 1] = items[k];
    --size;
    return out;
  }
};

/// Calls `body(src, dst)` for every combination of the digits.
template <typename Body>
void for_each_offset(const ByteDigits& digits, const std::byte* src, std::byte* dst, Body body) {
  std::array<std::size_t, DigitList::kMax> index;
  for (std::size_t k = 0; k < digits.size; ++k) index[k] = 0;
  for (;;) {
    body(src, dst);
    std::size_t k = digits.size;
    for (; k > 0; --k) {
      const ByteDigit& digit = digits.items[k - 1];
      if (++index[k - 1] < digit.extent) {
        src += digit.src_step;
        dst += digit.dst_step;
        break;
      }
      const auto back = static_cast<std::ptrdiff_t>(digit.extent - 1);
      src -= back * digit.src_step;
      dst -= back * digit.dst_step;
      index[k - 1] = 0;
    }
    if (k == 0) return;
  }
}

/// Copies runs of `run_bytes` that are contiguous on both sides.
void copy_runs(const ByteDigits& digits, std::size_t run_bytes, const std::byte* src,
               std::byte* dst);

/// Moves elements of 1, 2, 4 or 8 bytes. One digit must step by an element in the target, and
/// another by one to four in the source. Returns false (and moves nothing) without such a pair.
bool copy_transposed(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                     std::byte* dst, Simd simd);

/// Moves elements of 1, 2, 4 or 8 bytes. One digit must step by an element in the target and by two
/// to four in the source. Returns false (and moves nothing) without such a digit.
bool copy_picked(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                 std::byte* dst, Simd simd);

/// Moves elements of 1, 2, 4, 8 or 16 bytes with any steps.
void copy_gathered(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                   std::byte* dst);

}  // namespace hfshard
