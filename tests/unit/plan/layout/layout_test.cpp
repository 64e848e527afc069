#include "plan/layout/layout.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/layout/split_arrays.h"
#include "plan/layout/unit.h"
#include "plan/pair_layout.h"
#include "support/catch_error.h"
#include "unit/plan/unread_arrays.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Two layers of [8, 6], each compressed in one piece.
class TwoLayers final : public UnreadArrays {
 public:
  TwoLayers() { add_compressed({8, 6}, {"layers.0", "layers.1"}); }
};

// Returns the totals of a leaf of both layers, transposed.
LayoutTotals totals_of_layers(const Shape& chunk) {
  CompiledModel compiled;
  compiled.rules = {"rule"};
  Leaf& leaf = compiled.leaves.emplace_back();
  leaf.name = "layers";
  leaf.shape = {2, 6, 8};
  Transfer& transfer = compiled.transfers.emplace_back();
  transfer.loops = {{2, 48}};
  transfer.sources = {0, 1};
  transfer.source_shape = {8, 6};
  transfer.map.digits = {{6, 1, 8}, {8, 6, 1}};
  const auto model = make_model(std::make_shared<TwoLayers>(), std::move(compiled));
  const Limits limits;
  CutLeaves leaves;
  leaves.split = split_arrays(*model, std::vector<std::uint32_t>{0, 1}, limits);
  const Grid grid{model->leaves[0].shape, chunk, chunk};
  PieceForm form;
  form.cell_bytes = 2 * chunk.numel();
  leaves.grids.push_back(grid);
  leaves.units.push_back(
      make_unit_form(model->leaves[0], grid, model->leading_to(0), form, limits));
  return Layout(model, leaves, limits, false).totals();
}

// All arrays that a unit reads are unpacked at the same time.
TEST(Layout, TheDiskForUnpackedArraysIsThatOfAllArraysOfAUnit) {
  const std::uint64_t layer_bytes = 2 * 8 * 6;
  EXPECT_EQ(totals_of_layers({1, 6, 4}).unpacked_bytes, layer_bytes);
  EXPECT_EQ(totals_of_layers({2, 6, 4}).unpacked_bytes, 2 * layer_bytes);
}

TEST(Layout, APlanHasAtMost268435456Groups) {
  CompiledModel compiled;
  compiled.rules = {"rule"};
  compiled.leaves.resize(1);
  const auto model = make_model(std::make_shared<TwoLayers>(), std::move(compiled));
  CutLeaves leaves;
  leaves.grids.push_back(Grid{});
  UnitForm unit;
  unit.groups = (1U << 28) + 1;
  leaves.units.push_back(unit);
  const Error error = catch_error([&] { Layout(model, leaves, {}, false); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(),
            "the output has 268435457 groups of chunks, and a plan holds at most 268435456");
  EXPECT_EQ(error.hint_text(), "pass a larger --chunk-bytes");
}

// An array of [8, 6] in one piece, of which any bytes can be read.
class OpenPiece final : public UnreadArrays {
 public:
  OpenPiece() {
    add_compressed({8, 6}, {"stack"});
    catalog_.cuts[0].codecs = {"bytes"};
    catalog_.cuts[0].addressable = true;
  }
};

// Makes a leaf of the array.
Transfer read_as(const Shape& shape, const IndexMap& map, CompiledModel& compiled) {
  compiled.rules = {"rule"};
  Leaf& leaf = compiled.leaves.emplace_back();
  leaf.name = "leaf" + std::to_string(compiled.leaves.size());
  leaf.shape = shape;
  Transfer transfer;
  transfer.target = static_cast<std::uint32_t>(compiled.leaves.size() - 1);
  transfer.sources = {0};
  transfer.source_shape = {8, 6};
  transfer.map = map;
  return transfer;
}

struct Read {
  Shape leaf;
  IndexMap map;
};

// Returns how an array is read that is too long to be unpacked whole.
SplitArrays split_of(const std::vector<Read>& reads, bool decoded = false) {
  CompiledModel compiled;
  for (const Read& read : reads) {
    Transfer transfer = read_as(read.leaf, read.map, compiled);
    if (decoded) transfer.decode = std::make_shared<const Decode>();
    compiled.transfers.push_back(transfer);
  }
  Limits limits;
  limits.unpack_bytes = 0;
  limits.part_run_bytes = 2;
  const auto model = make_model(std::make_shared<OpenPiece>(), std::move(compiled));
  return split_arrays(*model, std::vector<std::uint32_t>{0}, limits);
}

const Read kRows{{8, 6}, {0, 0, {{8, 6, 6}, {6, 1, 1}}}};
const Read kTurned{{6, 8}, {0, 0, {{6, 1, 8}, {8, 6, 1}}}};

TEST(SplitArrays, AnArrayIsReadInPlaceOnlyIfEveryRuleReadsItInOrder) {
  EXPECT_TRUE(split_of({kRows, kRows}).reads_in_place(0));
  for (const auto& reads : {std::vector{kTurned}, {kTurned, kRows}, {kRows, kTurned}}) {
    const SplitArrays split = split_of(reads);
    EXPECT_TRUE(split.in_place.empty());
    EXPECT_EQ(split.unpacked.size(), 1U);
  }
}

TEST(SplitArrays, ReversedAndRepeatedElementsAreOutOfOrder) {
  const Read reversed{{8, 6}, {5, 0, {{8, 6, 6}, {6, -1, 1}}}};
  const Read repeated{{8, 6, 2}, {0, 0, {{8, 6, 12}, {6, 1, 2}, {2, 0, 1}}}};
  EXPECT_TRUE(split_of({reversed}).in_place.empty());
  EXPECT_TRUE(split_of({repeated}).in_place.empty());
}

// A decoder reads whole arrays.
TEST(SplitArrays, AnArrayOfCodesIsUnpackedWhole) {
  const Read layer{{8}, {2, 0, {{8, 6, 1}}}};
  const SplitArrays values = split_of({layer});
  EXPECT_TRUE(values.reads_in_place(0));
  const SplitArrays codes = split_of({layer}, true);
  ASSERT_EQ(codes.unpacked.size(), 1U);
  EXPECT_TRUE(codes.in_place.empty());
  EXPECT_TRUE(codes.unpacked[0].row_major);
  EXPECT_EQ(codes.unpacked[0].parts({8, 6}), 1U);
}

// The leaf has column 2 twice.
TEST(SplitArrays, ARuleThatRepeatsElementsTakesOneIndexOfTheOtherAxes) {
  const Read twice{{2, 8}, {2, 0, {{2, 0, 8}, {8, 6, 1}}}};
  const SplitArrays split = split_of({twice});
  ASSERT_EQ(split.unpacked.size(), 1U);
  EXPECT_EQ(split.unpacked[0].parts({8, 6}), 6U);
  EXPECT_TRUE(split.unpacked[0].is_parted(1));
}

TEST(UnpackedForm, TheLastPartEndsWithTheArray) {
  UnpackedForm form;
  form.grid.chunk = {1, 6};
  form.file_order = {0, 1};
  form.parted = 1;
  form.span = 3;
  const Shape shape{8, 6};
  ASSERT_EQ(form.parts(shape), 3U);
  EXPECT_EQ(form.box_of(shape, 1).begin, (Shape{3, 0}));
  EXPECT_EQ(form.box_of(shape, 1).extent, (Shape{3, 6}));
  EXPECT_EQ(form.box_of(shape, 2).begin, (Shape{6, 0}));
  EXPECT_EQ(form.box_of(shape, 2).extent, (Shape{2, 6}));
  EXPECT_EQ(form.part_of(shape, 47), 2U);
}

// Columns are the slowest axis of this file.
TEST(UnpackedForm, PartsFollowTheOrderOfTheFile) {
  UnpackedForm form;
  form.grid.chunk = {2, 1};
  form.file_order = {1, 0};
  form.parted = 1;
  form.span = 2;
  const Shape shape{5, 3};
  EXPECT_EQ(form.parts(shape), 2U);
  EXPECT_TRUE(form.is_parted(1));
  EXPECT_FALSE(form.is_parted(0));
  EXPECT_EQ(form.part_of(shape, 1), 0U) << "column 1 of row 0";
  EXPECT_EQ(form.part_of(shape, 3 + 2), 1U) << "column 2 of row 1";
  EXPECT_EQ(form.box_of(shape, 0).extent, (Shape{5, 2}));
  EXPECT_EQ(form.box_of(shape, 1).begin, (Shape{0, 2}));
  EXPECT_EQ(form.box_of(shape, 1).extent, (Shape{5, 1}));
  EXPECT_EQ(form.piece_begin(shape, {0, 0}), 0U);
  EXPECT_EQ(form.piece_begin(shape, {2, 0}), 4U);
  EXPECT_EQ(form.piece_begin(shape, {1, 1}), 8U) << "behind the three pieces of a column";
  EXPECT_EQ(form.piece_begin(shape, {1, 2}), 2U) << "the next part begins anew";
  EXPECT_EQ(form.elements(shape), 12U) << "with what a ragged piece has more";
  form.row_major = true;
  EXPECT_EQ(form.elements(shape), 15U);
}

TEST(UnpackedForm, FormsAreFoundByTheirArrayAndTheirParts) {
  std::vector<UnpackedForm> forms(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    forms[i].array = 2 * i + 1;
    forms[i].first = 4 * i;
  }
  EXPECT_EQ(find_form(forms, 3), &forms[1]);
  for (const std::uint32_t array : {0U, 2U, 6U}) EXPECT_EQ(find_form(forms, array), nullptr);
  EXPECT_EQ(form_of_part(forms, 0).array, 1U);
  EXPECT_EQ(form_of_part(forms, 3).array, 1U);
  EXPECT_EQ(form_of_part(forms, 4).array, 3U);
  EXPECT_EQ(form_of_part(forms, 100).array, 5U);
}

// One plain tensor.
class PlainTensor final : public UnreadArrays {
 public:
  explicit PlainTensor(const Shape& shape) {
    TensorInfo& info = catalog_.tensors.emplace_back();
    info.name = "x";
    info.shape = shape;
    info.size_bytes = 2 * shape.numel();
  }
};

// Returns a model with one leaf of [64, 48], whose tensor may be transposed.
std::shared_ptr<const Model> model_of(bool turned) {
  CompiledModel compiled;
  const IndexMap map = turned ? IndexMap{0, 0, {{64, 1, 48}, {48, 64, 1}}}
                              : IndexMap{0, 0, {{64, 48, 48}, {48, 1, 1}}};
  Transfer transfer = read_as({64, 48}, map, compiled);
  transfer.source_shape = turned ? Shape{48, 64} : Shape{64, 48};
  compiled.transfers.push_back(transfer);
  return make_model(std::make_shared<PlainTensor>(transfer.source_shape), std::move(compiled));
}

// Returns the totals of two leaves that are both the array of [8, 6].
LayoutTotals totals_of_two(const std::shared_ptr<const Checkpoint>& source) {
  CompiledModel compiled;
  for (int i = 0; i < 2; ++i)
    compiled.transfers.push_back(read_as(kRows.leaf, kRows.map, compiled));
  const auto model = make_model(source, std::move(compiled));
  const Limits limits;
  CutLeaves leaves;
  leaves.split = split_arrays(*model, std::vector<std::uint32_t>{0}, limits);
  PieceForm form;
  form.cell_bytes = 2 * kRows.leaf.numel();
  for (std::uint32_t leaf = 0; leaf < 2; ++leaf) {
    leaves.grids.push_back(Grid{kRows.leaf, kRows.leaf, kRows.leaf});
    leaves.units.push_back(make_unit_form(model->leaves[leaf], leaves.grids.back(),
                                          model->leading_to(leaf), form, limits));
  }
  return Layout(model, leaves, limits, false).totals();
}

// A run reads a tensor for each of its leaves.
TEST(Layout, AnArrayInPiecesIsReadOnce) {
  constexpr std::uint64_t kArray = 2 * 8 * 6;
  const LayoutTotals plain = totals_of_two(std::make_shared<PlainTensor>(kRows.leaf));
  EXPECT_EQ(plain.source_bytes, 2 * kArray);
  EXPECT_EQ(plain.shared_tensors, 1U);
  const LayoutTotals pieces = totals_of_two(std::make_shared<TwoLayers>());
  EXPECT_EQ(pieces.source_bytes, kArray);
  EXPECT_EQ(pieces.shared_tensors, 0U);
  EXPECT_EQ(totals_of_layers({1, 6, 4}).source_bytes, 2 * kArray);
}

// Returns the bytes that are compared at a time.
std::uint64_t compared_at_once(bool turned_left, bool turned_right, std::uint64_t slab_bytes) {
  Limits limits;
  limits.merge_bytes = 1024;
  limits.floor_bytes = 1;
  limits.run_bytes = 2;
  limits.slab_bytes = slab_bytes;
  const PairLayout pair(model_of(turned_left), model_of(turned_right), limits);
  return pair.left().units()[0].region_bytes();
}

// A row of one side is a column of the other.
TEST(PairLayout, NoRowsOfEitherSideAreCut) {
  EXPECT_EQ(compared_at_once(false, false, 1 << 20), 192U);
  EXPECT_EQ(compared_at_once(true, true, 1 << 20), 256U);
  EXPECT_EQ(compared_at_once(false, true, 1 << 20), 6144U);
  EXPECT_EQ(compared_at_once(true, false, 1 << 20), 6144U);
}

TEST(PairLayout, AUnitHasAtMostHalfOfASlab) {
  EXPECT_EQ(compared_at_once(false, true, 2 * 6144), 6144U);
  const Error error = catch_error([] { compared_at_once(false, true, 2 * 6144 - 2); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.tensor(), "leaf1");
  EXPECT_EQ(catch_error([] { compared_at_once(true, false, 8192); }).sentence(),
            "one row of this array matches 6 KiB of the other checkpoint's, and hfshard holds at "
            "most 4 KiB at once");
}

}  // namespace
}  // namespace hfshard
