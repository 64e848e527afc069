// Executes random rules like a run. The target is cut into a grid of packed chunks, the source into
// bands, and every (chunk, band) part is moved separately. The chunks must equal the result of the
// whole rule, and the inverse must restore the source.

#include <algorithm>

#include <gtest/gtest.h>

#include "ops/move.h"
#include "unit/ops/reference.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;
using reference::random_rule;
using reference::Rule;

constexpr std::uint64_t kMoveSeed = 4711;
constexpr int kMoveRounds = 300;

std::vector<std::byte> random_bytes(Random& random, std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random() & 0xffU);
  return out;
}

/// Calls visit(box) for each chunk of a grid. Edge chunks are clipped.
template <typename Visit>
void for_each_chunk(const Shape& shape, const Shape& chunk, Visit visit) {
  Box box{shape, shape};
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) box.begin[axis] = 0;
  for (;;) {
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
      box.extent[axis] = std::min(chunk[axis], shape[axis] - box.begin[axis]);
    }
    visit(box);
    std::size_t axis = shape.rank();
    for (; axis > 0; --axis) {
      box.begin[axis - 1] += chunk[axis - 1];
      if (box.begin[axis - 1] < shape[axis - 1]) break;
      box.begin[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

Shape random_chunk(Random& random, const Shape& shape) {
  Shape chunk = shape;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    chunk[axis] = pick(random, 1, shape[axis]);
  return chunk;
}

/// Moves the part of a rule inside `box`, band by band, into a packed buffer of the box.
void fill_chunk(const Rule& rule, const Box& box, const Shape& band, std::size_t element_bytes,
                std::span<const std::byte> src, std::span<std::byte> out) {
  std::vector<IndexMap> in_box;
  restrict_to(rule.map, rule.dst_shape, box, in_box);
  for (const IndexMap& part : in_box) {
    const IndexMap packed = rebase_to_box(part, rule.dst_shape, box);
    const IndexMap turned = split_by_axes(inverse(packed), rule.src_shape);
    for_each_chunk(rule.src_shape, band, [&](const Box& rows) {
      std::vector<IndexMap> in_band;
      restrict_to(turned, rule.src_shape, rows, in_band);
      for (const IndexMap& piece : in_band) move_elements(inverse(piece), element_bytes, src, out);
    });
  }
}

TEST(MoveProperty, ChunksFilledBandByBandHoldWhatTheRuleSays) {
  Random random(kMoveSeed);
  for (int i = 0; i < kMoveRounds; ++i) {
    const Rule rule = random_rule(random, 4, 9);
    const std::size_t bytes = std::size_t{1} << pick(random, 0, 3);
    const std::vector<std::byte> src = random_bytes(random, rule.src_shape.numel() * bytes);
    std::vector<std::byte> whole(rule.dst_shape.numel() * bytes);
    reference::move_elements(rule.map, bytes, src.data(), whole.data());
    const Shape strides = rule.dst_shape.strides();
    const Shape band = random_chunk(random, rule.src_shape);
    for_each_chunk(rule.dst_shape, random_chunk(random, rule.dst_shape), [&](const Box& box) {
      std::vector<std::byte> chunk(box.extent.numel() * bytes);
      fill_chunk(rule, box, band, bytes, src, chunk);
      std::vector<std::byte> expected(chunk.size());
      IndexMap window;
      for (std::size_t axis = 0; axis < strides.rank(); ++axis) {
        window.src_base += box.begin[axis] * strides[axis];
        window.digits.push_back({box.extent[axis], static_cast<std::int64_t>(strides[axis]),
                                 static_cast<std::int64_t>(box.extent.strides()[axis])});
      }
      reference::move_elements(window, bytes, whole.data(), expected.data());
      ASSERT_TRUE(chunk == expected) << "round " << i << " of seed " << kMoveSeed;
    });
  }
}

TEST(MoveProperty, InverseBringsTheSourceBack) {
  Random random(kMoveSeed + 1);
  for (int i = 0; i < kMoveRounds; ++i) {
    const Rule rule = random_rule(random, 5, 9);
    const std::size_t bytes = std::size_t{1} << pick(random, 0, 4);
    const std::vector<std::byte> src = random_bytes(random, rule.src_shape.numel() * bytes);
    std::vector<std::byte> dst(rule.dst_shape.numel() * bytes);
    std::vector<std::byte> back = src;
    for (const auto& pair : reference::pairs(rule.map)) {
      std::fill_n(back.begin() + static_cast<std::ptrdiff_t>(pair.first * bytes), bytes,
                  std::byte{0});
    }
    move_elements(rule.map, bytes, src, dst);
    move_elements(inverse(rule.map), bytes, dst, back);
    ASSERT_TRUE(back == src) << "round " << i << " of seed " << kMoveSeed + 1;
  }
}

TEST(MoveProperty, ChunksOfAnyGridTileTheTarget) {
  Random random(kMoveSeed + 2);
  for (int i = 0; i < kMoveRounds; ++i) {
    const Rule rule = random_rule(random, 4, 9);
    std::vector<IndexMap> parts;
    for_each_chunk(rule.dst_shape, random_chunk(random, rule.dst_shape),
                   [&](const Box& box) { restrict_to(rule.map, rule.dst_shape, box, parts); });
    const bool whole = rule.map.count() == rule.dst_shape.numel();
    EXPECT_EQ(tiles_exactly(rule.dst_shape.numel(), parts, Side::target).found, !whole);
    const bool all_used = rule.map.count() == rule.src_shape.numel();
    EXPECT_EQ(tiles_exactly(rule.src_shape.numel(), parts, Side::source).found, !all_used);
  }
}

}  // namespace
}  // namespace hfshard
