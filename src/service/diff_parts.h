#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "plan/compile/model.h"
#include "plan/compile/pair.h"
#include "service/diff_sides.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns the options that keep a tree's own names.
MappingOptions names_options();
/// Returns a side's arrays under their own names.
ModelSide by_names(const DiffSide& side);

/// Returns a model's tensors under their names. Codes with their own scales become values, and
/// other tensors keep their dtypes. Returns nothing if that isn't possible.
std::optional<CompiledModel> decoded_names(const Catalog& catalog, const Catalog& other);

/// Returns how many names two checkpoints share.
std::uint64_t shared_names(const Catalog& a, const Catalog& b);
/// Returns how many leaves' names two compiled models share.
std::size_t shared_leaves(const CompiledModel& a, const CompiledModel& b);

/// Returns the recorded mapping that made a tree. It omits options that only choose dtypes or
/// tensors, since those make real differences.
std::optional<MappingOptions> known_mapping(const DiffSide& tree);

// In the following, `which` is the side: A or B.

/// Leaves out a tree's leaves that aren't parameters, such as an optimizer's. The model has nothing
/// to compare them with.
void leave_out_others(const std::vector<Leaf>& parameters, std::string_view which,
                      CompiledModel& tree, SidesTogether& out);
/// Adds a note on arrays that the compiled model drops. `made`: what they have no place in.
void note_drops(const CompiledModel& model, const Catalog& catalog, std::string_view which,
                std::string_view made, SidesTogether& out);
/// Adds the notes of a tree that was read under other names. They name what was left out.
void add_notes(const Checkpoint& renamed, const DiffSide& tree, std::string_view which,
               SidesTogether& out);

/// Sets both sides, the first as A or as B.
void set_sides(bool first_is_a, ModelSide first, ModelSide second, SidesTogether& out);

}  // namespace hfshard
