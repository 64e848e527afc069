#include "service/diff_sides.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "service/diff_compile.h"
#include "service/diff_parts.h"
#include "service/diff_trees.h"
#include "service/own_names.h"
#include "service/recorded.h"
#include "service/scheme_files.h"
#include "service/tree_names.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool is_quantized(const Catalog& catalog) {
  if (catalog.config_text.empty()) return false;
  const Json config = parse_json(catalog.config_text, config_path(catalog.location));
  return config.is_object() && !(without_quantization(config) == config);
}

// Counts arrays that a checkpoint has with the same names and shapes.
template <typename Arrays>
std::uint64_t shared_arrays(const Arrays& arrays, const Catalog& catalog) {
  return static_cast<std::uint64_t>(std::ranges::count_if(arrays, [&](const Array& array) {
    const auto found = catalog.find(array.name);
    return found && catalog.tensors[*found].shape == array.shape;
  }));
}

// Returns whether the two share most names.
bool share_names(const Catalog& a, const Catalog& b) {
  const std::uint64_t shared = shared_names(a, b);
  return 2 * shared >= std::min<std::uint64_t>(a.tensors.size(), b.tensors.size());
}

// Returns a tree of a model under its scheme's names. A trainer can have written other names (NNX),
// or the model below a key.
DiffSide with_scheme_names(const DiffSide& tree, const DiffSide& model,
                           const DiffOptions& options) {
  const TreeOptions asked = tree_options(options, model.catalog().config_text);
  DiffSide out = tree;
  if (!asked.config_text) return out;
  try {
    out.checkpoint = with_model_names(tree.checkpoint, asked, {});
  } catch (const Error& error) {  // the arrays are compared by their own names
    if (error.code() == ErrorCode::internal) throw;
  }
  return out;
}

// Compares a model with a tree, as if the model were converted. `known` is the mapping for that. If
// it's missing, the tree's names choose one.
SidesTogether model_and_tree(const DiffSide& a, const DiffSide& b, bool model_is_a,
                             const std::optional<MappingOptions>& known,
                             const DiffOptions& options) {
  SidesTogether out;
  const DiffSide& model = model_is_a ? a : b;
  const std::string_view which = model_is_a ? "A" : "B";
  const std::string_view other = model_is_a ? "B" : "A";
  DiffSide tree = model_is_a ? b : a;
  CompiledModel made = compile_as(model, tree, known, options);
  const std::uint64_t shared = shared_names(made.leaves, tree.catalog());
  if (!known && shared < made.leaves.size()) {
    const DiffSide named = with_scheme_names(tree, model, options);
    if (named.checkpoint != tree.checkpoint &&
        (shared == 0 || shared_names(made.leaves, named.catalog()) > shared)) {
      add_notes(*named.checkpoint, tree, other, out);
      tree = named;
      if (share_names(model.catalog(), tree.catalog())) {  // those of the model's files
        set_sides(model_is_a, by_names(model), by_names(tree), out);
        return out;
      }
      made = compile_as(model, tree, known, options);
    }
  }
  ModelSide names = by_names(tree);
  const auto tell = [&](std::string_view side, const std::string& dialect) {
    if (dialect.empty()) return;
    out.notes.push_back(fmt::format("{} has the names of --dialect {}", side, dialect));
  };
  tell(which, made.source_dialect);
  tell(other, known ? asked_dialect(*known) : std::string());
  if (known && !known->prefix.empty())
    out.notes.push_back(fmt::format("the names in {} begin with {}", other, quote(known->prefix)));
  if (shared_names(made.leaves, tree.catalog()) == 0)
    out.notes.push_back(fmt::format("{} has no name that {} has in any scheme", other, which));
  note_drops(made, model.catalog(), which, "tree", out);
  decode_like(made, other, config_of_codes(tree, options), names, out);
  leave_out_others(made.leaves, other, names.model, out);
  out.through = fmt::format("{} is converted to the layout of {}", which, other);
  set_sides(model_is_a, {model.checkpoint, std::move(made)}, std::move(names), out);
  return out;
}

// Compares two models that name their tensors differently.
SidesTogether two_models(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  return with_parts([&](const MappingOptions& mapping) {
    SidesTogether out;
    out.a = {a.checkpoint, compile_tree(a, mapping, options)};
    out.b = {b.checkpoint, compile_tree(b, mapping, options)};
    note_drops(out.a.model, a.catalog(), "A", "tree", out);
    note_drops(out.b.model, b.catalog(), "B", "tree", out);
    return out;
  });
}

// Returns the recorded dialect of scheme "hf" that a checkpoint was written in. Empty if unknown.
std::string dialect_of(const DiffSide& side) {
  if (side.is_model) return recorded_dialect(side.place);
  const auto mapping = recorded_mapping(side.place);
  return mapping ? asked_dialect(*mapping) : std::string();
}

// Returns whether both have the same arrays by name and shape, and at most one has a record. Two
// records can give the same names another meaning.
bool named_alike(const DiffSide& a, const DiffSide& b) {
  const std::uint64_t shared = shared_arrays(a.catalog().tensors, b.catalog());
  return shared == a.catalog().tensors.size() && shared == b.catalog().tensors.size() &&
         (!recorded_mapping(a.place) || !recorded_mapping(b.place));
}

// Returns possible prefixes of a tree's names, shortest first. For example, a tree that was saved
// as {"model": model.state_dict()} has "model.".
std::vector<std::string> prefixes_of(const std::string& name, const Catalog& tree) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> out;
  for (const TensorInfo& info : tree.tensors) {
    if (info.name == name || info.name.ends_with("." + name))
      out.push_back(info.name.substr(0, info.name.size() - name.size()));
  }
  std::ranges::sort(out, {}, &std::string::size);
  out.resize(std::min(out.size(), kMost));
  return out;
}

// Counts a tree's arrays that are a model's leaves with this prefix.
std::uint64_t arrays_below(const std::string& prefix, std::vector<Leaf> leaves,
                           const Catalog& tree) {
  for (Leaf& leaf : leaves) leaf.name.insert(0, prefix);
  return shared_arrays(leaves, tree);
}

// Returns the error for a tree that has all of a model below several keys.
Error model_twice(const std::vector<std::string>& prefixes, const DiffSide& tree) {
  std::string places;
  for (const std::string& prefix : prefixes) {
    if (!places.empty()) places += ", ";
    places += words_for_place(prefix);
  }
  const std::string& key = prefixes.back();  // the longest
  return Error(ErrorCode::usage, "the checkpoint has the model more than once: " + places)
      .in_file(tree.text)
      .hint(fmt::format("run hfshard convert with --root {} first, and compare its output",
                        key.substr(0, key.size() - 1)));
}

// Returns the mapping to a tree's names of scheme "hf", if the model has other names and the tree
// has all of the mapped ones.
std::optional<MappingOptions> names_of_tree(const DiffSide& model, const DiffSide& tree,
                                            const DiffOptions& options) {
  if (!model.is_model || known_mapping(tree)) return std::nullopt;
  // Hfshard decodes codes but doesn't make them.
  if (is_quantized(tree.catalog())) return std::nullopt;
  const std::uint64_t shared = shared_arrays(model.catalog().tensors, tree.catalog());
  if (shared == model.catalog().tensors.size() && shared == tree.catalog().tensors.size())
    return std::nullopt;
  for (const SchemeSummary& dialect : known_dialects()) {
    MappingOptions mapping = names_options();
    mapping.dialect = dialect.name;
    std::vector<std::string> found;
    try {
      const CompiledModel made = compile_tree(model, mapping, options);
      if (made.leaves.empty()) continue;
      found = prefixes_of(made.leaves.front().name, tree.catalog());
      std::erase_if(found, [&](const std::string& prefix) {
        const std::uint64_t count = arrays_below(prefix, made.leaves, tree.catalog());
        return count != made.leaves.size() || count <= shared;
      });
    } catch (const Error& error) {  // the model doesn't have such names
      if (error.code() == ErrorCode::internal) throw;
    }
    if (found.size() > 1) throw model_twice(found, tree);
    if (found.empty()) continue;
    mapping.prefix = std::move(found.front());
    return mapping;
  }
  return std::nullopt;
}

// Compares checkpoints with two kinds of names of scheme "hf". Records or names show the kind.
std::optional<SidesTogether> two_dialects(const DiffSide& a, const DiffSide& b,
                                          const DiffOptions& options) {
  if (a.other_item || b.other_item || (!a.is_model && !b.is_model)) return std::nullopt;
  for (const bool model_is_a : {true, false}) {
    const DiffSide& model = model_is_a ? a : b;
    const DiffSide& tree = model_is_a ? b : a;
    if (const auto known = names_of_tree(model, tree, options)) {
      return model_and_tree(a, b, model_is_a, known, options);
    }
    if (model.is_model && dialect_of(model) != dialect_of(tree) && !dialect_of(tree).empty())
      return model_and_tree(a, b, model_is_a, known_mapping(tree), options);
  }
  return std::nullopt;
}

// Removes the prefix from a model's names if making the other side removed it too.
DiffSide without_prefix(const DiffSide& side, const DiffSide& other) {
  DiffSide out = side;
  if (!side.is_model || other.is_model) return out;
  const auto mapping = recorded_mapping(other.place);
  if (mapping && takes_prefix_off(*mapping))
    out.checkpoint = with_names_if_any(side.checkpoint, side.place, *mapping);
  return out;
}

// Returns whether something tells a tree's model.
bool can_be_model(const DiffSide& tree, const DiffOptions& options) {
  return options.config_text || recorded_mapping(tree.place) ||
         has_scheme_names(tree.catalog(), tree_options({}, tree.catalog().config_text), {});
}

// Returns whether records say that two trees have different layouts. Some names can be the same.
bool made_differently(const DiffSide& a, const DiffSide& b) {
  if (a.is_model || b.is_model) return false;
  const auto of_a = known_mapping(a);
  const auto of_b = known_mapping(b);
  const auto layout = [](const MappingOptions& mapping) {
    return std::tuple(mapping.scheme, mapping.stacked, mapping.options, asked_dialect(mapping));
  };
  return of_a && of_b && layout(*of_a) != layout(*of_b);
}

// Compares two models whose files have other names, as trees. Returns nothing if they can't be.
std::optional<SidesTogether> two_models_if_any(const DiffSide& a, const DiffSide& b,
                                               const DiffOptions& options) {
  try {
    return two_models(a, b, options);
  } catch (const Error& error) {  // unknown models are compared by their own names
    if (error.code() == ErrorCode::internal) throw;
    return std::nullopt;
  }
}

// Leaves out the step that hfshard put into one tree of a model, and that the other never has.
void leave_out_step(const DiffSide& tree, const DiffSide& other, std::string_view which,
                    CompiledModel& model, SidesTogether& out) {
  const auto known = tree.is_model ? std::nullopt : known_mapping(tree);
  const std::string step = known ? tree_extras(known->scheme).step : std::string();
  const bool is_alone = !step.empty() && tree.taken && !other.taken && tree.catalog().find(step) &&
                        !other.catalog().find(step);
  if (!is_alone) return;
  keep_leaves(model, [&](const Leaf& leaf) { return leaf.name != step; });
  out.notes.push_back(fmt::format("not compared, because only a tree of steps has it: {} of {}",
                                  quote(step), which));
}

std::optional<SidesTogether> two_kinds_of_codes(const DiffSide& a, const DiffSide& b,
                                                const DiffOptions& options) {
  const DiffSide& coded = is_quantized(a.catalog()) ? a : b;
  const DiffSide& plain = &coded == &a ? b : a;
  SidesTogether out;
  if (auto names = decoded_names(coded.catalog(), plain.catalog());
      names && shared_names(names->leaves, plain.catalog()) == plain.catalog().tensors.size()) {
    out.through = fmt::format("{} is decoded", &coded == &a ? "A" : "B");
    set_sides(&coded == &a, {coded.checkpoint, *std::move(names)}, by_names(plain), out);
    return out;
  }
  try {
    return two_models(a, b, options);
  } catch (const Error& error) {  // the family is unknown: compare by names
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
}

// Compares two checkpoints with other names as one model. Returns nothing if nothing tells the
// model. Throws: as bring_together.
std::optional<SidesTogether> as_models(const DiffSide& a, const DiffSide& b,
                                       const DiffOptions& options) {
  const DiffSide& model = a.is_model ? a : b;
  const std::string& config = model.catalog().config_text;
  if (a.is_model != b.is_model && (options.config_text || !config.empty())) {
    const DiffSide& tree = a.is_model ? b : a;
    SidesTogether out = model_and_tree(a, b, a.is_model, known_mapping(tree), options);
    const std::vector<Leaf>& leaves = (a.is_model ? out.a : out.b).model.leaves;
    const std::uint64_t shared = shared_names(leaves, tree.catalog());
    if (shared == std::min<std::uint64_t>(leaves.size(), tree.catalog().tensors.size())) return out;
    const TreeOptions as_model = tree_options(options, config);
    const TreeOptions asked = tree_options(options, {});
    auto both = in_main_scheme(a, a.is_model ? asked : as_model, b, b.is_model ? asked : as_model);
    return both ? std::move(both) : std::move(out);
  }
  if (!a.is_model && !b.is_model && (can_be_model(a, options) || can_be_model(b, options)))
    return two_trees(a, b, options);
  return a.is_model && b.is_model ? two_models_if_any(a, b, options) : std::nullopt;
}

// Returns whether each side has names that the other lacks, and no two records say that they have
// the same layout.
bool may_differ_in_layout(const DiffSide& a, const DiffSide& b) {
  const std::uint64_t shared = shared_names(a.catalog(), b.catalog());
  const bool each_has_own =
      shared < a.catalog().tensors.size() && shared < b.catalog().tensors.size();
  return each_has_own && !(known_mapping(a) && known_mapping(b));
}

std::size_t only_in_one(const SidesTogether& sides) {
  const CompiledModel& a = sides.a.model;
  const CompiledModel& b = sides.b.model;
  return a.leaves.size() + b.leaves.size() - 2 * shared_leaves(a, b);
}

// Compares two checkpoints by their own names.
SidesTogether as_named(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  SidesTogether out;
  out.a = by_names(a);
  out.b = by_names(b);
  decode_like(out.b.model, "A", config_of_codes(a, options), out.a, out);
  decode_like(out.a.model, "B", config_of_codes(b, options), out.b, out);
  leave_out_step(a, b, "A", out.a.model, out);
  leave_out_step(b, a, "B", out.b.model, out);
  const auto can_be_tree = [](const DiffSide& side) {
    return !side.is_model ||
           (side.catalog().config_text.empty() && !schemes_of_names(side.catalog()).empty());
  };
  const bool any_tree = (can_be_tree(a) || can_be_tree(b)) && !a.other_item && !b.other_item;
  if (any_tree && !share_names(a.catalog(), b.catalog())) {
    out.notes.emplace_back(
        "they have few names in common; pass --config DIR of their model to compare both as that "
        "model");
  }
  return out;
}

// Compares two checkpoints as one model, or by their own names if fewer arrays are then in one of
// them only.
SidesTogether as_is_closer(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  std::optional<SidesTogether> models;
  try {
    models = as_models(a, b, options);
  } catch (const Error& error) {  // their own names remain
    if (error.code() == ErrorCode::internal) throw;
  }
  SidesTogether names = as_named(a, b, options);
  return models && only_in_one(*models) < only_in_one(names) ? *std::move(models)
                                                             : std::move(names);
}

}  // namespace

SidesTogether bring_together(const DiffSide& side_a, const DiffSide& side_b,
                             const DiffOptions& options) {
  const DiffSide a = without_prefix(side_a, side_b);
  const DiffSide b = without_prefix(side_b, side_a);
  if (auto out = two_dialects(a, b, options)) return *std::move(out);
  if (a.is_model && b.is_model && is_quantized(a.catalog()) != is_quantized(b.catalog())) {
    if (auto out = two_kinds_of_codes(a, b, options)) return *std::move(out);
  } else if (!named_alike(a, b) && !a.other_item && !b.other_item) {
    if (dialect_of(a) != dialect_of(b) || !share_names(a.catalog(), b.catalog())) {
      auto out = as_models(a, b, options);
      if (out && each_has_own(out->a.model, out->b.model)) return as_is_closer(a, b, options);
      if (out) return *std::move(out);
    } else if (made_differently(a, b) || may_differ_in_layout(a, b)) {
      return as_is_closer(a, b, options);
    }
  }
  return as_named(a, b, options);
}

}  // namespace hfshard
