#include "ops/kernels.h"
#include "ops/pick.h"
#include "ops/simd.h"

namespace hfshard {
namespace {

template <std::size_t kBytes>
void pick_rows(const ByteDigits& outer, std::size_t count, std::size_t stride, const std::byte* src,
               std::byte* dst) {
  for_each_offset(outer, src, dst, [&](const std::byte* from, std::byte* to) {
    pick<kBytes>(from, to, count, stride);
  });
}

}  // namespace

bool copy_picked(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                 std::byte* dst, Simd simd) {
  const auto step = static_cast<std::ptrdiff_t>(element_bytes);
  std::size_t at = 0;
  while (at < digits.size && digits.items[at].dst_step != step) ++at;
  if (at == digits.size) return false;
  ByteDigits outer = digits;
  const ByteDigit inner = outer.take(at);
  // An element can be a run of smaller ones, whose distance needn't be a multiple of it.
  if (inner.src_step % step != 0) return false;
  const std::ptrdiff_t stride = inner.src_step / step;
  if (stride < 2 || stride > static_cast<std::ptrdiff_t>(kMaxStride)) return false;
  const auto times = static_cast<std::size_t>(stride);
  // For AVX2, shuffles stay within 16 bytes, so g++ 12 makes these loops half as fast.
  run_as(simd == Simd::avx2 ? Simd::sse2 : simd, [&](auto) {
    switch (element_bytes) {
      case 1:
        return pick_rows<1>(outer, inner.extent, times, src, dst);
      case 2:
        return pick_rows<2>(outer, inner.extent, times, src, dst);
      case 4:
        return pick_rows<4>(outer, inner.extent, times, src, dst);
      default:
        return pick_rows<8>(outer, inner.extent, times, src, dst);
    }
  });
  return true;
}

}  // namespace hfshard
