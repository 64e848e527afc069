#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ops/kernels.h"

namespace hfshard {
namespace {

/// Elements along each side of a block. 32 lines on either side stay in the first-level cache.
constexpr std::size_t kSquare = 32;

template <std::size_t kBytes>
void copy_line(const std::byte* src, std::ptrdiff_t src_step, std::byte* dst,
               std::ptrdiff_t dst_step, std::size_t count) noexcept {
  for (; count >= 4; count -= 4) {
    for (std::ptrdiff_t k = 0; k < 4; ++k) {
      std::memcpy(dst + k * dst_step, src + k * src_step, kBytes);
    }
    src += 4 * src_step;
    dst += 4 * dst_step;
  }
  for (; count > 0; --count) {
    std::memcpy(dst, src, kBytes);
    src += src_step;
    dst += dst_step;
  }
}

/// `near_src` has the smallest steps in the source, `near_dst` in the target.
template <std::size_t kBytes>
void copy_plane(const ByteDigit& near_src, const ByteDigit& near_dst, const std::byte* src,
                std::byte* dst) noexcept {
  for (std::size_t i = 0; i < near_src.extent; i += kSquare) {
    const std::size_t rows = std::min(kSquare, near_src.extent - i);
    for (std::size_t j = 0; j < near_dst.extent; j += kSquare) {
      const std::size_t columns = std::min(kSquare, near_dst.extent - j);
      for (std::size_t r = i; r < i + rows; ++r) {
        const auto row = static_cast<std::ptrdiff_t>(r);
        const auto column = static_cast<std::ptrdiff_t>(j);
        copy_line<kBytes>(
            src + row * near_src.src_step + column * near_dst.src_step, near_dst.src_step,
            dst + row * near_src.dst_step + column * near_dst.dst_step, near_dst.dst_step, columns);
      }
    }
  }
}

/// Returns the index of the digit with the smallest step on one side.
template <typename Step>
std::size_t nearest(const ByteDigits& digits, Step step) noexcept {
  std::size_t best = 0;
  for (std::size_t k = 1; k < digits.size; ++k) {
    if (std::abs(step(digits.items[k])) <= std::abs(step(digits.items[best]))) best = k;
  }
  return best;
}

template <std::size_t kBytes>
void gather(const ByteDigits& digits, const std::byte* src, std::byte* dst) {
  if (digits.size == 0) {
    std::memcpy(dst, src, kBytes);
    return;
  }
  ByteDigits outer = digits;
  const auto dst_step = [](const ByteDigit& digit) { return digit.dst_step; };
  const auto src_step = [](const ByteDigit& digit) { return digit.src_step; };
  const std::size_t src_nearest = nearest(outer, src_step);
  const std::size_t dst_nearest = nearest(outer, dst_step);
  const ByteDigit near_dst = outer.take(dst_nearest);
  ByteDigit near_src{};
  if (src_nearest != dst_nearest) {
    near_src = outer.take(src_nearest > dst_nearest ? src_nearest - 1 : src_nearest);
  }
  for_each_offset(outer, src, dst, [&](const std::byte* from, std::byte* to) {
    copy_plane<kBytes>(near_src, near_dst, from, to);
  });
}

}  // namespace

void copy_gathered(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                   std::byte* dst) {
  switch (element_bytes) {
    case 1:
      return gather<1>(digits, src, dst);
    case 2:
      return gather<2>(digits, src, dst);
    case 4:
      return gather<4>(digits, src, dst);
    case 8:
      return gather<8>(digits, src, dst);
    default:
      return gather<16>(digits, src, dst);
  }
}

}  // namespace hfshard
