#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/transfer.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// One device mesh: axis names with sizes, as typed: `fsdp=16,expert=2`. Axes that are absent have
/// size 1.
struct Mesh {
  struct Axis {
    std::string name;
    std::uint64_t size = 1;
  };
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
  /// Every mesh axis that a rule names, sorted.
  std::vector<std::string> mesh_axes() const;
};

/// Parses rules in the form of `axis_rules` of mappings/common.json: [["vocab", ["tensor", ...]],
/// ...]. Throws: bad_input naming the file and the entry.
AxisRules parse_axis_rules(std::string_view text, std::string_view name);

/// Adds a rule for each axis of the leaves that is named by where it lies on a mesh (axis_on_mesh).
void add_mesh_rules(const std::vector<Leaf>& leaves, AxisRules& rules);

/// Parses `fsdp=16,expert=2`. Throws: usage for an unknown or repeated axis (with near names), a
/// size of zero.
Mesh parse_mesh(std::string_view text, const AxisRules& rules);
std::string to_string(const Mesh& mesh);

/// Mesh axes per dimension for the logical axes of one leaf. A rule is taken whole or not at all,
/// in the order of the rules; mesh axes of size one count as in use. Source: google/flax
/// flax/linen/spmd.py, _logical_to_mesh_axes.
std::vector<std::vector<std::string>> logical_to_mesh_axes(const std::vector<std::string>& axes,
                                                           const AxisRules& rules);

/// Number of shards per dimension of a leaf on a mesh. Throws: bad_input when a dimension does not
/// divide (names leaf, axis, extent, mesh axes), unless `uneven` (FileLayout::ceil_shards).
Shape shard_counts(const Leaf& leaf, const AxisRules& rules, const Mesh& mesh, bool uneven = false);

/// The mesh used when the user names none: fsdp of the largest power of two <= 16 that divides
/// every dimension that the rules split by fsdp.
Mesh default_mesh(const std::vector<Leaf>& leaves, const AxisRules& rules);

}  // namespace hfshard
