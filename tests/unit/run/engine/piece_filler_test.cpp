// Rows of a source are hashed from the bands that hfshard reads, if those have whole rows. Other
// rows are gathered from the region. The digests are the same.

#include "run/engine/piece_filler.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "run/engine/unit_filler.h"
#include "run/engine/unpacked.h"
#include "support/temp_dir.h"
#include "unit/run/engine/stacks.h"

namespace hfshard {
namespace {

// Fills the layers of a stack, and compares their values and digests with those that are expected.
class FilledLayers : public testing::Test {
 protected:
  void expect_filled(const Grid& grid, bool addressable, std::uint64_t segment_bytes,
                     std::uint32_t row = 0, bool turned = false) const {
    SCOPED_TRACE(testing::Message() << "cells " << to_string(grid.inner) << ", in place "
                                    << addressable << ", segment " << segment_bytes);
    CompiledModel compiled = stacks::layers_of(shape_, turned);
    for (Transfer& transfer : compiled.transfers) transfer.row = row;
    const Layout layout = layout_of(std::move(compiled), grid, addressable, segment_bytes);
    const Model& model = layout.model();
    EXPECT_EQ(layout.unpacked().empty(), addressable && grid.order.empty() && !turned);
    std::vector<std::uint16_t> space(layout.end_address() / 2, 0xbeef);
    const std::vector<Digest128> sums = fill(layout, std::as_writable_bytes(std::span(space))).sums;
    for (const Group& group : layout.groups()) {
      const Transfer& transfer = model.transfers[group.leaf];
      for (std::uint64_t i = 0; i < shape_[0]; ++i) {
        for (std::uint64_t j = 0; j < shape_[2]; ++j) {
          const std::uint64_t to = turned ? j * shape_[0] + i : i * shape_[2] + j;
          ASSERT_EQ(space[group.address / 2 + to],
                    stacks::value_of((i * shape_[1] + group.leaf) * shape_[2] + j));
        }
      }
      EXPECT_EQ(sums[model.digest_slot(group.leaf, 0)],
                stacks::rows_of(transfer, model.leaves[group.leaf]));
    }
  }
  Layout layout_of(CompiledModel compiled, const Grid& grid, bool addressable,
                   std::uint64_t segment_bytes) const {
    const auto model =
        make_model(std::make_shared<stacks::Stack>(shape_, std::vector{grid}, addressable),
                   std::move(compiled));
    Limits limits;
    limits.unpack_bytes = 0;
    limits.part_run_bytes = 0;
    limits.segment_bytes = segment_bytes;
    return {model, stacks::cut_leaves(model, limits), limits, false};
  }
  struct Filled {
    std::vector<Digest128> sums;
    std::uint64_t overflows = 0;
  };
  Filled fill(const Layout& layout, std::span<std::byte> space) const {
    const TempDir dir;
    const RunOptions options;
    OpenSources sources;
    UnpackedArrays unpacked(layout, dir / "", 0, sources, options);
    const UnitFiller filler(layout, sources);
    Arena arena(std::uint64_t{1} << 20);
    Filled out{std::vector<Digest128>(layout.model().digest_slots()), 0};
    for (UnitRef at; at.group < layout.groups().size(); at = layout.next(at)) {
      unpacked.make_ready(at, arena);
      std::vector<std::byte> scratch(filler.scratch_bytes(at));
      std::vector<SlotDigest> digests;
      out.overflows += filler.fill(
          at, space.subspan(layout.address_of(at), layout.region_bytes(at)), scratch, digests);
      for (const SlotDigest& digest : digests) out.sums[digest.slot] += digest.sum;
    }
    return out;
  }

  const Shape shape_{3, 2, 100};
};

Grid in_cells(const Shape& cell, const std::vector<std::uint8_t>& order = {}) {
  return {cell, cell, cell, order};
}

// A row has 200 bytes. Buffers are multiples of 64 bytes.
TEST_F(FilledLayers, ARowCanBeLongerThanABand) {
  for (const bool addressable : {true, false}) {
    for (const std::uint64_t segment : {64U, 192U, 200U, 256U, 4096U})
      expect_filled(in_cells({3, 2, 100}), addressable, segment);
  }
}

TEST_F(FilledLayers, ACellCanBeWiderThanTheArray) {
  for (const bool addressable : {true, false}) {
    for (const std::uint64_t segment : {64U, 200U, 4096U})
      expect_filled(in_cells({2, 1, 130}), addressable, segment);
  }
}

TEST_F(FilledLayers, CellsCanEndWithinARow) {
  for (const bool addressable : {true, false}) {
    for (const std::uint64_t segment : {64U, 4096U})
      expect_filled(in_cells({3, 2, 30}), addressable, segment);
  }
}

TEST_F(FilledLayers, ACellCanHaveSeveralShortRows) {
  for (const bool addressable : {true, false}) {
    for (const std::uint32_t row : {10U, 50U}) {
      for (const std::uint64_t segment : {64U, 4096U})
        expect_filled(in_cells({3, 2, 50}), addressable, segment, row);
    }
  }
}

TEST_F(FilledLayers, RowsNeedNotBeConsecutiveInTheSourceOrTheLeaf) {
  for (const std::uint64_t segment : {64U, 4096U}) {
    expect_filled(in_cells({3, 2, 100}, {2, 0, 1}), true, segment);
    expect_filled(in_cells({3, 2, 100}, {1, 0, 2}), true, segment);
    expect_filled(in_cells({3, 2, 100}), true, segment, 0, /*turned=*/true);
  }
}

TEST_F(FilledLayers, OverflowsAreCountedInEachBand) {
  std::uint64_t wanted = 0;
  for (std::uint64_t i = 0; i < shape_.numel(); ++i) {
    const unsigned size = stacks::value_of(i) & 0x7fffU;    // of a bf16, without its sign
    wanted += size >= 0x4780U && size < 0x7f80U ? 1U : 0U;  // from 65536 to the largest finite one
  }
  for (const bool addressable : {true, false}) {
    for (const std::uint64_t segment : {64U, 192U, 4096U}) {
      CompiledModel compiled = stacks::layers_of(shape_, /*turned=*/false);
      for (Leaf& leaf : compiled.leaves) leaf.dtype = DType::f16;
      const Layout layout = layout_of(std::move(compiled), in_cells(shape_), addressable, segment);
      std::vector<std::byte> space(layout.end_address());
      EXPECT_EQ(fill(layout, space).overflows, wanted) << addressable << " " << segment;
    }
  }
}

}  // namespace
}  // namespace hfshard
