// A unit that ends at windows has everything that a cell of its source's pieces feeds.

#include "plan/layout/piece_window.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "plan/layout/unit.h"
#include "support/sizes.h"

namespace hfshard {
namespace {

Leaf leaf_with(const Shape& shape) {
  Leaf leaf;
  leaf.name = "params.params.x";
  leaf.shape = shape;
  return leaf;
}

Grid cells_of(const Shape& cell) { return {cell, cell, cell}; }

// A source with axes a, b, c. The leaf has them in another order, with b split in two axes or
// joined with another one.
struct Case {
  Shape source;
  Shape leaf;
  IndexMap map;
};

Case random_case(std::mt19937_64& random) {
  const auto pick = [&](std::uint64_t most) { return 1 + random() % most; };
  const std::uint64_t a = pick(5);
  const std::uint64_t b_slow = pick(4);
  const std::uint64_t b_fast = pick(4);
  const std::uint64_t c = pick(6);
  const std::uint64_t b = b_slow * b_fast;
  const auto step = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  Case out;
  out.source = {a, b, c};
  switch (random() % 3) {
    case 0:  // [c, b_slow, a, b_fast]
      out.leaf = {c, b_slow, a, b_fast};
      out.map.digits = {{c, 1, step(b_slow * a * b_fast)},
                        {b_slow, step(b_fast * c), step(a * b_fast)},
                        {a, step(b * c), step(b_fast)},
                        {b_fast, step(c), 1}};
      break;
    case 1:  // [b, a * c]
      out.leaf = {b, a * c};
      out.map.digits = {{b, step(c), step(a * c)}, {a, step(b * c), step(c)}, {c, 1, 1}};
      break;
    default:  // [c * a, b]: c is the slower part of the axis
      out.leaf = {c * a, b};
      out.map.digits = {{c, 1, step(a * b)}, {a, step(b * c), step(b)}, {b, step(c), 1}};
  }
  return out;
}

// Returns the target of each element of the source.
std::vector<std::uint64_t> targets_of(const Case& made) {
  std::vector<std::uint64_t> out(made.source.numel());
  std::vector<std::uint64_t> at(made.map.digits.size(), 0);
  for (;;) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      from += at[k] * static_cast<std::uint64_t>(made.map.digits[k].src_step);
      to += at[k] * static_cast<std::uint64_t>(made.map.digits[k].dst_step);
    }
    out[from] = to;
    std::size_t k = at.size();
    while (k > 0 && ++at[k - 1] == made.map.digits[k - 1].extent) at[--k] = 0;
    if (k == 0) return out;
  }
}

std::vector<std::uint64_t> coordinates(std::uint64_t element, const Shape& shape) {
  std::vector<std::uint64_t> out;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    out.push_back(element / shape.strides()[d] % shape[d]);
  }
  return out;
}

TEST(PieceWindow, WhatACellFeedsLiesInOneUnit) {
  std::mt19937_64 random(20261122);
  Limits limits;
  limits.alignment_bytes = 64;
  int whole = 0;
  int open = 0;
  for (int i = 0; i < cases(3000); ++i) {
    const Case made = random_case(random);
    Shape cell;
    for (const std::uint64_t extent : made.source) cell.push_back(1 + random() % extent);
    Shape chunk;
    for (const std::uint64_t extent : made.leaf) chunk.push_back(1 + random() % extent);
    Transfer transfer;
    transfer.source_shape = made.source;
    transfer.sources = {0};
    transfer.map = made.map;
    const Leaf leaf = leaf_with(made.leaf);
    const auto window = piece_window(leaf, transfer, cells_of(cell));
    ASSERT_TRUE(window.has_value());
    const Grid grid = cells_of(chunk);
    const PieceForm form{2 * chunk.numel()};
    const Transfer* const all[] = {&transfer};
    const SourcePieces pieces{*window, 0};
    const UnitForm unit = make_unit_form(leaf, grid, all, form, limits, &pieces);
    // The unit of each cell's first element, by the cell's coordinates.
    std::map<std::vector<std::uint64_t>, std::vector<std::uint64_t>> unit_of_cell;
    const std::vector<std::uint64_t> to = targets_of(made);
    for (std::uint64_t from = 0; from < to.size(); ++from) {
      std::vector<std::uint64_t> in = coordinates(from, made.source);
      for (std::size_t d = 0; d < in.size(); ++d) in[d] /= cell[d];
      std::vector<std::uint64_t> at = coordinates(to[from], made.leaf);
      for (std::size_t d = 0; d < at.size(); ++d) at[d] /= chunk[d] * unit.span[d];
      EXPECT_EQ(unit_of_cell.emplace(in, at).first->second, at) << "case " << i;
    }
    for (std::size_t d = 0; d < made.leaf.rank(); ++d)
      (unit.closed(d) && unit.counts[d] > 1 ? whole : open) += unit.counts[d] > 1 ? 1 : 0;
  }
  EXPECT_GT(whole, 100);  // both cases happen
  EXPECT_GT(open, 100);
}

// Cells of four layers feed units of four layers, not of all.
TEST(PieceWindow, AUnitHoldsNoMoreThanItMust) {
  Transfer transfer;
  transfer.source_shape = {16, 6};
  transfer.sources = {0};
  transfer.map.digits = {{16, 6, 6}, {6, 1, 1}};
  const Leaf leaf = leaf_with({16, 6});
  EXPECT_EQ(*piece_window(leaf, transfer, cells_of({4, 6})), (Shape{4, 6}));
  EXPECT_EQ(*piece_window(leaf, transfer, cells_of({1, 1})), (Shape{1, 1}));
  EXPECT_EQ(*piece_window(leaf, transfer, cells_of({5, 3})), (Shape{5, 3}));
  EXPECT_EQ(*piece_window(leaf, transfer, cells_of({20, 7})), (Shape{16, 6}));
  const Limits limits;
  const Transfer* const all[] = {&transfer};
  const auto span = [&](std::uint64_t rows, std::uint64_t cell) {
    const SourcePieces pieces{*piece_window(leaf, transfer, cells_of({cell, 6})), 0};
    const Grid grid = cells_of({rows, 6});
    return make_unit_form(leaf, grid, all, {12 * rows}, limits, &pieces).span[0];
  };
  EXPECT_EQ(span(2, 4), 2U);
  EXPECT_EQ(span(4, 2), 1U);
  EXPECT_EQ(span(1, 4), 4U);
  EXPECT_EQ(span(2, 3), 8U);  // 3 chunks don't divide 8
}

// One layer of a stack in one piece. No unit of this leaf has everything that the piece feeds.
TEST(PieceWindow, APieceThatFeedsOtherLeavesHasNone) {
  Transfer transfer;
  transfer.source_shape = {3, 4, 6};
  transfer.sources = {0};
  transfer.map.src_base = 24;
  transfer.map.digits = {{4, 6, 6}, {6, 1, 1}};
  const Leaf leaf = leaf_with({4, 6});
  EXPECT_FALSE(piece_window(leaf, transfer, cells_of({3, 4, 6})).has_value());
  EXPECT_FALSE(piece_window(leaf, transfer, cells_of({2, 4, 6})).has_value());
  EXPECT_EQ(*piece_window(leaf, transfer, cells_of({1, 2, 6})), (Shape{2, 6}));
}

// If a part of a leaf doesn't begin at a window, its axis is in one unit.
TEST(PieceWindow, AMisplacedPartClosesItsAxis) {
  Transfer transfer;
  transfer.source_shape = {8, 6};
  transfer.sources = {0};
  transfer.map.dst_base = 18;  // row 3
  transfer.map.digits = {{8, 6, 6}, {6, 1, 1}};
  EXPECT_EQ(*piece_window(leaf_with({12, 6}), transfer, cells_of({4, 6})), (Shape{12, 6}));
  transfer.map.dst_base = 24;
  EXPECT_EQ(*piece_window(leaf_with({12, 6}), transfer, cells_of({4, 6})), (Shape{4, 6}));
}

TEST(PieceWindow, TwoWindowsEndTogetherAtTheirLeastCommonMultiple) {
  const auto joined = [](std::uint64_t extent, std::uint64_t a, std::uint64_t b) {
    return join_windows(leaf_with({extent}), {a}, {b})[0];
  };
  EXPECT_EQ(joined(24, 4, 6), 12U);
  EXPECT_EQ(joined(24, 3, 8), 24U);
  EXPECT_EQ(joined(24, 1, 5), 5U);
  EXPECT_EQ(joined(24, 7, 5), 24U) << "35 is more than the leaf has";
  EXPECT_EQ(joined(24, 24, 5), 24U);
  EXPECT_EQ(joined(24, 5, 30), 24U);
  EXPECT_EQ(joined(0, 1, 1), 1U);
  EXPECT_EQ(join_windows(leaf_with({24, 6}), {4, 1}, {6, 2}), (Shape{12, 2}));
}

TEST(PieceWindow, ASourceWithoutElementsNeedsOneElement) {
  Transfer transfer;
  transfer.source_shape = {0, 4};
  transfer.map.digits = {{0, 4, 4}, {4, 1, 1}};
  EXPECT_EQ(piece_window(leaf_with({0, 4}), transfer, cells_of({1, 4})), (Shape{1, 1}));
}

TEST(PieceWindow, ElementsThatAreRepeatedHaveNone) {
  Transfer transfer;
  transfer.source_shape = {6};
  transfer.map.digits = {{2, 0, 6}, {6, 1, 1}};
  EXPECT_EQ(piece_window(leaf_with({2, 6}), transfer, cells_of({3})), std::nullopt);
  transfer.map.digits = {{1, 0, 6}, {6, 1, 1}};
  EXPECT_EQ(piece_window(leaf_with({1, 6}), transfer, cells_of({3})), (Shape{1, 3}));
}

}  // namespace
}  // namespace hfshard
