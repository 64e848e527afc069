#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Axes of a leaf by its name, from what is known of other leaves and from the user's own words.
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

// Those of the mesh along which the array was sharded when it was saved.
void name_sharded_axes(const ArraySharding& sharding, Leaf& leaf) {
  if (!leaf.axes.empty() || sharding.mesh_axes.empty()) return;
  for (const std::vector<std::string>& axes : sharding.mesh_axes)
    leaf.axes.push_back(axes.empty() ? std::string() : axis_on_mesh(axes));
}

}  // namespace

AxesOf parse_axes(std::string_view text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) {
    throw Error(ErrorCode::usage,
                fmt::format("--axes takes GLOB=AXIS,AXIS,..., not {}", quote(text)))
        .hint("one axis per dim, nothing between commas where one has none: '*.kernel=embed,,mlp'");
  }
  AxesOf out{std::string(text.substr(0, at)), {}};
  const std::string_view names = text.substr(at + 1);
  if (!names.empty()) out.axes = split(names, ',');
  return out;
}

CompiledModel compile_same(const Catalog& catalog, const MappingOptions& options,
                           const SameOptions& same) {
  ModelBuilder builder(catalog, options);
  builder.model().family = "hf";
  for (const AxesOf& item : same.axes) {
    const auto matches = [&](const TensorInfo& info) { return glob_match(item.glob, info.name); };
    if (std::ranges::any_of(catalog.tensors, matches)) continue;
    throw Error(ErrorCode::usage,
                fmt::format("--axes {} matches no {}", quote(item.glob), catalog.wording.array))
        .hint("a glob is for a whole name, as hfshard inspect prints them");
  }
  if (const auto found = catalog.find(same.left_out)) {
    builder.drop_whole(*found, builder.rule("reshard"), "written anew");
    builder.mark(*found, TensorUse::excluded);
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
