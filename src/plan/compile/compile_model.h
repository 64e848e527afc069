#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/tables/table.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Finds the family by config.json (model_type, then architectures). Compiles its rules against the
/// catalog and proves them: tiling both ways, shapes, unused rules, unmatched tensors. Scheme "hf"
/// needs no family: names are split at '.', shapes as stored. Throws: bad_input / unsupported /
/// not_found with the rule's JSON pointer, tensor, shapes and a hint (similar family names and
/// --scheme hf for an unknown family; first three unmatched tensors and nearest rules).
CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options);
/// Uses the rules of `table` for any config.json. Tests compile wrong ones this way.
CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options,
                            const MappingTable& table);

/// Compiles without the proof, for callers that need every finding of prove().
CompiledModel compile_unproved(const Catalog& catalog, const MappingOptions& options);

/// The logical axes of the arrays that a glob matches: --axes GLOB=a,,b.
struct AxesOf {
  std::string glob;
  std::vector<std::string> axes;  ///< one per dim, "" for none
};
/// Parses the option. The last `=` ends the glob. Throws: usage.
AxesOf parse_axes(std::string_view text);

/// Axes for arrays that a reshard only lays out again.
struct SameOptions {
  /// Sorted by name. Their axes apply if the shape is the same.
  std::vector<Leaf> known;
  /// Overrides `known`. The last match counts.
  std::vector<AxesOf> axes;
};
/// Compiles a reshard: every array keeps its name, its shape and its known axes. Throws: usage
/// (globs), unsupported (casts), as compile_model.
CompiledModel compile_same(const Catalog& catalog, const MappingOptions& options,
                           const SameOptions& same);

/// Removes leaves without fills from a model, with the transfers that write them.
void keep_leaves(CompiledModel& model, const std::function<bool(const Leaf&)>& keeps);

/// Compiles an export: from `tree` back to the tensors of `forward`, whose leaves are arrays of
/// `tree`. `source` is the model that `forward` was compiled against. Names and shapes are the
/// original ones. So are dtypes, unless the options set others or a tensor was quantized, which it
/// doesn't stay. Tensors that `forward` left out are missing, unless they are copies. Proved as
/// compile_model does. Throws: bad_input (a leaf is missing from the tree, or has another shape),
/// unsupported.
CompiledModel compile_inverse(const CompiledModel& forward, const Catalog& source,
                              const Catalog& tree, const MappingOptions& options);

/// Returns the tensors that a tree becomes again, sorted by name, as a catalog without files.
/// Another scheme's leaves are made from this model.
Catalog tensors_of(const std::vector<Array>& arrays, std::string config_text, const Catalog& tree);

/// Compiles from the arrays of `tree` to the leaves of `forward`, through the tensors that `back`
/// makes from them. `forward` was compiled against those (tensors_of). A value rule and its inverse
/// cancel; other values are rounded once, to the dtype of the leaf. Fills of `back` and drops of
/// `forward` stay. Proved as compile_model does. Throws: bad_input, unsupported (codes, casts,
/// rules that cut a tensor too differently). `drop`: globs of --drop.
CompiledModel compile_through(const CompiledModel& back, CompiledModel forward, const Catalog& tree,
                              const std::vector<std::string>& drop = {});

/// One finding of `mappings check`.
struct CheckFinding {
  std::string tensor;  ///< source or target name
  std::string rule;    ///< JSON pointer, can be empty
  std::string what;
  bool untied = false;  ///< needed since embeddings aren't tied
};

/// A mapping's check against tensor names alone. It finds names without a rule or drop, and names
/// that rules need and the model lacks. It doesn't check shapes, dtypes and tiling.
struct NameCheck {
  std::string family;
  std::uint64_t leaves = 0;
  std::vector<std::string> rules;     ///< pointers of those that name a tensor
  std::vector<CheckFinding> dropped;  ///< `what`: why
  std::vector<std::string> notes;
  std::vector<CheckFinding> findings;
};
/// Whether a model must meet the scheme's requirements (`require`). The rules can give the names of
/// a model that the loader can't compute, if they cover it.
enum class Requirements : std::uint8_t { hold, are_passed_over };
/// Checks names. Throws: as compile_model, for errors in config.json and options.
NameCheck check_names(const NameList& list, const MappingOptions& options,
                      Requirements requirements = Requirements::hold);
/// Checks tensors, whose shapes must also be those of the rules. Throws: bad_input, for the first
/// wrong shape, as compile_model.
NameCheck check_names(const Catalog& catalog, const MappingOptions& options,
                      Requirements requirements = Requirements::hold);

/// Proves that sources and targets are tiled exactly. compile_model throws the first finding, and
/// `mappings check` lists all.
std::vector<CheckFinding> prove(const Catalog& catalog, const CompiledModel& model);

}  // namespace hfshard
