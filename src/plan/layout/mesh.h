#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "ops/transfer.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A device mesh: axis names with sizes, as typed: `fsdp=16,expert=2`. Absent axes have size 1.
struct Mesh {
  using Axis = MeshAxis;
  std::vector<Axis> axes;
  std::uint64_t size_of(std::string_view name) const noexcept;
};

/// Logical axis rules in order: (logical name, mesh axes).
struct AxisRules {
  struct Rule {
    std::string logical;
    std::vector<std::string> mesh_axes;
  };
  std::vector<Rule> rules;
  /// Returns every mesh axis in the rules, sorted.
  std::vector<std::string> mesh_axes() const;
};

/// Parses rules in the form of `axis_rules` in mappings/common.json: [["vocab", ["tensor", ...]],
/// ...]. Throws: bad_input naming the file and the entry.
AxisRules parse_axis_rules(std::string_view text, std::string_view name);

/// Adds a rule for each axis of the leaves whose name is its place on a mesh (axis_on_mesh).
void add_mesh_rules(const std::vector<Leaf>& leaves, AxisRules& rules);

/// Lets a mesh have more axes, which shard nothing by themselves.
void add_mesh_axes(const std::vector<std::string>& axes, AxisRules& rules);

/// Parses `fsdp=16,expert=2`. Throws: usage for an unknown or repeated axis (with similar names), a
/// size of zero.
Mesh parse_mesh(std::string_view text, const AxisRules& rules);
std::string to_string(const Mesh& mesh);

/// Returns the mesh axes per dimension for the logical axes of one leaf. A rule applies completely
/// or not at all, in the order of the rules. Mesh axes of size one count as used. Source:
/// google/flax flax/linen/spmd.py, _logical_to_mesh_axes.
std::vector<std::vector<std::string>> logical_to_mesh_axes(const std::vector<std::string>& axes,
                                                           const AxisRules& rules);

/// Returns the number of shards per dimension of a leaf on a mesh. Throws: bad_input if the shards
/// don't divide a dimension (names leaf, axis, extent, mesh axes), unless `uneven`
/// (FileLayout::ceil_shards).
Shape shard_counts(const Leaf& leaf, const AxisRules& rules, const Mesh& mesh, bool uneven = false);

/// Returns the default mesh: fsdp of the largest power of two <= 16 that divides every dimension
/// that the rules split by fsdp.
Mesh default_mesh(const std::vector<Leaf>& leaves, const AxisRules& rules);

}  // namespace hfshard
