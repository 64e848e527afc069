// Bands of pieces are read from front to back. Their values are those of their boxes, wherever the
// box that is wanted begins in a cell.

#include "run/engine/piece_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "unit/run/engine/stacks.h"

namespace hfshard {
namespace {

using Elements = std::vector<std::uint64_t>;
using Wants = std::function<bool(const Box& clipped)>;

const Shape kWalked{7, 8, 9};

// Returns the elements of a box, in order.
Elements elements_of(const Box& box) {
  Elements out;
  for_each_chunk(box.extent, [&](const Shape& at) {
    std::uint64_t element = 0;
    for (std::size_t d = 0; d < 3; ++d) element = element * kWalked[d] + box.begin[d] + at[d];
    out.push_back(element);
    return true;
  });
  return out;
}

// Checks the values of a band, whose axes are in the array's order.
void expect_values(const PieceBand& band, std::span<const std::byte> bytes) {
  ASSERT_EQ(band.elements, band.full.extent.numel());
  ASSERT_EQ(bytes.size(), 2 * band.elements);
  std::size_t at = 0;
  for_each_chunk(band.full.extent, [&](const Shape& place) {
    std::uint64_t element = 0;
    bool inside = true;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::uint64_t x = band.full.begin[d] + place[d];
      inside = inside && x < kWalked[d];
      element = element * kWalked[d] + x;
    }
    std::uint16_t value = 0;
    std::memcpy(&value, &bytes[at], sizeof value);
    at += sizeof value;
    if (inside) {
      EXPECT_EQ(value, stacks::value_of(element));
    }
    return true;
  });
}

// Walks the pieces of a stack that meet a box. Returns the elements of the array that were read, in
// order.
Elements walked(const Shape& cell, const Box& box, std::uint64_t most_elements, bool whole_cells,
                const Wants& wants) {
  const Grid grid{cell, cell, cell};
  const stacks::Stack stack(kWalked, {grid});
  std::vector<std::byte> raw(2 * most_elements);
  PieceWalk walk{stack.catalog().tensors[0], grid};
  walk.open = open_stored_pieces(stack, 0, {});
  walk.whole_cells = whole_cells;
  walk.box = box;
  walk.most_elements = most_elements;
  walk.raw = raw;
  Elements out;
  walk_pieces(walk, wants, [&](const PieceBand& band, std::span<const std::byte> bytes) {
    EXPECT_LE(band.elements, most_elements);
    expect_values(band, bytes);
    std::ranges::copy(elements_of(band.clipped), std::back_inserter(out));
  });
  std::ranges::sort(out);
  return out;
}

constexpr auto kAll = [](const Box& /*clipped*/) { return true; };

TEST(WalkPieces, OnlyTheBandsOfABoxAreReadWhereverItBegins) {
  const Shape cell{4, 5, 3};
  for (const Box& box :
       {Box{{0, 0, 0}, {7, 8, 9}}, Box{{1, 2, 1}, {2, 3, 1}}, Box{{1, 2, 1}, {5, 5, 7}},
        Box{{5, 6, 7}, {2, 2, 2}}, Box{{2, 0, 3}, {1, 5, 3}}, Box{{3, 4, 2}, {1, 1, 1}}}) {
    for (const std::uint64_t most : {1U, 2U, 3U, 6U, 15U, 60U}) {
      SCOPED_TRACE(testing::Message() << to_string(box.begin) << " + " << to_string(box.extent)
                                      << ", " << most << " elements");
      EXPECT_EQ(walked(cell, box, most, false, kAll), elements_of(box));
    }
  }
}

TEST(WalkPieces, ABoxWithoutElementsReadsNothing) {
  EXPECT_EQ(walked({4, 5, 3}, {{1, 1, 1}, {2, 0, 2}}, 60, false, kAll), Elements{});
  EXPECT_EQ(walked({4, 5, 3}, {{1, 1, 1}, {2, 0, 2}}, 60, true, kAll), Elements{});
}

// A checksum or a decoder needs all of a cell.
TEST(WalkPieces, WholeCellsThatMeetTheBoxAreRead) {
  for (const std::uint64_t most : {3U, 15U, 60U}) {
    EXPECT_EQ(walked({4, 5, 3}, {{1, 2, 1}, {2, 3, 1}}, most, true, kAll),
              elements_of({{0, 0, 0}, {4, 5, 3}}));
    EXPECT_EQ(walked({4, 5, 3}, {{3, 4, 8}, {1, 1, 1}}, most, true, kAll),
              elements_of({{0, 0, 6}, {4, 5, 3}}));
    EXPECT_EQ(walked({4, 5, 3}, {{4, 5, 6}, {3, 3, 3}}, most, true, kAll),
              elements_of({{4, 5, 6}, {3, 3, 3}}))
        << "the part in the array";
  }
}

// The bytes of a declined cell are skipped, so the next one's are its own.
TEST(WalkPieces, CellsThatAreDeclinedAreSkipped) {
  const Grid grid{{7, 8, 9}, {8, 8, 9}, {2, 8, 3}};
  const stacks::Stack stack(kWalked, {grid});
  std::vector<std::byte> raw(2 * 48);
  PieceWalk walk{stack.catalog().tensors[0], grid};
  walk.open = open_stored_pieces(stack, 0, {});
  walk.box = {{0, 0, 0}, kWalked};
  walk.most_elements = 24;
  walk.raw = raw;
  const Wants wants = [](const Box& clipped) {
    return clipped.begin[0] == 2 || clipped.begin[2] == 6;
  };
  Elements found;
  walk_pieces(walk, wants, [&](const PieceBand& band, std::span<const std::byte> bytes) {
    expect_values(band, bytes);
    std::ranges::copy(elements_of(band.clipped), std::back_inserter(found));
  });
  std::ranges::sort(found);
  Elements wanted;
  for (const std::uint64_t element : elements_of({{0, 0, 0}, kWalked})) {
    if (element / 72 / 2 == 1 || element % 9 >= 6) wanted.push_back(element);
  }
  EXPECT_EQ(found, wanted);
}

}  // namespace
}  // namespace hfshard
