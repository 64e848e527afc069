#include <cstring>

#include "ops/kernels.h"

namespace hfshard {
namespace {

/// Copies [kPart, 2 * kPart] bytes as two overlapping parts.
template <std::size_t kPart>
void copy_two(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept {
  std::array<std::byte, kPart> head;
  std::array<std::byte, kPart> tail;
  std::memcpy(head.data(), src, kPart);
  std::memcpy(tail.data(), src + bytes - kPart, kPart);
  std::memcpy(dst, head.data(), kPart);
  std::memcpy(dst + bytes - kPart, tail.data(), kPart);
}

template <typename Copy>
void copy_all(const ByteDigits& digits, const std::byte* src, std::byte* dst, Copy copy) {
  ByteDigits outer = digits;
  ByteDigit inner{};
  if (outer.size > 0) inner = outer.take(outer.size - 1);
  for_each_offset(outer, src, dst, [&](const std::byte* from, std::byte* to) {
    for (std::size_t i = 0; i < inner.extent; ++i) {
      copy(to, from);
      from += inner.src_step;
      to += inner.dst_step;
    }
  });
}

template <std::size_t kPart>
void copy_all_by_two(const ByteDigits& digits, std::size_t run_bytes, const std::byte* src,
                     std::byte* dst) {
  copy_all(digits, src, dst, [run_bytes](std::byte* to, const std::byte* from) {
    copy_two<kPart>(to, from, run_bytes);
  });
}

}  // namespace

void copy_runs(const ByteDigits& digits, std::size_t run_bytes, const std::byte* src,
               std::byte* dst) {
  // Calling memcpy costs more than copying a short run.
  if (run_bytes >= 2 && run_bytes <= 64) {
    if (run_bytes >= 32) return copy_all_by_two<32>(digits, run_bytes, src, dst);
    if (run_bytes >= 16) return copy_all_by_two<16>(digits, run_bytes, src, dst);
    if (run_bytes >= 8) return copy_all_by_two<8>(digits, run_bytes, src, dst);
    if (run_bytes >= 4) return copy_all_by_two<4>(digits, run_bytes, src, dst);
    return copy_all_by_two<2>(digits, run_bytes, src, dst);
  }
  copy_all(digits, src, dst,
           [run_bytes](std::byte* to, const std::byte* from) { std::memcpy(to, from, run_bytes); });
}

}  // namespace hfshard
