#include "service/diff_sides.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "format/formats.h"
#include "mapping/scheme_defaults.h"
#include "plan/compile/compile_model.h"
#include "service/place.h"
#include "service/recorded.h"
#include "service/source.h"
#include "service/step.h"
#include "service/tree_source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kNamesScheme = "hf";

// The one checkpoint of a place with steps.
StorePath place_of_step(const StorePath& place, const std::optional<std::uint64_t>& asked) {
  const auto found = recognise(place);
  if (!found) return place;
  for (const Found::Step& step : found->found.steps) {
    const bool meant = asked ? step.number == *asked : step.directory == found->found.directory;
    if (meant) return place.at(step.directory);
  }
  return place;
}

MappingOptions names_options() {
  MappingOptions out;
  out.scheme = kNamesScheme;
  out.flat_names = true;
  return out;
}

ModelSide by_names(const DiffSide& side) {
  return {side.checkpoint, compile_same(side.catalog(), names_options(), {})};
}

bool is_quantised(const Catalog& catalog) {
  if (catalog.config_text.empty()) return false;
  const Json config = parse_json(catalog.config_text, "config.json");
  constexpr const char* kCodes = "quantization_config";
  const Json* text = config.find("text_config");
  return config.find(kCodes) != nullptr ||
         (text != nullptr && text->is_object() && text->find(kCodes) != nullptr);
}

// The tensors of a model under their names, codes with scales of their own as values; the others
// keep their dtypes. Nothing if that cannot be.
std::optional<CompiledModel> decoded_names(const Catalog& catalog, const Catalog& other) {
  MappingOptions options = names_options();
  options.dtype = DType::bf16;
  CompiledModel out;
  try {
    out = compile_model(catalog, options);
  } catch (const Error& error) {  // codes or dtypes of another kind: there are other ways
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
  for (const Transfer& transfer : out.transfers) {
    Leaf& leaf = out.leaves[transfer.target];
    const auto found = other.find(leaf.name);
    if (!transfer.decode) {
      leaf.dtype = transfer.source_dtype;
    } else if (found && narrower_dtype(other.tensors[*found].dtype, DType::bf16)) {
      leaf.dtype = other.tensors[*found].dtype;
    }
  }
  return out;
}

// Arrays that a checkpoint has under their names, in their shapes.
template <typename Arrays>
std::uint64_t shared_arrays(const Arrays& arrays, const Catalog& catalog) {
  return static_cast<std::uint64_t>(std::ranges::count_if(arrays, [&](const Array& array) {
    const auto found = catalog.find(array.name);
    return found && catalog.tensors[*found].shape == array.shape;
  }));
}

std::uint64_t shared_names(const std::vector<Leaf>& leaves, const Catalog& catalog) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      leaves, [&](const Leaf& leaf) { return catalog.find(leaf.name).has_value(); }));
}

std::uint64_t shared_names(const Catalog& a, const Catalog& b) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      a.tensors, [&](const TensorInfo& info) { return b.find(info.name).has_value(); }));
}

// Compiles a model as the tree that it becomes.
CompiledModel compile_tree(const DiffSide& model, const MappingOptions& mapping,
                           const DiffOptions& options) {
  if (!options.config_text) return compile_source(model.catalog(), model.place, mapping);
  Catalog catalog = model.catalog();
  catalog.config_text = *options.config_text;
  return compile_source(catalog, model.place, mapping);
}

// How a model became a tree, as far as it says; what only chose dtypes or tensors is left out,
// since that makes differences.
std::optional<MappingOptions> known_mapping(const DiffSide& tree) {
  auto out = recorded_mapping(tree.place);
  if (!out) return out;
  if (!has_rules(*out) && out->prefix.empty()) return std::nullopt;
  out->dtype.reset();
  out->keep_dtype = false;
  out->casts.clear();
  out->include.clear();
  out->exclude.clear();
  out->flat_names = true;
  return out;
}

// What a model becomes, in the scheme whose names a tree has.
class NearestTree {
 public:
  NearestTree(const DiffSide& model, const DiffSide& tree, const DiffOptions& options)
      : model_(model), tree_(tree), options_(options) {}

  // Whether the tree has all leaves of this scheme.
  bool look(const std::string& scheme, bool stacked) {
    MappingOptions mapping;
    mapping.scheme = scheme;
    mapping.stacked = stacked;
    return look(mapping);
  }
  bool look(MappingOptions mapping) {
    mapping.flat_names = true;
    try {
      CompiledModel found = compile_tree(model_, mapping, options_);
      const std::uint64_t shared = shared_names(found.leaves, tree_.catalog());
      const bool all = shared == found.leaves.size();
      if (!best_ || shared > most_) best_ = std::move(found);
      most_ = std::max(most_, shared);
      return all;
    } catch (const Error& error) {  // an error if it is so in every scheme
      if (error.code() == ErrorCode::internal) throw;
      if (!refused_) refused_ = error;
      return false;
    }
  }

  CompiledModel take() && {
    if (!best_) throw Error(*refused_);
    return *std::move(best_);
  }

 private:
  const DiffSide& model_;
  const DiffSide& tree_;
  const DiffOptions& options_;
  std::optional<CompiledModel> best_;
  std::optional<Error> refused_;
  std::uint64_t most_ = 0;
};

CompiledModel compile_as(const DiffSide& model, const DiffSide& tree,
                         const std::optional<MappingOptions>& known, const DiffOptions& options) {
  if (known) return compile_tree(model, *known, options);
  // Else as the scheme and layout whose names it has the most of, the usual ones first.
  NearestTree nearest(model, tree, options);
  for (const SchemeSummary& scheme : known_schemes()) {
    if (scheme.name == kNamesScheme) continue;
    if (scheme.stacks && nearest.look(scheme.name, true)) break;
    if (nearest.look(scheme.name, false)) break;
  }
  return std::move(nearest).take();
}

std::string first_key(std::string_view path) { return std::string(path.substr(0, path.find('.'))); }

// Leaves of a tree that are beside its parameters, such as an optimizer's, have nothing to be
// compared with.
void leave_out_others(const std::vector<Leaf>& parameters, std::string_view which,
                      CompiledModel& tree, SidesTogether& out) {
  std::set<std::string> keys;
  for (const Leaf& leaf : parameters) keys.insert(first_key(leaf.name));
  const std::string step = tree_extras(MappingOptions().scheme).step;
  std::vector<Leaf> kept;
  std::vector<std::uint32_t> numbers;
  std::uint64_t others = 0;
  for (Leaf& leaf : tree.leaves) {
    const bool is_parameter = keys.contains(first_key(leaf.name)) && leaf.name != step;
    if (!is_parameter && leaf.name != step) ++others;
    numbers.push_back(is_parameter ? static_cast<std::uint32_t>(kept.size()) : UINT32_MAX);
    if (is_parameter) kept.push_back(std::move(leaf));
  }
  std::erase_if(tree.transfers,
                [&](const Transfer& transfer) { return numbers[transfer.target] == UINT32_MAX; });
  for (Transfer& transfer : tree.transfers) transfer.target = numbers[transfer.target];
  tree.leaves = std::move(kept);
  if (others == 0) return;
  out.notes.push_back(
      fmt::format("not compared, since they are no parameters of the model: {} of the arrays of {}",
                  others, which));
}

void note_drops(const CompiledModel& model, const Catalog& catalog, std::string_view which,
                SidesTogether& out) {
  if (model.drops.empty()) return;
  std::set<std::uint32_t> dropped;
  for (const Drop& drop : model.drops) dropped.insert(drop.source);
  out.notes.push_back(fmt::format(
      "not compared, all or in part, since the tree has no place for it: {} of the tensors of {} "
      "({}{})",
      dropped.size(), which, catalog.tensors[*dropped.begin()].name,
      dropped.size() > 1 ? ", ..." : ""));
}

// A model and a tree: the model as it would be converted. `known`: to what; nothing: to what the
// names of the tree say.
SidesTogether model_and_tree(const DiffSide& a, const DiffSide& b, bool model_is_a,
                             const std::optional<MappingOptions>& known,
                             const DiffOptions& options) {
  SidesTogether out;
  const DiffSide& model = model_is_a ? a : b;
  const DiffSide& tree = model_is_a ? b : a;
  CompiledModel made = compile_as(model, tree, known, options);
  ModelSide names = by_names(tree);
  const std::string_view which = model_is_a ? "A" : "B";
  const std::string_view other = model_is_a ? "B" : "A";
  const auto tell = [&](std::string_view side, const std::string& dialect) {
    if (dialect.empty()) return;
    out.notes.push_back(fmt::format("{} has the names of --dialect {}", side, dialect));
  };
  tell(which, made.source_dialect);
  tell(other, known ? asked_dialect(*known) : std::string());
  if (known && !known->prefix.empty())
    out.notes.push_back(fmt::format("the names of {} begin with {}", other, quote(known->prefix)));
  if (shared_names(made.leaves, tree.catalog()) == 0) {
    out.notes.push_back(
        fmt::format("{} has no name that {} would have in any scheme", other, which));
  }
  note_drops(made, model.catalog(), which, out);
  leave_out_others(made.leaves, other, names.model, out);
  out.through = fmt::format("{} is laid out as {}", which, other);
  ModelSide side{model.checkpoint, std::move(made)};
  (model_is_a ? out.a : out.b) = std::move(side);
  (model_is_a ? out.b : out.a) = std::move(names);
  return out;
}

// Two models that name their tensors differently.
SidesTogether two_models(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  MappingOptions mapping;
  mapping.flat_names = true;
  SidesTogether out;
  out.a = {a.checkpoint, compile_tree(a, mapping, options)};
  out.b = {b.checkpoint, compile_tree(b, mapping, options)};
  note_drops(out.a.model, a.catalog(), "A", out);
  note_drops(out.b.model, b.catalog(), "B", out);
  out.through = fmt::format("both are laid out as {}", mapping.scheme);
  return out;
}

// The model that a tree goes back to, with the tree's own values.
ModelSide back_of(const DiffSide& tree, const TreeOptions& asked) {
  PlanOptions options;
  options.mapping = names_options();
  options.tree = asked;
  OpenedSource opened = open_source_model(tree.place, options);
  for (Transfer& transfer : opened.model.transfers) {
    transfer.value = {};
    opened.model.leaves[transfer.target].dtype = transfer.source_dtype;
  }
  return {std::move(opened.checkpoint), std::move(opened.model)};
}

SidesTogether two_trees(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  TreeOptions asked;
  asked.config_text = options.config_text;
  asked.config_name = options.config_name;
  SidesTogether out;
  out.through = "both are laid out as the HuggingFace model";
  const bool knows_a = recorded_mapping(a.place).has_value();
  const bool knows_b = recorded_mapping(b.place).has_value();
  const auto of_other = [&](const ModelSide& other) {
    TreeOptions same = asked;
    if (same.config_text) return same;
    same.config_text = other.checkpoint->catalog().config_text;
    same.config_name = "config.json";
    return same;
  };
  if (!knows_a && knows_b) {
    out.b = back_of(b, asked);
    out.a = back_of(a, of_other(out.b));
  } else {
    out.a = back_of(a, asked);
    out.b = back_of(b, knows_b ? asked : of_other(out.a));
  }
  return out;
}

// Whether names are what the two have in common.
bool share_names(const Catalog& a, const Catalog& b) {
  const std::uint64_t shared = shared_names(a, b);
  return 2 * shared >= std::min<std::uint64_t>(a.tensors.size(), b.tensors.size());
}

// The dialect of scheme "hf" that a checkpoint was written in, as far as it says; else empty.
std::string dialect_of(const DiffSide& side) {
  if (side.is_model) return recorded_dialect(side.place);
  const auto mapping = recorded_mapping(side.place);
  return mapping ? asked_dialect(*mapping) : std::string();
}

// Whether both have the same arrays by their names and shapes, and nothing says that those of one
// mean something else.
bool named_alike(const DiffSide& a, const DiffSide& b) {
  const std::uint64_t shared = shared_arrays(a.catalog().tensors, b.catalog());
  return shared == a.catalog().tensors.size() && shared == b.catalog().tensors.size() &&
         (!recorded_mapping(a.place) || !recorded_mapping(b.place));
}

// What may stand before the names of a tree, by one of them: "model." of what was saved as
// {"model": model.state_dict()}; the shortest first.
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

// Arrays that a tree has of a model whose names begin so.
std::uint64_t arrays_below(const std::string& prefix, std::vector<Leaf> leaves,
                           const Catalog& tree) {
  for (Leaf& leaf : leaves) leaf.name.insert(0, prefix);
  return shared_arrays(leaves, tree);
}

// The names of scheme "hf" that a tree has for a model which has others, as far as it has all of
// them.
std::optional<MappingOptions> names_of_tree(const DiffSide& model, const DiffSide& tree,
                                            const DiffOptions& options) {
  if (!model.is_model || known_mapping(tree)) return std::nullopt;
  if (is_quantised(tree.catalog())) return std::nullopt;  // codes are what is decoded, not made
  const std::uint64_t shared = shared_arrays(model.catalog().tensors, tree.catalog());
  if (shared == model.catalog().tensors.size() && shared == tree.catalog().tensors.size())
    return std::nullopt;
  for (const SchemeSummary& dialect : known_dialects()) {
    MappingOptions mapping = names_options();
    mapping.dialect = dialect.name;
    try {
      const CompiledModel made = compile_tree(model, mapping, options);
      if (made.leaves.empty()) continue;
      for (std::string& prefix : prefixes_of(made.leaves.front().name, tree.catalog())) {
        const std::uint64_t found = arrays_below(prefix, made.leaves, tree.catalog());
        if (found != made.leaves.size() || found <= shared) continue;
        mapping.prefix = std::move(prefix);
        return mapping;
      }
    } catch (const Error& error) {  // a model that has no such names
      if (error.code() == ErrorCode::internal) throw;
    }
  }
  return std::nullopt;
}

// Checkpoints with names of scheme "hf" of two kinds, by what they record or by the names.
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

bool can_be_model(const DiffSide& tree, const DiffOptions& options) {
  return options.config_text || recorded_mapping(tree.place).has_value();
}

std::optional<SidesTogether> two_kinds_of_codes(const DiffSide& a, const DiffSide& b,
                                                const DiffOptions& options) {
  const DiffSide& coded = is_quantised(a.catalog()) ? a : b;
  const DiffSide& plain = &coded == &a ? b : a;
  SidesTogether out;
  if (auto names = decoded_names(coded.catalog(), plain.catalog());
      names && shared_names(names->leaves, plain.catalog()) == plain.catalog().tensors.size()) {
    out.through = fmt::format("{} is decoded", &coded == &a ? "A" : "B");
    ModelSide side{coded.checkpoint, *std::move(names)};
    ModelSide other = by_names(plain);
    (&coded == &a ? out.a : out.b) = std::move(side);
    (&coded == &a ? out.b : out.a) = std::move(other);
    return out;
  }
  try {
    return two_models(a, b, options);
  } catch (const Error& error) {  // of no family that is known: by names
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
}

}  // namespace

DiffSide open_side(const SourceName& name, Reporter& reporter) {
  refuse_unfinished(name.text, reporter);
  DiffSide out;
  out.text = name.text;
  out.place = find_place(name);
  out.other_item = !name.items.empty();
  out.is_model = !name.step && !out.other_item && is_model_place(out.place);
  if (out.is_model) {
    out.checkpoint = open_source(out.place);
    return out;
  }
  std::shared_ptr<const Checkpoint> opened = open_remains(
      [&](bool despite_loss) {
        return open_checkpoint(out.place, {name.step, name.items, despite_loss});
      },
      step_directory(name.text));
  out.place = place_of_step(out.place, name.step);
  out.checkpoint = std::make_shared<TreeSource>(std::move(opened), out.place, std::string());
  return out;
}

SidesTogether bring_together(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  if (auto out = two_dialects(a, b, options)) return *std::move(out);
  if (a.is_model && b.is_model && is_quantised(a.catalog()) != is_quantised(b.catalog())) {
    if (auto out = two_kinds_of_codes(a, b, options)) return *std::move(out);
  } else if ((dialect_of(a) != dialect_of(b) || !share_names(a.catalog(), b.catalog())) &&
             !named_alike(a, b) && !a.other_item && !b.other_item) {
    if (a.is_model != b.is_model)
      return model_and_tree(a, b, a.is_model, known_mapping(a.is_model ? b : a), options);
    if (!a.is_model && (can_be_model(a, options) || can_be_model(b, options)))
      return two_trees(a, b, options);
  }
  SidesTogether out;
  out.a = by_names(a);
  out.b = by_names(b);
  const bool trees = !a.is_model && !b.is_model && !a.other_item && !b.other_item;
  if (trees && !share_names(a.catalog(), b.catalog())) {
    out.notes.emplace_back(
        "they have few names in common; --config DIR of their model lays both out as it");
  }
  return out;
}

}  // namespace hfshard
