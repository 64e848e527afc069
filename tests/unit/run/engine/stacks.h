#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "catalog/checkpoint.h"
#include "ops/source_rows.h"
#include "plan/compile/model.h"
#include "plan/layout/layout.h"
#include "plan/layout/source_choice.h"
#include "plan/layout/split_arrays.h"

namespace hfshard::stacks {

/// Returns the value of a stack's element, given by its place in the flattened array.
inline std::uint16_t value_of(std::uint64_t element, std::uint32_t array = 0) {
  return static_cast<std::uint16_t>((element + 5000 * std::uint64_t{array}) * 40503 + 7);
}

/// Reads the bytes of a piece, cell by cell. Bytes outside of the array aren't zero.
class StackReader final : public PieceReader {
 public:
  explicit StackReader(std::vector<std::uint16_t> values) : values_(std::move(values)) {}
  void read(std::span<std::byte> out) override {
    ASSERT_LE(at_ + out.size(), 2 * values_.size());
    std::memcpy(out.data(), std::as_bytes(std::span(values_)).data() + at_, out.size());
    at_ += out.size();
  }
  void skip(std::uint64_t bytes) override { at_ += bytes; }

 private:
  std::vector<std::uint16_t> values_;
  std::size_t at_ = 0;
};

/// Stacks of one shape with three axes, in pieces.
class Stack : public Checkpoint {
 public:
  /// Has an array for each grid.
  Stack(const Shape& shape, const std::vector<Grid>& grids, bool addressable = false) {
    for (const Grid& grid : grids) {
      auto& cut = catalog_.cuts.emplace_back();
      cut.grid = grid;
      cut.codecs = {addressable ? "bytes" : "zstd"};
      cut.addressable = addressable;
      TensorInfo& info = catalog_.tensors.emplace_back();
      info.name = "stack" + std::to_string(catalog_.cuts.size());
      info.shape = shape;
      info.cut = static_cast<std::uint32_t>(catalog_.cuts.size() - 1);
    }
  }
  const Catalog& catalog() const override { return catalog_; }
  bool has_piece(std::uint32_t, const Shape&) const override { return true; }
  std::uint64_t scratch_bytes(std::uint32_t, PieceSteps) const override { return 0; }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps,
                                          std::span<std::byte>) const override {
    const Shape& shape = catalog_.tensors[0].shape;
    const Grid& grid = catalog_.cuts[array].grid;
    std::vector<std::uint16_t> values;
    for_each_chunk(chunk_counts(grid.chunk, grid.inner), [&](const Shape& cell) {
      Shape stored = grid.inner;  // its stored extents
      for (std::size_t k = 0; k < 3; ++k) stored[k] = grid.inner[axis(array, k)];
      for_each_chunk(stored, [&](const Shape& at) {
        std::uint64_t element = 0;
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::size_t k = d == axis(array, 0) ? 0 : d == axis(array, 1) ? 1 : 2;
          const std::uint64_t x = piece[d] * grid.chunk[d] + cell[d] * grid.inner[d] + at[k];
          inside = inside && x < shape[d];
          element = element * shape[d] + x;
        }
        values.push_back(inside ? value_of(element, array) : std::uint16_t{0xdead});
        return true;
      });
      return true;
    });
    return std::make_unique<StackReader>(std::move(values));
  }

 private:
  std::size_t axis(std::uint32_t array, std::size_t k) const {
    const auto& order = catalog_.cuts[array].grid.order;
    return order.empty() ? k : order[k];
  }
  Catalog catalog_;
};

/// Adds a leaf for one index of the middle axis of a stack.
inline void add_layer(const Shape& shape, std::uint32_t array, std::uint64_t layer, bool turned,
                      CompiledModel& model) {
  Transfer& transfer = model.transfers.emplace_back();
  transfer.target = static_cast<std::uint32_t>(model.leaves.size());
  Leaf& leaf = model.leaves.emplace_back();
  leaf.name = "layer" + std::to_string(100 + layer);
  leaf.shape = turned ? Shape{shape[2], shape[0]} : Shape{shape[0], shape[2]};
  transfer.sources = {array};
  transfer.source_shape = shape;
  transfer.map.src_base = layer * shape[2];
  const auto step = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const std::int64_t row = step(shape[1] * shape[2]);
  transfer.map.digits = turned ? DigitList{{shape[2], 1, step(shape[0])}, {shape[0], row, 1}}
                               : DigitList{{shape[0], row, step(shape[2])}, {shape[2], 1, 1}};
}

/// Makes a leaf for every index of the middle axis.
inline CompiledModel layers_of(const Shape& shape, bool turned) {
  CompiledModel out;
  out.rules = {"rule"};
  for (std::uint64_t layer = 0; layer < shape[1]; ++layer) add_layer(shape, 0, layer, turned, out);
  return out;
}

/// Cuts the leaves of a model. Each array's pieces feed several of them.
inline CutLeaves cut_leaves(const std::shared_ptr<const Model>& model, const Limits& limits) {
  CutLeaves out;
  std::vector<std::uint32_t> arrays(model->catalog().tensors.size());
  std::iota(arrays.begin(), arrays.end(), 0U);
  out.split = split_arrays(*model, arrays, limits);
  for (std::uint32_t i = 0; i < model->leaves.size(); ++i) {
    const Leaf& leaf = model->leaves[i];
    const auto transfers = model->leading_to(i);
    const SourceChoice source = choose_source(*model, leaf, transfers, out.split, limits);
    EXPECT_FALSE(source.pieces.has_value());
    const PieceForm form{packed_bytes(leaf.dtype, leaf.shape.numel())};
    UnitForm unit = make_sliced_unit(leaf, transfers, form, limits);
    unit.scratch_bytes = std::max(unit.scratch_bytes, source.split_scratch_bytes);
    out.grids.push_back({leaf.shape, leaf.shape, leaf.shape});
    out.units.push_back(unit);
  }
  return out;
}

/// Returns the sum of a layer's rows, each hashed alone.
inline Digest128 rows_of(const Transfer& transfer, const Leaf& leaf) {
  Digest128 sum;
  const Shape& shape = transfer.source_shape;
  const std::uint64_t row = row_length(transfer);
  for (std::uint64_t i = 0; i < shape[0]; ++i) {
    for (std::uint64_t j = 0; j < shape[2]; j += row) {
      const std::uint64_t begin = (i * shape[1] + transfer.target) * shape[2] + j;
      std::vector<std::uint16_t> values;
      for (std::uint64_t k = 0; k < row; ++k) values.push_back(value_of(begin + k));
      sum += hash_block(begin, std::as_bytes(std::span(values)));
    }
  }
  EXPECT_EQ(size_bits(leaf.dtype), 16U);
  return sum;
}

}  // namespace hfshard::stacks
