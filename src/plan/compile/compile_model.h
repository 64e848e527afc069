#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/table.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Finds the family by config.json (model_type, then architectures), compiles its rules against the
/// catalog and proves them (tiling both ways, shapes, unused rules, unmatched tensors). With scheme
/// "hf" no family is needed: names are split at '.', shapes as stored. Throws: bad_input /
/// unsupported / not_found with the rule's JSON pointer, tensor, shapes and a hint (near family
/// names and --scheme hf for an unknown family; first three unmatched tensors and nearest rules).
CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options);
/// The same with the rules of this family, whatever config.json names: tests compile wrong ones.
CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options,
                            const MappingTable& table);

/// The same without the proof, for those who want every finding of prove().
CompiledModel compile_unproved(const Catalog& catalog, const MappingOptions& options);

/// Logical axes of the arrays that a glob matches: --axes GLOB=a,,b.
struct AxesOf {
  std::string glob;
  std::vector<std::string> axes;  ///< one per dim, "" where one has none
};
/// Parses it, up to the last `=`. Throws: usage.
AxesOf parse_axes(std::string_view text);

/// What is known of arrays that are only laid out anew.
struct SameOptions {
  std::vector<Leaf> known;   ///< sorted by name; their axes are taken where the shape is the same
  std::vector<AxesOf> axes;  ///< wins over `known`; the last one that matches
  std::string left_out;      ///< name of an array that the target writes itself, if there is one
};
/// Every array under its own name, with its own shape, and its axes as far as they are known: what
/// `reshard` writes. Throws: usage (globs), unsupported (casts), as compile_model.
CompiledModel compile_same(const Catalog& catalog, const MappingOptions& options,
                           const SameOptions& same);

/// The way back: the tensors of `forward`, which was made of `source`, from the arrays of `tree`,
/// which are its leaves. Names and shapes are as they were; dtypes too, unless the options say
/// other ones or a tensor was quantised, which it stays no longer. What was left out on the way
/// here is missing, unless it was a copy. Proved as compile_model does. Throws: bad_input (a leaf
/// is missing from the tree, or of another shape), unsupported.
CompiledModel compile_inverse(const CompiledModel& forward, const Catalog& source,
                              const Catalog& tree, const MappingOptions& options);

/// The tensors that a tree goes back to, sorted by name, as a catalog without files: the model that
/// another scheme's leaves are made of.
Catalog tensors_of(const std::vector<Array>& arrays, std::string config_text, const Catalog& tree);

/// From the arrays of `tree` to the leaves of `forward`: by way of the tensors that `back` makes of
/// them, which `forward` was compiled against (tensors_of). A value rule and its inverse cancel;
/// other values are rounded once, to the dtype of the leaf. What `back` fills is filled, what
/// `forward` drops is dropped. Proved as compile_model does. Throws: bad_input, unsupported (codes,
/// casts, rules that cut a tensor too differently).
CompiledModel compile_through(const CompiledModel& back, CompiledModel forward,
                              const Catalog& tree);

/// One finding of `mappings check`.
struct CheckFinding {
  std::string tensor;  ///< source or target name
  std::string rule;    ///< JSON pointer, may be empty
  std::string what;
};

/// What a model's tensor names alone say about a mapping: names that no rule and no drop matches,
/// names that rules need and the model lacks. Shapes, dtypes and tiling are not seen.
struct NameCheck {
  std::string family;
  std::uint64_t leaves = 0;
  std::vector<std::string> rules;     ///< pointers of those that name a tensor
  std::vector<CheckFinding> dropped;  ///< `what`: why
  std::vector<std::string> notes;
  std::vector<CheckFinding> findings;
};
/// Throws: as compile_model, for what concerns config.json and options.
NameCheck check_names(const NameList& list, const MappingOptions& options);

/// Proves that sources and targets are tiled exactly; used by compile_model (which throws the first
/// finding) and by `mappings check` (which lists all).
std::vector<CheckFinding> prove(const Catalog& catalog, const CompiledModel& model);

}  // namespace hfshard
