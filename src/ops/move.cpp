#include "ops/move.h"

#include "ops/kernels.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

/// Smallest and largest offset of one side, relative to its base, in elements.
struct Reach {
  std::int64_t low = 0;
  std::int64_t high = 0;

  void extend(std::uint64_t extent, std::int64_t step) {
    std::int64_t far = 0;
    HFSHARD_CHECK(!__builtin_mul_overflow(extent - 1, step, &far));
    std::int64_t& end = far < 0 ? low : high;
    HFSHARD_CHECK(!__builtin_add_overflow(end, far, &end));
  }

  /// Whether all touched elements lie in `bytes` bytes.
  bool inside(std::uint64_t base, std::size_t element_bytes, std::size_t bytes) const noexcept {
    const std::uint64_t elements = bytes / element_bytes;
    return base < elements && static_cast<std::uint64_t>(-low) <= base &&
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

/// Takes the digit that is contiguous on both sides; returns the bytes of a run.
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
                   std::span<std::byte> dst) {
  HFSHARD_CHECK(is_element_size(element_bytes));
  if (map.count() == 0) return;
  check_inside(map, element_bytes, src.size(), dst.size());
  const IndexMap canonical = normalize(map);
  const auto width = static_cast<std::ptrdiff_t>(element_bytes);
  ByteDigits digits;
  for (const Digit& digit : canonical.digits) {
    digits.push_back({digit.extent, digit.src_step * width, digit.dst_step * width});
  }
  const std::byte* from = src.data() + canonical.src_base * element_bytes;
  std::byte* to = dst.data() + canonical.dst_base * element_bytes;
  // Short runs are wide elements: what is left may still be a transpose.
  const std::size_t run_bytes = take_run(digits, element_bytes);
  if (!is_element_size(run_bytes)) return copy_runs(digits, run_bytes, from, to);
  if (run_bytes <= 4 && copy_transposed(digits, run_bytes, from, to)) return;
  copy_gathered(digits, run_bytes, from, to);
}

}  // namespace hfshard
