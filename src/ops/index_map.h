#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/heap.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// One counter of a mixed-radix index; both sides step together. Steps are in elements.
struct Digit {
  std::uint64_t extent = 1;
  std::int64_t src_step = 0;
  std::int64_t dst_step = 0;
  friend bool operator==(const Digit&, const Digit&) = default;
};

/// Up to 16 digits. Four are stored inline, since nearly every rule of every family has at most
/// four. A model with a hundred thousand tensors has as many maps.
class DigitList {
 public:
  static constexpr std::size_t kMax = 16;
  DigitList() = default;
  DigitList(std::initializer_list<Digit> digits);
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Digit& operator[](std::size_t i) noexcept { return begin()[i]; }
  const Digit& operator[](std::size_t i) const noexcept { return begin()[i]; }
  Digit* begin() noexcept { return size_ > kInline ? spill_.data() : items_.data(); }
  Digit* end() noexcept { return begin() + size_; }
  const Digit* begin() const noexcept { return size_ > kInline ? spill_.data() : items_.data(); }
  const Digit* end() const noexcept { return begin() + size_; }
  /// Throws: unsupported beyond kMax.
  void push_back(const Digit& digit);
  void erase(std::size_t index) noexcept;
  void clear() noexcept;
  /// Returns the heap bytes that it holds (base/heap.h).
  std::uint64_t heap_bytes() const noexcept {
    return heap_block(spill_.capacity() * sizeof(Digit));
  }
  friend bool operator==(const DigitList& a, const DigitList& b) noexcept;

 private:
  static constexpr std::size_t kInline = 4;
  std::array<Digit, kInline> items_{};  // used while size_ <= kInline
  std::vector<Digit> spill_;            // all digits beyond that, else empty
  std::size_t size_ = 0;
};

/// dst[dst_base + sum i_k*dst_step_k] = f(src[src_base + sum i_k*src_step_k]), 0 <= i_k < extent_k.
/// Offsets are in elements of the flattened (row-major) tensors. Digits are ordered slow to fast on
/// the target side as the pattern wrote them; the order has no meaning.
struct IndexMap {
  std::uint64_t src_base = 0;
  std::uint64_t dst_base = 0;
  DigitList digits;

  /// Returns the number of (source, target) element pairs, saturating. Zero if an extent is zero.
  std::uint64_t count() const noexcept;
  friend bool operator==(const IndexMap&, const IndexMap&) = default;
};

/// Half-open box in a tensor's coordinates: begin[a] <= x[a] < begin[a] + extent[a]. Its ranks
/// equal the shape's.
struct Box {
  Shape begin;
  Shape extent;
};

/// Swaps the two sides.
IndexMap inverse(const IndexMap& map);

/// Returns the canonical form: drops digits of extent 1, merges digits contiguous on both sides,
/// sorts by dst_step descending (then src_step). Equal maps compare equal. A map with a zero extent
/// becomes one digit of extent 0.
IndexMap normalize(const IndexMap& map);

/// Maps every element of a tensor to itself, with one digit per axis that has several elements.
IndexMap identity_map(const Shape& shape);

/// Splits every digit so that none spans several axes of a row-major target of shape `dst_shape`.
/// Then `restrict_to` accepts it. Throws: internal if a digit straddles an axis unevenly.
IndexMap split_by_axes(const IndexMap& map, const Shape& dst_shape);

/// Appends to `out` the parts of `map` whose target element is in `box`. An axis with several
/// digits can have a head, a body and a tail. No digit of `map` may span two axes of `dst_shape`
/// (as compiled, or split_by_axes). dst offsets stay offsets in the whole target. The parts are
/// disjoint and cover the intersection exactly.
void restrict_to(const IndexMap& map, const Shape& dst_shape, const Box& box,
                 std::vector<IndexMap>& out);

/// Changes target offsets from the row-major `dst_shape` to those of a packed row-major buffer with
/// only `box`. Every element of the map must be in the box.
IndexMap rebase_to_box(const IndexMap& map, const Shape& dst_shape, const Box& box);

enum class Side : std::uint8_t { source, target };

/// A failed tiling: an element that is covered `times` times (0 or more than 1), or is out of
/// range.
struct TilingFault {
  bool found = false;
  std::uint64_t element = 0;  ///< linear offset of a wrong element
  std::uint64_t times = 0;
  std::size_t map_index = 0;  ///< a map that covers it, or 0
};

/// Proves that the maps cover [0, numel) of one side exactly once. The proof is symbolic, by
/// recursion over steps. Its cost depends on the number of maps and digits, not on extents. A step
/// of 0 on that side covers an element several times, which is a fault. For a repeat, prove the
/// source side without that digit. Below 2^20 elements, maps that are too irregular are counted
/// element by element. Above, a fault with times == 0 and element == numel means that it can't
/// decide.
TilingFault tiles_exactly(std::uint64_t numel, std::span<const IndexMap> maps, Side side);

}  // namespace hfshard
