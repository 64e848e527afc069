#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "unit/plan/compile/compile_reference.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {

// Per leaf, the origin of each element: tensor << 32 | offset. For fills, all ones and a scalar.
using Traces = std::vector<std::vector<std::uint64_t>>;
constexpr std::uint64_t kFill = std::uint64_t{0xffffffff} << 32;

inline Traces traces_of(const CompiledModel& model) {
  Traces out;
  for (const Leaf& leaf : model.leaves) out.emplace_back(leaf.shape.numel());
  for (const Transfer& transfer : model.transfers) {
    for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
      const std::uint64_t offset = reference::loop_offset(transfer, s);
      const std::uint64_t tensor = std::uint64_t{transfer.sources[s]} << 32;
      reference::for_each_element(transfer.map, [&](std::uint64_t src, std::uint64_t dst) {
        out[transfer.target].at(dst + offset) = tensor | src;
      });
    }
  }
  for (const Fill& fill : model.fills) {
    reference::for_each_element(fill.map, [&](std::uint64_t, std::uint64_t dst) {
      out[fill.target].at(dst) = kFill | static_cast<std::uint32_t>(fill.scalar * 1000);
    });
  }
  return out;
}

// Returns the first origins, through a tree whose own elements come from `before`.
inline Traces traced(Traces traces, const Traces& before) {
  for (auto& leaf : traces) {
    for (std::uint64_t& element : leaf) {
      if (element < kFill) element = before.at(element >> 32).at(element & 0xffffffffU);
    }
  }
  return traces;
}

// Arrays x, y and z of two elements each, and a leaf that is made of the tensors between.
struct HandMade {
  HandMade() {
    for (const char* name : {"x", "y", "z"}) tree.add(name, {2});
    back.rules = {"back"};
    forward.rules = {"forward"};
    forward.scheme = "maxtext";
  }

  // Adds a tensor whose elements from `at` on are those of an array.
  void part(std::uint32_t tensor, std::uint32_t array, std::uint64_t at, Value value = {}) {
    Transfer from;
    from.target = tensor;
    from.sources = {array};
    from.source_shape = tree.tensors[array].shape;
    from.source_dtype = tree.tensors[array].dtype;
    from.map = {0, at, {{from.source_shape.numel(), 1, 1}}};
    from.value = value;
    back.transfers.push_back(from);
  }

  // Leaves elements of an array out.
  void drop(std::uint32_t array, const IndexMap& map) {
    Drop rest;
    rest.source = array;
    rest.map = map;
    back.drops.push_back(rest);
  }

  void tensor(const char* name, const Shape& shape) {
    Leaf leaf;
    leaf.name = name;
    leaf.shape = shape;
    back.leaves.push_back(leaf);
  }

  // Makes a leaf of the first tensors, one after another.
  void onward(std::uint64_t tensors, std::uint64_t elements, Value value = {}) {
    Leaf leaf;
    leaf.name = "leaf";
    leaf.shape = {tensors * elements};
    forward.leaves = {leaf};
    Transfer to;
    to.source_shape = {elements};
    to.map.digits = {{elements, 1, 1}};
    to.value = value;
    for (std::uint32_t i = 0; i < tensors; ++i) to.sources.push_back(i);
    if (tensors > 1) to.loops = {{tensors, static_cast<std::int64_t>(elements)}};
    forward.transfers = {to};
  }

  CompiledModel through() const { return compile_through(back, forward, tree); }

  bool is_right(const CompiledModel& made) const {
    return traces_of(made) == traced(traces_of(forward), traces_of(back));
  }

  FakeCatalog tree;
  CompiledModel back;
  CompiledModel forward;
};

}  // namespace hfshard
