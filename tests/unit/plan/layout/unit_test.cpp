// Tests which chunks a unit has, and what it needs.

#include "plan/layout/unit.h"

#include <memory>

#include <gtest/gtest.h>

#include "bytes/local/source.h"
#include "plan/layout/band.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

Leaf leaf_of(const Shape& shape) {
  Leaf leaf;
  leaf.name = "params.params.x";
  leaf.shape = shape;
  return leaf;
}

// Returns the map [rows, cols] -> [cols, rows].
Transfer transposed(std::uint64_t rows, std::uint64_t cols) {
  Transfer transfer;
  transfer.source_shape = {rows, cols};
  transfer.sources = {0};
  transfer.map.digits = {{cols, 1, static_cast<std::int64_t>(rows)},
                         {rows, static_cast<std::int64_t>(cols), 1}};
  return transfer;
}

PieceForm plain(const Grid& grid) {
  PieceForm form;
  form.cell_bytes = 2 * grid.chunk.numel();
  return form;
}

UnitForm unit_of(const Leaf& leaf, const Shape& chunk, const Transfer& transfer,
                 const Limits& limits) {
  const Grid grid{leaf.shape, chunk, chunk};
  const Transfer* const all[] = {&transfer};
  return make_unit_form(leaf, grid, all, plain(grid), limits);
}

// A source row is hashed whole and read once, so its chunks are in one unit.
TEST(Unit, TheAxisAlongASourceRowIsClosed) {
  Limits limits;
  limits.alignment_bytes = 64;
  limits.run_bytes = 1;
  const UnitForm unit = unit_of(leaf_of({12, 40}), {3, 10}, transposed(40, 12), limits);
  EXPECT_TRUE(unit.closed(0));
  EXPECT_FALSE(unit.closed(1));
  EXPECT_EQ(unit.chunks_per_unit, 4U);
  EXPECT_EQ(unit.units_per_group, 4U);
  EXPECT_EQ(unit.stride_bytes, 64U);
  EXPECT_EQ(unit.region_bytes(), 256U);
}

// Short runs are read together, up to the size for merging.
TEST(Unit, ShortRunsAreClosedUpToWhatMayBeMerged) {
  Limits limits;
  limits.alignment_bytes = 64;
  const auto closed = [&](std::uint64_t run_bytes, std::uint64_t merge_bytes) {
    limits.run_bytes = run_bytes;
    limits.merge_bytes = merge_bytes;
    return bool(unit_of(leaf_of({12, 40}), {3, 10}, transposed(40, 12), limits).closed(1));
  };
  // A unit reads 10 rows of 12 elements: 240 bytes. All 16 chunks take 1024.
  EXPECT_FALSE(closed(240, 1 << 20));
  EXPECT_TRUE(closed(241, 1 << 20));
  EXPECT_TRUE(closed(241, 1024));
  EXPECT_FALSE(closed(241, 1023));
}

TEST(Unit, ARowThatFeedsMoreThanIsHeldAtOnceIsRefusedByName) {
  Limits limits;
  limits.alignment_bytes = 16;
  limits.run_bytes = 1;
  limits.slab_bytes = 192;  // 4 chunks of 60 bytes, aligned: 256
  const Leaf leaf = leaf_of({12, 40});
  EXPECT_EQ(unit_of(leaf, {3, 10}, transposed(40, 12), limits).region_bytes(), 256U);
  limits.slab_bytes = 191;
  const Error error = catch_error([&] { unit_of(leaf, {3, 10}, transposed(40, 12), limits); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.tensor(), leaf.name);
  EXPECT_NE(error.sentence().find(" 256 B "), std::string::npos) << error.sentence();
  EXPECT_NE(error.sentence().find(" 191 B "), std::string::npos) << error.sentence();
  EXPECT_FALSE(error.hint_text().empty());
}

// The growth of frames beyond their content is no reason to refuse.
TEST(Unit, TheGrowthOfFramesDoesNotCountAgainstTheSlab) {
  Limits limits;
  limits.alignment_bytes = 1;
  limits.run_bytes = 1;
  limits.slab_bytes = 240;  // 4 chunks of 60 bytes
  const Leaf leaf = leaf_of({12, 40});
  const Grid grid{leaf.shape, {3, 10}, {3, 10}};
  PieceForm form = plain(grid);
  form.cell_growth_bytes = 100;
  const Transfer transfer = transposed(40, 12);
  const Transfer* const all[] = {&transfer};
  EXPECT_EQ(make_unit_form(leaf, grid, all, form, limits).region_bytes(), 640U);
}

// The scratch is that of the leaf's largest rule, or of the encoder if it needs more.
TEST(Unit, TheScratchIsThatOfTheGreediestUser) {
  const Leaf leaf = leaf_of({12, 40});
  const Grid grid{leaf.shape, {3, 10}, {3, 10}};
  const Transfer plain_one = transposed(40, 12);
  Transfer wide = plain_one;
  wide.source_dtype = DType::f32;
  Limits limits;
  const std::uint64_t little = band_form(plain_one, leaf.dtype, limits).scratch_bytes();
  const std::uint64_t much = band_form(wide, leaf.dtype, limits).scratch_bytes();
  ASSERT_GT(much, little);
  PieceForm form = plain(grid);
  for (const std::vector<const Transfer*>& order :
       {std::vector<const Transfer*>{&plain_one, &wide}, {&wide, &plain_one}}) {
    EXPECT_EQ(make_unit_form(leaf, grid, order, form, limits).scratch_bytes, much);
  }
  form.scratch_bytes = much + 1;
  EXPECT_EQ(make_unit_form(leaf, grid, std::vector{&plain_one}, form, limits).scratch_bytes,
            much + 1);
}

TEST(Unit, TheBoxOfAnEdgeChunkEndsWithTheLeaf) {
  Limits limits;
  limits.run_bytes = 1;
  const Leaf leaf = leaf_of({12, 40});
  const Grid grid{leaf.shape, {12, 16}, {12, 16}};
  const UnitForm unit = unit_of(leaf, grid.chunk, transposed(40, 12), limits);
  ASSERT_EQ(unit.units_per_group, 3U);
  const Box box = unit_box(leaf, grid, unit, unit_origin(unit, 0, 2));
  EXPECT_EQ(box.begin, (Shape{0, 32}));
  EXPECT_EQ(box.extent, (Shape{12, 8}));
}

// Checks every buffer of the run's scratch by hand.
TEST(Unit, ABandSaysAllItsBuffers) {
  Limits limits;
  limits.segment_bytes = 1000;
  limits.run_bytes = 100;
  Transfer transfer;
  transfer.source_shape = {300, 128};
  BandForm form = band_form(transfer, DType::bf16, limits);
  EXPECT_EQ(form.row, 128U);
  EXPECT_EQ(form.most, 500U);
  EXPECT_EQ(form.gap, 50U);
  EXPECT_EQ(form.raw_bytes, 1024U + kViewSlackBytes);
  EXPECT_EQ(form.converted_bytes, 0U);
  EXPECT_EQ(form.scale_bytes, 0U);
  EXPECT_GE(form.row_bytes, 256U);
  EXPECT_GE(band_form(transfer, DType::f32, limits).converted_bytes, 2000U);
  EXPECT_GE(band_form(transfer, DType::f32, limits).row_bytes, 512U);
  limits.segment_bytes = 10;  // a row is never split
  EXPECT_EQ(band_form(transfer, DType::f32, limits).raw_bytes, 256U + kViewSlackBytes);
  EXPECT_GE(band_form(transfer, DType::f32, limits).converted_bytes, 512U);
  Decode decode{{Code::f8_e4m3, DType::f32, 300, 128, 1, 1}, {}};
  transfer.decode = std::make_shared<const Decode>(decode);
  transfer.source_dtype = DType::f8_e4m3;
  EXPECT_GE(band_form(transfer, DType::bf16, limits).scale_bytes, 2U * 128 * 4);
  decode.form.code = Code::f4_e2m1;  // 64 bytes of codes, and shared bytes
  transfer.decode = std::make_shared<const Decode>(decode);
  transfer.source_dtype = DType::f4;
  EXPECT_EQ(band_form(transfer, DType::bf16, limits).raw_bytes, 128U + kViewSlackBytes);
}

}  // namespace
}  // namespace hfshard
