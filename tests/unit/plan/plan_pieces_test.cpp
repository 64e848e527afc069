// Plans of checkpoints whose arrays are cut into pieces.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/layout/piece_window.h"
#include "plan/plan.h"
#include "unit/plan/unread_arrays.h"

namespace hfshard {
namespace {

// An array of [8, 6] in one piece, of which any bytes can be read with this much memory.
class PlacedPiece final : public UnreadArrays {
 public:
  static constexpr std::uint64_t kReaderBytes = 1 << 20;
  PlacedPiece() {
    add_compressed({8, 6}, {"stack"});
    catalog_.cuts[0].addressable = true;
  }
  std::uint64_t scratch_bytes(std::uint32_t /*array*/, PieceSteps /*steps*/) const override {
    return kReaderBytes;
  }
};

// Plans a leaf of the rows of the array from `begin` on, in chunks of one row.
Plan plan_of_rows(std::uint64_t begin, const Limits& limits) {
  CompiledModel compiled;
  compiled.family = compiled.scheme = "test";
  compiled.rules = {"rule"};
  const std::uint64_t rows = 8 - begin;
  Leaf& leaf = compiled.leaves.emplace_back();
  leaf.name = "leaf";
  leaf.shape = {rows, 6};
  leaf.axes = {"", ""};
  Transfer& transfer = compiled.transfers.emplace_back();
  transfer.sources = {0};
  transfer.source_shape = {8, 6};
  transfer.map = {begin * 6, 0, {{rows, 6, 6}, {6, 1, 1}}};
  PlanOptions options;
  options.rules_text = R"([["rows", ["fsdp"]]])";
  options.meshes = {"fsdp=1"};
  options.chunk_bytes = 12;
  const auto form = [](const Leaf& of, const Grid& grid) {
    PieceForm out;
    out.cell_bytes = packed_bytes(of.dtype, grid.chunk.numel());
    return out;
  };
  return build_plan(make_model(std::make_shared<PlacedPiece>(), std::move(compiled)), options, form,
                    {}, limits);
}

Limits without_alignment() {
  Limits out;
  out.alignment_bytes = 1;
  out.run_bytes = 1;
  out.part_run_bytes = 1;
  return out;
}

// Other rows of the piece belong elsewhere.
TEST(PlanPieces, APieceThatIsReadInPlaceNeedsTheMemoryOfItsReader) {
  Limits limits = without_alignment();
  limits.unpack_bytes = 1;
  const Plan plan = plan_of_rows(4, limits);
  EXPECT_EQ(plan.split().in_place, std::vector<std::uint32_t>{0});
  const Transfer& transfer = plan.model().transfers[0];
  const Grid piece{{8, 6}, {8, 6}, {8, 6}};
  const std::uint64_t bytes =
      piece_bands(transfer, DType::bf16, piece, PlacedPiece::kReaderBytes, limits).scratch_bytes();
  EXPECT_GE(bytes, PlacedPiece::kReaderBytes);
  EXPECT_EQ(plan.units()[0].scratch_bytes, bytes);
}

// A unit with all that the piece feeds has eight rows of twelve bytes.
TEST(PlanPieces, APieceThatFeedsMoreThanAUnitHoldsIsUnpacked) {
  Limits limits = without_alignment();
  const auto spans = [&] { return plan_of_rows(0, limits).units()[0].span; };
  limits.slab_bytes = 96 - 8;
  EXPECT_TRUE(plan_of_rows(0, limits).unpacked().empty()) << "a byte for each chunk comes on top";
  EXPECT_EQ(spans(), (Shape{8, 1}));
  limits.slab_bytes = 96 - 9;
  ASSERT_EQ(plan_of_rows(0, limits).unpacked().size(), 1U);
  EXPECT_EQ(plan_of_rows(0, limits).unpacked()[0].array, 0U);
  EXPECT_EQ(spans(), (Shape{1, 1}));
}

}  // namespace
}  // namespace hfshard
