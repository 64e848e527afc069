// Units of leaves that are stored whole: slices without gaps, which are shorter at the ends of
// axes.

#include <gtest/gtest.h>

#include "plan/layout/unit.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

struct Sliced {
  Leaf leaf;
  UnitForm unit;
};

// Returns a leaf that equals its source.
Sliced sliced(const Shape& shape, std::uint64_t wanted_bytes, DType dtype = DType::bf16) {
  Limits limits;
  limits.merge_bytes = 4 * wanted_bytes;
  Sliced out;
  out.leaf.name = "x";
  out.leaf.dtype = dtype;
  out.leaf.shape = shape;
  Transfer transfer;
  transfer.source_shape = shape;
  transfer.source_dtype = dtype;
  transfer.sources = {0};
  const Shape strides = shape.strides();
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    const auto step = static_cast<std::int64_t>(strides[d]);
    transfer.map.digits.push_back({shape[d], step, step});
  }
  PieceForm form;
  form.cell_bytes = shape.numel() == 0 ? 0 : packed_bytes(dtype, shape.numel());
  const Transfer* const all[] = {&transfer};
  out.unit = make_sliced_unit(out.leaf, all, form, limits);
  EXPECT_EQ(out.unit.form.cell_bytes, form.cell_bytes);
  return out;
}

// The boxes of all units are the packed rows, in order.
void expect_rows(const Sliced& made, std::uint64_t most_bytes) {
  const UnitForm& unit = made.unit;
  const Shape& shape = made.leaf.shape;
  const Shape strides = shape.strides();
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < unit.units_per_group; ++i) {
    EXPECT_EQ(unit_offset(unit, i), at);
    EXPECT_EQ(unit_at_offset(unit, at), i);
    const Box box = unit_box(made.leaf, {}, unit, unit_origin(unit, 0, i));
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    for (std::size_t d = 0; d < shape.rank(); ++d) {
      first += box.begin[d] * strides[d];
      last += (box.begin[d] + box.extent[d] - 1) * strides[d];
    }
    EXPECT_EQ(packed_bytes(made.leaf.dtype, first), at);
    EXPECT_EQ(last - first + 1, box.extent.numel());  // no hole
    const std::uint64_t size = unit_offset(unit, i + 1) - at;
    EXPECT_EQ(packed_bytes(made.leaf.dtype, box.extent.numel()), size);
    EXPECT_LE(size, most_bytes);
    at += size;
  }
  EXPECT_EQ(at, packed_bytes(made.leaf.dtype, shape.numel()));
}

TEST(SlicedUnit, ARaggedLeafHasAShortLastSlice) {
  const Sliced made = sliced({151673, 8}, 1000);
  EXPECT_EQ(made.unit.slices->slice_rows, 62U);
  EXPECT_EQ(made.unit.units_per_group, 2447U);
  EXPECT_EQ(made.unit.groups, 1U);
  EXPECT_EQ(made.unit.region_bytes(), 992U);
  expect_rows(made, 992);
  const std::uint64_t last = made.unit.units_per_group - 1;
  EXPECT_EQ(unit_offset(made.unit, last + 1) - unit_offset(made.unit, last), 21U * 16);
}

TEST(SlicedUnit, AnAxisOfWhichOneIndexIsTooMuchIsTakenOneByOne) {
  const Sliced made = sliced({3, 7, 5, 4}, 100);
  EXPECT_EQ(made.unit.slices->extent, (Shape{1, 2, 5, 4}));
  EXPECT_EQ(made.unit.units_per_group, 12U);
  expect_rows(made, 80);
  expect_rows(sliced({3, 1, 7, 5, 4}, 100), 80);
  expect_rows(sliced({2, 3, 7, 11}, 1), 22);  // a source row is never cut
}

TEST(SlicedUnit, WhatIsSmallIsOneSlice) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{5, 3}, Shape{2, 3, 4}}) {
    const Sliced made = sliced(shape, 1000, DType::u8);
    EXPECT_EQ(made.unit.units_per_group, 1U);
    expect_rows(made, shape.numel());
  }
}

TEST(SlicedUnit, WhatIsEmptyHasNone) {
  for (const Shape& shape : {Shape{0}, Shape{4, 0}, Shape{0, 4}, Shape{3, 0, 5}}) {
    const Sliced made = sliced(shape, 8);
    EXPECT_EQ(made.unit.units_per_group, 0U);
    EXPECT_EQ(unit_offset(made.unit, 0), 0U);
  }
}

TEST(SlicedUnit, ASliceHasAllThatASourceRowFeeds) {
  Sliced made = sliced({40, 12}, 50);
  Transfer turned;  // a source of [12, 40]
  turned.source_shape = {12, 40};
  turned.sources = {0};
  turned.map.digits = {{12, 40, 1}, {40, 1, 12}};
  const Transfer* const all[] = {&turned};
  Limits limits;
  limits.merge_bytes = 200;
  made.unit = make_sliced_unit(made.leaf, all, made.unit.form, limits);
  EXPECT_EQ(made.unit.units_per_group, 1U);
  limits.slab_bytes = 2 * 40 * 12 - 1;
  const Error error =
      catch_error([&] { make_sliced_unit(made.leaf, all, made.unit.form, limits); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.tensor(), "x");
}

// A transposed matrix with shortened rows. Its slices are multiples of a row, and longer than
// others, since each source row is read in runs of that length.
TEST(SlicedUnit, ShortRowsLetATransposedLeafBeCut) {
  Sliced made = sliced({40, 12}, 50);
  Transfer turned;
  turned.source_shape = {12, 40};
  turned.sources = {0};
  turned.map.digits = {{12, 40, 1}, {40, 1, 12}};
  turned.row = 8;
  const Transfer* const all[] = {&turned};
  Limits limits;
  limits.merge_bytes = 110;
  made.unit = make_sliced_unit(made.leaf, all, made.unit.form, limits);
  EXPECT_EQ(made.unit.slices->slice_rows, 16U);  // 9 rows of 24 bytes, and then to a multiple of 8
  EXPECT_EQ(made.unit.units_per_group, 3U);
  expect_rows(made, 16 * 24);
}

}  // namespace
}  // namespace hfshard
