#include "ops/move.h"

#include "ops/kernels.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

/// The smallest and largest offset of one side, relative to its base, in elements.
struct Reach {
  std::int64_t low = 0;
  std::int64_t high = 0;

  void extend(std::uint64_t extent, std::int64_t step) {
    std::int64_t far = 0;
    HFSHARD_CHECK(!__builtin_mul_overflow(extent - 1, step, &far));
    std::int64_t& end = far < 0 ? low : high;
    HFSHARD_CHECK(!__builtin_add_overflow(end, far, &end));
  }

  /// Returns whether all touched elements are in `bytes` bytes.
  bool inside(std::uint64_t base, std::size_t element_bytes, std::size_t bytes) const noexcept {
    const std::uint64_t elements = bytes / element_bytes;
    return base < elements && std::uint64_t{0} - static_cast<std::uint64_t>(low) <= base &&
           static_cast<std::uint64_t>(high) < elements - base;
  }
};

void check_inside(const IndexMap& map, std::size_t element_bytes, std::size_t src_bytes,
                  std::size_t dst_bytes) {
  Reach src;
  Reach dst;
  for (const Digit& digit : map.digits) {
    src.extend(digit.extent, digit.src_step);
    dst.extend(digit.extent, digit.dst_step);
  }
  HFSHARD_CHECK(src.inside(map.src_base, element_bytes, src_bytes));
  HFSHARD_CHECK(dst.inside(map.dst_base, element_bytes, dst_bytes));
}

/// Merges digits that are contiguous on both sides, as `normalize` does.
void merge(ByteDigits& digits) noexcept {
  for (std::size_t outer = 0; outer < digits.size;) {
    bool merged = false;
    for (std::size_t inner = digits.size; inner-- > 0 && !merged;) {
      const ByteDigit slow = digits.items[outer];
      ByteDigit& fast = digits.items[inner];
      const auto extent = static_cast<std::ptrdiff_t>(fast.extent);
      merged = inner != outer && slow.src_step == fast.src_step * extent &&
               slow.dst_step == fast.dst_step * extent;
      if (merged) fast.extent *= slow.extent;
    }
    if (merged) digits.take(outer);
    outer = merged ? 0 : outer + 1;
  }
}

/// Returns the digits of a map in bytes, slow to fast on the target side, with all target steps >=
/// 0. Moves the pointers from the bases to the first pair. Unlike `normalize` it never allocates.
ByteDigits digits_in_bytes(const IndexMap& map, std::ptrdiff_t width, const std::byte*& src,
                           std::byte*& dst) noexcept {
  ByteDigits out;
  for (const Digit& digit : map.digits) {
    if (digit.extent == 1) continue;
    ByteDigit next{digit.extent, digit.src_step * width, digit.dst_step * width};
    if (next.dst_step < 0) {
      const auto last = static_cast<std::ptrdiff_t>(next.extent - 1);
      src += last * next.src_step;
      dst += last * next.dst_step;
      next.src_step = -next.src_step;
      next.dst_step = -next.dst_step;
    }
    std::size_t at = out.size++;
    for (; at > 0 && out.items[at - 1].dst_step < next.dst_step; --at) {
      out.items[at] = out.items[at - 1];
    }
    out.items[at] = next;
  }
  merge(out);
  return out;
}

/// Removes the digit that is contiguous on both sides. Returns the bytes of a run.
std::size_t take_run(ByteDigits& digits, std::size_t element_bytes) noexcept {
  const auto step = static_cast<std::ptrdiff_t>(element_bytes);
  for (std::size_t k = 0; k < digits.size; ++k) {
    if (digits.items[k].src_step == step && digits.items[k].dst_step == step) {
      return element_bytes * digits.take(k).extent;
    }
  }
  return element_bytes;
}

bool is_element_size(std::size_t bytes) noexcept {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
}

}  // namespace

void move_elements(const IndexMap& map, std::size_t element_bytes, std::span<const std::byte> src,
                   std::span<std::byte> dst, Simd simd) {
  HFSHARD_CHECK(is_element_size(element_bytes));
  if (map.count() == 0) return;
  check_inside(map, element_bytes, src.size(), dst.size());
  const std::byte* from = src.data() + map.src_base * element_bytes;
  std::byte* to = dst.data() + map.dst_base * element_bytes;
  ByteDigits digits = digits_in_bytes(map, static_cast<std::ptrdiff_t>(element_bytes), from, to);
  // Short runs are wide elements, so the rest can still be a transpose.
  const std::size_t run_bytes = take_run(digits, element_bytes);
  if (!is_element_size(run_bytes)) return copy_runs(digits, run_bytes, from, to);
  if (run_bytes <= 8) {
    if (copy_picked(digits, run_bytes, from, to, simd)) return;
    if (copy_transposed(digits, run_bytes, from, to, simd)) return;
  }
  copy_gathered(digits, run_bytes, from, to);
}

}  // namespace hfshard
