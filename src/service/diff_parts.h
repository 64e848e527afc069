#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "plan/compile/model.h"
#include "plan/compile/pair.h"
#include "service/diff_sides.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// Returns the options that keep a tree's own names.
MappingOptions names_options();
/// Returns the options with which a tree is opened: the config of --config, or else this one, if
/// it isn't empty.
TreeOptions tree_options(const DiffOptions& options, const std::string& config);
/// Returns a side's arrays under their own names.
ModelSide by_names(const DiffSide& side);

/// Returns a model's tensors under their names. Codes with their own scales become values, and
/// other tensors keep their dtypes. Returns nothing if that isn't possible.
std::optional<CompiledModel> decoded_names(const Catalog& catalog, const Catalog& other);

/// Returns how many names two checkpoints share.
std::uint64_t shared_names(const Catalog& a, const Catalog& b);
/// Returns how many leaves' names two compiled models share.
std::size_t shared_leaves(const CompiledModel& a, const CompiledModel& b);
/// Returns whether each of two compiled models has leaves that the other lacks.
bool each_has_own(const CompiledModel& a, const CompiledModel& b);

/// Returns the recorded mapping that made a tree. It omits options that only choose dtypes or
/// tensors, since those make real differences.
std::optional<MappingOptions> known_mapping(const DiffSide& tree);

// In the following, `which` is the side: A or B.

/// Returns the config.json that describes a checkpoint's codes: that of --config, its own, or the
/// recorded one. Empty if none is known.
std::string config_of_codes(const DiffSide& side, const DiffOptions& options);
/// Decodes a side with codes if the other one has all of its decoded names, and no scales.
/// `config`: describes the codes.
void decode_like(const CompiledModel& other, std::string_view which, const std::string& config,
                 ModelSide& side, SidesTogether& out);
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
