#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Sets the axes of a leaf by its name, from known leaves and from the user's --axes.
void name_axes(const SameOptions& same, Leaf& leaf) {
  const auto known = std::ranges::lower_bound(same.known, leaf.name, {}, &Leaf::name);
  if (known != same.known.end() && known->name == leaf.name && known->shape == leaf.shape) {
    leaf.axes = known->axes;
    leaf.stacked = known->stacked;
  }
  for (const AxesOf& item : same.axes) {
    if (!glob_match(item.glob, leaf.name)) continue;
    if (item.axes.size() != leaf.shape.rank()) {
      throw Error(ErrorCode::usage, fmt::format("--axes {}={} names {} of {} axes: this leaf is {}",
                                                item.glob, join(item.axes, ","), item.axes.size(),
                                                leaf.shape.rank(), to_string(leaf.shape)))
          .in_tensor(leaf.name);
    }
    leaf.axes = item.axes;
    leaf.stacked.clear();
  }
}

// Sets the axes of the mesh on which the array was sharded when it was saved.
void name_sharded_axes(const ArraySharding& sharding, Leaf& leaf) {
  if (!leaf.axes.empty()) return;
  for (const std::vector<std::string>& axes : sharding.mesh_axes)
    leaf.axes.push_back(axes.empty() ? std::string() : axis_on_mesh(axes));
}

}  // namespace

AxesOf parse_axes(std::string_view text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) {
    throw Error(ErrorCode::usage,
                fmt::format("--axes needs GLOB=AXIS,AXIS,..., not {}", quote(text)))
        .hint(
            "write one axis for each dimension, and nothing for a dimension without an axis: "
            "'*.kernel=embed,,mlp'");
  }
  AxesOf out{std::string(text.substr(0, at)), {}};
  const std::string_view names = text.substr(at + 1);
  if (!names.empty()) out.axes = split(names, ',');
  return out;
}

void keep_leaves(CompiledModel& model, const std::function<bool(const Leaf&)>& keeps) {
  HFSHARD_CHECK(model.fills.empty());
  constexpr std::uint32_t kGone = UINT32_MAX;
  std::vector<Leaf> kept;
  std::vector<std::uint32_t> numbers;
  for (Leaf& leaf : model.leaves) {
    const bool stays = keeps(leaf);
    numbers.push_back(stays ? static_cast<std::uint32_t>(kept.size()) : kGone);
    if (stays) kept.push_back(std::move(leaf));
  }
  std::erase_if(model.transfers,
                [&](const Transfer& transfer) { return numbers[transfer.target] == kGone; });
  for (Transfer& transfer : model.transfers) transfer.target = numbers[transfer.target];
  model.leaves = std::move(kept);
}

CompiledModel compile_same(const Catalog& catalog, const MappingOptions& options,
                           const SameOptions& same) {
  ModelBuilder builder(catalog, options);
  builder.model().family = kNoFamily;
  for (const AxesOf& item : same.axes) {
    const auto matches = [&](const TensorInfo& info) { return glob_match(item.glob, info.name); };
    if (std::ranges::any_of(catalog.tensors, matches)) continue;
    throw Error(ErrorCode::usage, fmt::format("--axes {} doesn't match any {}", quote(item.glob),
                                              catalog.wording.array))
        .hint("a glob must match a whole name, as hfshard inspect prints it");
  }
  compile_hf(builder);
  CompiledModel model = builder.finish();
  for (Leaf& leaf : model.leaves) name_axes(same, leaf);
  if (catalog.shardings.empty()) return model;
  for (const Transfer& transfer : model.transfers)
    name_sharded_axes(catalog.shardings[transfer.sources.front()], model.leaves[transfer.target]);
  return model;
}

}  // namespace hfshard
