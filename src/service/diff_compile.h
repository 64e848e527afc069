#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/compile/model.h"
#include "service/diff_sides.h"

#include "hfshard/diff.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// The scheme of a model's own names.
inline constexpr std::string_view kNamesScheme = "hf";

/// Returns whether the conversion to a tree left out or dropped a tensor of its model.
using LeftOutBefore = std::function<bool(std::string_view)>;

/// Compiles the tree that a model becomes. Leaves out a tensor that the tree has no place for, if
/// diff's own --include or --exclude or `before` does. Throws: as compile_source, with hints for
/// diff.
CompiledModel compile_tree(const DiffSide& model, const MappingOptions& mapping,
                           const DiffOptions& options, const LeftOutBefore& before = {});

/// Compiles the tree of a model that is compared with `tree`. Without a known mapping, uses the
/// scheme and layout that match the most names. Throws: as compile_source, if no scheme fits.
CompiledModel compile_as(const DiffSide& model, const DiffSide& tree,
                         const std::optional<MappingOptions>& known, const DiffOptions& options);

/// Returns how many of the leaves' names a tree has.
std::uint64_t shared_names(const std::vector<Leaf>& leaves, const Catalog& tree);

/// Compiles two checkpoints to the main scheme with `compile`, and with each part of --with that
/// both have. Throws: as `compile`, for the scheme without parts.
SidesTogether with_parts(const std::function<SidesTogether(const MappingOptions&)>& compile);

/// Converts a tree to the layout of another one, whose catalog has its scheme's names. `known`: the
/// mapping that made that one. If it's missing, its names choose one. Returns nothing if they don't
/// agree with any scheme. Throws: internal.
std::optional<ModelSide> in_layout_of(const Catalog& wanted,
                                      const std::optional<MappingOptions>& known,
                                      const DiffSide& tree, const TreeOptions& asked);

}  // namespace hfshard
