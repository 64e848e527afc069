#include "run/check/compare.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/pair_layout.h"
#include "support/catch_error.h"
#include "unit/run/engine/stacks.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// An error for each piece of an array.
class RefusedPiece final : public PieceReader {
 public:
  explicit RefusedPiece(Error error) : error_(std::move(error)) {}
  void read(std::span<std::byte> /*out*/) override { throw error_; }
  void skip(std::uint64_t /*bytes*/) override {}

 private:
  Error error_;
};

// Two stacks, one of which can't be read.
class HalfReadable final : public stacks::Stack {
 public:
  HalfReadable(const Shape& shape, std::uint32_t refused, ErrorCode code)
      : Stack(shape, std::vector(2, Grid{shape, shape, shape})), refused_(refused), code_(code) {}
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    if (array != refused_) return Stack::open_piece(array, piece, steps, scratch);
    return std::make_unique<RefusedPiece>(Error(code_, "the bytes are refused")
                                              .in_file("d/0")
                                              .in_tensor(catalog().tensors[array].name));
  }

 private:
  std::uint32_t refused_;
  ErrorCode code_;
};

// Leaves of two stacks with two layers each, on both sides: one of the first layers of both stacks,
// and one for each last layer.
class ComparedStacks : public testing::Test {
 protected:
  static CompiledModel leaves() {
    CompiledModel out;
    out.rules = {"rule"};
    stacks::add_layer(kShape, 0, 0, false, out);
    Transfer second = out.transfers[0];
    second.sources = {1};
    second.map.dst_base = kShape[0] * kShape[2];
    out.leaves[0].shape[0] *= 2;
    out.transfers.push_back(second);
    for (const std::uint32_t array : {0U, 1U}) stacks::add_layer(kShape, array, 1, false, out);
    const char* names[] = {"both", "first", "second"};
    for (std::size_t i = 0; i < 3; ++i) out.leaves[i].name = names[i];
    return out;
  }
  static std::shared_ptr<const Model> refusing(std::uint32_t array,
                                               ErrorCode code = ErrorCode::corrupt) {
    return make_model(std::make_shared<HalfReadable>(kShape, array, code), leaves());
  }
  static std::shared_ptr<const Model> whole(CompiledModel model = leaves()) {
    return make_model(
        std::make_shared<stacks::Stack>(kShape, std::vector(2, Grid{kShape, kShape, kShape})),
        std::move(model));
  }
  static CompareResult compared(const std::shared_ptr<const Model>& left,
                                const std::shared_ptr<const Model>& right) {
    const PairLayout pair(left, right, {});
    EXPECT_EQ(pair.left().unpacked().size(), 2U);
    EXPECT_EQ(pair.right().unpacked().size(), 2U);
    QuietReporter quiet;
    return compare_pair(pair, {}, to_output(""), quiet);
  }

  inline static const Shape kShape{4, 2, 6};
};

TEST_F(ComparedStacks, OnlyLeavesOfADamagedArrayAreDamaged) {
  for (const bool in_a : {true, false}) {
    for (const std::uint32_t array : {0U, 1U}) {
      SCOPED_TRACE(testing::Message() << in_a << " " << array);
      const auto damaged = refusing(array);
      const CompareResult found = in_a ? compared(damaged, whole()) : compared(whole(), damaged);
      EXPECT_EQ(found.compared_bytes, 2U * 2 * kShape.numel());
      ASSERT_EQ(found.leaves.size(), 2U);
      EXPECT_EQ(found.leaves[0].leaf, 0U);
      EXPECT_EQ(found.leaves[1].leaf, 1 + array);
      for (const LeafDifference& leaf : found.leaves) {
        EXPECT_EQ(leaf.elements.count, 0U);
        ASSERT_EQ(leaf.damage.size(), 1U);
        EXPECT_EQ(leaf.damage[0].in_a, in_a);
        EXPECT_EQ(leaf.damage[0].tensor, array == 0 ? "stack1" : "stack2");
        EXPECT_EQ(leaf.damage[0].message, "the bytes are refused");
        EXPECT_EQ(leaf.damage[0].file, "d/0");
        EXPECT_EQ(leaf.damage[0].places, 1U);
      }
    }
  }
}

// Each side reads its own part of a unit, so damage of one doesn't hide the other's.
TEST_F(ComparedStacks, DamageOfBothSidesIsListedForEach) {
  const CompareResult found = compared(refusing(0), refusing(1, ErrorCode::not_found));
  ASSERT_EQ(found.leaves.size(), 3U);
  ASSERT_EQ(found.leaves[0].damage.size(), 2U);
  EXPECT_TRUE(found.leaves[0].damage[0].in_a);
  EXPECT_EQ(found.leaves[0].damage[0].tensor, "stack1");
  EXPECT_FALSE(found.leaves[0].damage[1].in_a);
  EXPECT_EQ(found.leaves[0].damage[1].tensor, "stack2");
  ASSERT_EQ(found.leaves[1].damage.size(), 1U);
  EXPECT_EQ(found.leaves[1].damage[0].tensor, "stack1");
  ASSERT_EQ(found.leaves[2].damage.size(), 1U);
  EXPECT_EQ(found.leaves[2].damage[0].tensor, "stack2");
}

TEST_F(ComparedStacks, ArraysNextToADamagedOneAreStillCompared) {
  CompiledModel other = leaves();
  other.transfers.back().map.src_base = 0;  // the other layer
  const CompareResult found = compared(refusing(0), whole(other));
  ASSERT_EQ(found.leaves.size(), 3U);
  EXPECT_EQ(found.leaves[2].leaf, 2U);
  EXPECT_TRUE(found.leaves[2].damage.empty());
  EXPECT_EQ(found.leaves[2].elements.count, kShape[0] * kShape[2]);
  EXPECT_EQ(found.leaves[2].elements.first, 0U);
  const auto bytes = [](std::uint64_t element) {
    const std::uint16_t value = stacks::value_of(element, 1);
    const auto span = std::as_bytes(std::span(&value, 1));
    return std::vector<std::byte>(span.begin(), span.end());
  };
  EXPECT_EQ(found.leaves[2].left, bytes(kShape[2]));
  EXPECT_EQ(found.leaves[2].right, bytes(0));
}

// Reads a stack with other values of some elements.
class ChangedPiece final : public PieceReader {
 public:
  ChangedPiece(std::unique_ptr<PieceReader> of, const std::vector<std::uint64_t>& elements)
      : of_(std::move(of)), elements_(elements) {}
  void read(std::span<std::byte> out) override {
    of_->read(out);
    for (std::size_t at = 0; at < out.size(); at += 2) {
      for (const std::uint64_t element : elements_) {
        const std::uint16_t value = stacks::value_of(element);  // no other element has it
        if (std::memcmp(&out[at], &value, 2) == 0) out[at] ^= std::byte{1};
      }
    }
  }
  void skip(std::uint64_t bytes) override { of_->skip(bytes); }

 private:
  std::unique_ptr<PieceReader> of_;
  const std::vector<std::uint64_t>& elements_;
};

class ChangedStack final : public stacks::Stack {
 public:
  ChangedStack(const Shape& shape, const Grid& grid, std::vector<std::uint64_t> elements)
      : Stack(shape, {grid}), elements_(std::move(elements)) {}
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    return std::make_unique<ChangedPiece>(Stack::open_piece(array, piece, steps, scratch),
                                          elements_);
  }

 private:
  std::vector<std::uint64_t> elements_;
};

// A leaf that is compared chunk by chunk, as its array is stored. The last chunks of each axis end
// beyond it.
class ComparedChunks : public testing::Test {
 protected:
  // Finds the differences from a stack in which these elements differ.
  static LeafDifference compared(const std::vector<std::uint64_t>& elements) {
    Limits limits;
    limits.merge_bytes = 2000;  // two chunks, one tile
    const PairLayout pair(model({}), model(elements), limits);
    EXPECT_EQ(pair.left().grids()[0].chunk, kGrid.chunk);
    QuietReporter quiet;
    const CompareResult found = compare_pair(pair, {}, to_output(""), quiet);
    EXPECT_EQ(found.compared_bytes, 2 * kShape.numel());
    EXPECT_EQ(found.leaves.size(), 1U);
    return found.leaves.empty() ? LeafDifference{} : found.leaves.front();
  }
  static std::shared_ptr<const Model> model(const std::vector<std::uint64_t>& elements) {
    CompiledModel out;
    out.rules = {"rule"};
    Leaf& leaf = out.leaves.emplace_back();
    leaf.name = "leaf";
    leaf.shape = kShape;
    Transfer& transfer = out.transfers.emplace_back();
    transfer.sources = {0};
    transfer.source_shape = kShape;
    transfer.map = identity_map(kShape);
    return make_model(std::make_shared<ChangedStack>(kShape, kGrid, elements), std::move(out));
  }
  static std::vector<std::byte> bytes(std::uint64_t element, bool changed) {
    const std::uint16_t value = stacks::value_of(element);
    const auto span = std::as_bytes(std::span(&value, 1));
    std::vector<std::byte> out(span.begin(), span.end());
    if (changed) out[0] ^= std::byte{1};
    return out;
  }

  inline static const Shape kShape{7, 3, 100};
  inline static const Grid kGrid{{4, 2, 60}, {4, 2, 60}, {4, 2, 60}};
};

TEST_F(ComparedChunks, EachElementCountsWhereverItsChunkEnds) {
  for (const std::uint64_t element :
       {std::uint64_t{0}, std::uint64_t{59}, std::uint64_t{60}, std::uint64_t{99},
        std::uint64_t{3 * 300 + 199}, std::uint64_t{4 * 300 - 1}, std::uint64_t{6 * 300},
        kShape.numel() - 1}) {
    SCOPED_TRACE(element);
    const LeafDifference found = compared({element});
    EXPECT_EQ(found.elements.count, 1U);
    EXPECT_EQ(found.elements.first, element);
    EXPECT_EQ(found.left, bytes(element, false));
    EXPECT_EQ(found.right, bytes(element, true));
    EXPECT_TRUE(found.damage.empty());
  }
}

// A chunk's elements lie between those of the others.
TEST_F(ComparedChunks, TheFirstElementIsShownWhicheverChunkHasIt) {
  for (const std::vector<std::uint64_t>& elements :
       {std::vector<std::uint64_t>{60, 300}, std::vector<std::uint64_t>{0, 60},
        std::vector<std::uint64_t>{59, 60, 1199}}) {
    SCOPED_TRACE(elements.front());
    const LeafDifference found = compared(elements);
    EXPECT_EQ(found.elements.count, elements.size());
    EXPECT_EQ(found.elements.first, elements.front());
    EXPECT_EQ(found.left, bytes(elements.front(), false));
    EXPECT_EQ(found.right, bytes(elements.front(), true));
  }
}

// Only damage is a result.
TEST_F(ComparedStacks, AnErrorOfTheSystemEndsTheComparison) {
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::conflict}) {
    const Error error = catch_error([&] { compared(whole(), refusing(1, code)); });
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.sentence(), "the bytes are refused");
    EXPECT_EQ(error.tensor(), "stack2");
  }
}

}  // namespace
}  // namespace hfshard
