#include "service/anew.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "format/formats.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/steps.h"
#include "service/config_sizes.h"
#include "service/described.h"
#include "service/loadable.h"
#include "service/structure.h"
#include "service/tree_names.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kNoScheme = "hf";

// Returns the scheme whose loaders can read a tree that another program wrote. The names must show
// the scheme's sign. Like a tree of parameters only, it must have a step, and nothing below
// TreeExtras::empty.
std::string scheme_of_tree(const Catalog& tree) {
  const std::string scheme = MappingOptions().scheme;
  const TreeExtras extras = tree_extras(scheme);
  const auto below = [&](const std::string& prefix) {
    return std::ranges::any_of(
        tree.tensors, [&](const TensorInfo& info) { return info.name.starts_with(prefix + "."); });
  };
  const bool parameters_alone = tree.find(extras.step) && !below(extras.empty) &&
                                std::ranges::any_of(schemes_of_names(tree), [&](const auto& one) {
                                  return one.name == scheme;
                                });
  return parameters_alone ? scheme : std::string(kNoScheme);
}

// Throws: not_found, if a few of the model's arrays are all that is missing.
void check_few_missing(const Catalog& tree, const CompiledModel& model) {
  std::vector<std::string> missing;
  for (const Leaf& leaf : model.leaves) {
    if (!tree.find(leaf.name)) missing.push_back(leaf.name);
  }
  if (missing.empty() || 2 * missing.size() > model.leaves.size()) return;
  throw Error(ErrorCode::not_found,
              missing.size() == 1
                  ? std::string("the checkpoint lacks one array of the model")
                  : fmt::format("the checkpoint lacks {} arrays of the model", missing.size()))
      .in_file(tree.location)
      .in_tensor(missing.front())
      .hint(
          "leave out --config to reshard the arrays that are there, or pass the config of this "
          "model");
}

// Optimizer arrays have the name of their weight and can have another shape.
void check_same_model(const Catalog& tree, const Described& described, const TreeOptions& asked,
                      const MappingOptions& mapping) {
  const CompiledModel& model = described.model;
  const auto other = std::ranges::find_if(model.leaves, [&](const Leaf& leaf) {
    auto array = std::ranges::lower_bound(tree.tensors, leaf.name, {}, &TensorInfo::name);
    for (; array != tree.tensors.end() && array->name == leaf.name; ++array) {
      if (array->shape == leaf.shape) return false;
    }
    return true;
  });
  if (other == model.leaves.end()) return;
  check_few_missing(tree, model);
  check_sizes(tree, described, *asked.config_text, asked.config_name, mapping);
  throw Error(ErrorCode::bad_input, "the checkpoint doesn't belong to this config's model")
      .in_file(asked.config_name)
      .in_tensor(other->name)
      .hint("pass the config of the checkpoint's model");
}

// Returns a tree's arrays under other names, one for each array.
Catalog under_names(const Catalog& tree, const std::vector<std::string>& names) {
  Catalog out;
  out.location = tree.location;
  out.directory = tree.directory;
  out.wording = tree.wording;
  out.tensors = tree.tensors;
  for (std::size_t i = 0; i < names.size(); ++i) out.tensors[i].name = names[i];
  std::ranges::stable_sort(out.tensors, {}, &TensorInfo::name);
  return out;
}

std::vector<std::string> names_of(const Catalog& tree) {
  std::vector<std::string> out;
  for (const TensorInfo& info : tree.tensors) out.push_back(info.name);
  return out;
}

// Returns a model's leaves under the tree's names for them.
std::vector<Leaf> leaves_in_tree(const CompiledModel& model, const Catalog& tree,
                                 const std::vector<std::string>& names) {
  std::vector<Leaf> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto leaf = std::ranges::lower_bound(model.leaves, names[i], {}, &Leaf::name);
    if (leaf == model.leaves.end() || leaf->name != names[i]) continue;
    out.push_back(*leaf);
    out.back().name = tree.tensors[i].name;
  }
  return out;
}

// Returns whether the model's loader can read the tree under its names. MaxText also reads
// variables saved separately, and NNX module names, which RL puts below `base`. `names` has each
// array's name in the model. Sources: AI-Hypercomputer/maxtext src/maxtext/utils/
// model_creation_utils.py from_pretrained, src/maxtext/common/checkpointing.py.
bool is_loaded(const CompiledModel& model, const Catalog& tree,
               const std::vector<std::string>& names) {
  constexpr std::string_view kBase = "base.";
  constexpr std::string_view kValue = ".value";
  std::set<std::string_view> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string_view stored = tree.tensors[i].name;
    bool loads = stored == names[i];
    if (stored.starts_with(kAside)) {
      loads = names[i].ends_with(stored.substr(kAside.size()));
    } else if (stored.ends_with(kValue)) {
      stored.remove_suffix(kValue.size());
      if (stored.starts_with(kBase)) stored.remove_prefix(kBase.size());
      loads = loads || names[i].ends_with(stored);
    }
    if (loads) found.insert(names[i]);
  }
  return std::ranges::all_of(model.leaves,
                             [&](const Leaf& leaf) { return found.contains(leaf.name); });
}

// Returns whether a tree has the names of the model's files, below any key and inside any wrappers.
// `tree` has its arrays under the model's names. Throws: bad_input (other shapes).
bool has_own_names(const Catalog& tree, const Catalog& model, const std::string& config_name) {
  // Source: vllm-project/compressed-tensors
  // src/compressed_tensors/compressors/quantized_compressors/ pack_quantized.py (weight_packed).
  constexpr std::string_view kPacked = "_packed";
  std::size_t shared = 0;
  for (auto array = tree.tensors.begin(); array != tree.tensors.end();) {
    const TensorInfo& info = *array;
    const auto end = std::find_if(array, tree.tensors.end(),
                                  [&](const TensorInfo& other) { return other.name != info.name; });
    const auto begin = std::exchange(array, end);
    const auto found = model.find(info.name);
    const bool packed = info.name.ends_with(kPacked) &&
                        model.find(info.name.substr(0, info.name.size() - kPacked.size()));
    if (found || packed) ++shared;
    if (!found) continue;
    const Shape& wanted = model.tensors[*found].shape;
    if (std::ranges::find(begin, end, wanted, &TensorInfo::shape) != end) continue;
    throw Error(ErrorCode::bad_input, fmt::format("the tensor is {} here; this config says {}",
                                                  to_string(info.shape), to_string(wanted)))
        .in_file(config_name)
        .in_tensor(info.name)
        .hint("check that the config belongs to this model and that the checkpoint is complete");
  }
  return 2 * shared > std::min(tree.tensors.size(), model.tensors.size());
}

// Compiles the model of the config next to a record, with its loader's arguments. Returns nothing
// if the config no longer describes the tree.
std::optional<CompiledModel> described_by_record(const Catalog& tree, const Recorded& recorded,
                                                 std::optional<DType> dtype) {
  if (recorded.model_files.empty()) return std::nullopt;
  MappingOptions mapping = mapping_of(recorded);
  if (dtype) mapping.dtype = dtype;
  const StorePath config = StorePath(recorded.model_files) / "config.json";
  try {
    return describe_model(tree, config.read(), config.text(), mapping).model;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    return std::nullopt;
  }
}

// Returns casts for the arrays that the family keeps wider than --dtype. The user's own follow and
// win.
std::vector<Cast> casts_of_wider(std::span<const Leaf> leaves, std::optional<DType> wanted,
                                 const Catalog& tree) {
  std::vector<Cast> out;
  for (const Leaf& leaf : leaves) {
    if (!wanted || !is_float(leaf.dtype) || size_bits(leaf.dtype) <= size_bits(*wanted)) continue;
    const auto array = tree.find(leaf.name);
    if (array && is_float(tree.tensors[*array].dtype))
      out.push_back({glob_of(leaf.name), leaf.dtype});
  }
  return out;
}

// Returns the arrays without dimensions that --dtype would narrow and the model doesn't have. They
// are a training state's steps, counts and rates, which no program keeps in bf16 (it has no 257).
std::vector<const TensorInfo*> numbers_of_state(const Catalog& tree, std::span<const Leaf> known,
                                                const MappingOptions& options) {
  std::vector<const TensorInfo*> out;
  for (const TensorInfo& info : tree.tensors) {
    const bool narrowed = options.dtype && info.shape.rank() == 0 && is_float(info.dtype) &&
                          size_bits(info.dtype) > size_bits(*options.dtype);
    const bool chosen = std::ranges::any_of(
        options.casts, [&](const Cast& cast) { return glob_match(cast.glob, info.name); });
    if (narrowed && !chosen && !std::ranges::binary_search(known, info.name, {}, &Leaf::name))
      out.push_back(&info);
  }
  return out;
}

// Sets the loader arguments for a tree. A known model has all of them.
void take_load_words(CompiledModel* known, bool recorded, CompiledModel& model) {
  const std::string& scheme = model.loader.empty() ? model.scheme : model.loader;
  if (known != nullptr && known->scheme == scheme) {
    model.model_names = std::move(known->model_names);
    model.load_words = std::move(known->load_words);
    model.load_note = std::move(known->load_note);
    return;
  }
  const LoaderOptions loader = loader_options(scheme);
  if (loader.name.empty()) return;
  if (recorded && !loader.stacked.empty())
    model.load_words = {fmt::format("{}={}", loader.stacked, model.stacked ? "true" : "false")};
  if (!loader.always.empty()) model.load_words.push_back(loader.always);
  model.load_note = fmt::format(
      "Pass --config DIR of the model to add {}'s arguments for its sizes.", loader.name);
}

// Returns the nodes of a tree, or those of the nested state that a DCP was saved from. A target
// that keeps a nested state gets the lists of a tree.
std::shared_ptr<const TreeStructure> structure_for(const FileLayout& target, TreeSource& tree,
                                                   std::vector<std::string>& notes) {
  std::shared_ptr<const TreeStructure> out = tree.catalog().structure;
  if (out == nullptr && target.structure) out = structure_of_keys(tree.catalog());
  if (out != nullptr && target.objects && tree.catalog().nested.empty())
    tree.names().nested = nested_of(*out, notes);
  return out;
}

}  // namespace

void carry_recorded(TreeSource& tree, const Recorded& recorded) {
  if (recorded.model_files.empty()) return;
  tree.carry(StorePath(recorded.model_files), recorded_config(recorded));
}

namespace {

// Adds the files of the model that --config names, or else the recorded ones.
void carry_model(TreeSource& tree, const Recorded& recorded, const TreeOptions& asked) {
  if (asked.config_text) {
    tree.carry(asked);
  } else {
    carry_recorded(tree, recorded);
  }
}

// A tree seen as a model, through its config or its record.
struct KnownModel {
  std::vector<Leaf> leaves;            // those with logical axes
  std::optional<CompiledModel> model;  // if the tree is one that loads
  std::vector<Cast> wider;             // tensors that the family keeps wider than --dtype
  bool own_names = false;              // those of the model's files
  bool loads = true;
};

// That of the config of --config.
KnownModel known_by_config(const Catalog& tree, const PlanOptions& options) {
  const TreeOptions& asked = options.tree;
  MappingOptions any;  // the tree shows its scheme, its layout and the release that it fits
  any.files = options.mapping.files;
  any.dtype = options.mapping.dtype;
  const std::vector<std::string> names = names_in_model(tree, asked, any);
  const Catalog as_model = under_names(tree, names);
  Described described = describe_model(as_model, *asked.config_text, asked.config_name, any);
  KnownModel known;
  known.own_names = !has_all(as_model, described.model) &&
                    has_own_names(as_model, described.catalog, asked.config_name);
  if (known.own_names) return known;
  check_same_model(as_model, described, asked, any);
  known.leaves = leaves_in_tree(described.model, tree, names);
  known.wider = casts_of_wider(known.leaves, options.mapping.dtype, tree);
  known.loads = is_loaded(described.model, tree, names);
  if (known.loads) known.model = std::move(described.model);
  return known;
}

KnownModel known_model(const Catalog& tree, const std::optional<Recorded>& recorded,
                       const PlanOptions& options) {
  if (options.tree.config_text) return known_by_config(tree, options);
  KnownModel known;
  if (!recorded) return known;
  known.leaves = recorded->tree->leaves;
  known.model = described_by_record(tree, *recorded, options.mapping.dtype);
  if (known.model) known.wider = casts_of_wider(known.model->leaves, options.mapping.dtype, tree);
  return known;
}

// Throws: corrupt, if a tree doesn't have the names of its record. An item that has only other
// names isn't the recorded one.
void check_recorded_names(const Catalog& tree, const Model& recorded) {
  const std::vector<Leaf>& leaves = recorded.leaves;
  const auto lacking = std::ranges::find_if(
      leaves, [&](const Leaf& leaf) { return !tree.find(leaf.name).has_value(); });
  if (lacking == leaves.end() || std::ranges::none_of(leaves, [&](const Leaf& leaf) {
        return tree.find(leaf.name).has_value();
      }))
    return;
  throw Error(ErrorCode::corrupt,
              fmt::format("the checkpoint lacks a {} that its record names", tree.wording.array))
      .in_file(tree.location)
      .in_tensor(lacking->name)
      .hint(fmt::format(
          "see hfshard verify {}; if another program wrote these files, move hfshard.json away",
          shell_word(tree.location)));
}

// Returns the config.json that describes a tree's codes, for options that decode them: that of
// --config, or the recorded one. Empty if no tensor is quantized.
std::string config_of_codes(const Catalog& tree, const std::optional<Recorded>& recorded,
                            const PlanOptions& options) {
  if (!options.mapping.dtype && options.mapping.casts.empty()) return {};
  std::string text = options.tree.config_text.value_or(std::string());
  if (text.empty() && recorded && !recorded->model_files.empty()) text = recorded_config(*recorded);
  if (text.empty()) return {};
  const Json config = parse_json(text, config_path(tree.location));
  return config.is_object() && !without_leftover(config, tree) ? text : std::string();
}

// Compiles a tree's arrays, with a config that describes codes. The tree doesn't carry it.
CompiledModel compile_with_codes(TreeSource& tree, const std::string& config,
                                 const MappingOptions& mapping, const SameOptions& same) {
  if (!tree.catalog().config_text.empty()) return compile_same(tree.catalog(), mapping, same);
  tree.names().config_text = config;
  CompiledModel out = compile_same(tree.catalog(), mapping, same);
  tree.names().config_text.clear();
  return out;
}

}  // namespace

CompiledModel compile_anew(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  SameOptions same;
  for (const std::string& text : options.tree.axes) same.axes.push_back(parse_axes(text));
  const auto recorded = recorded_below(place, options.tree.root);
  if (recorded) check_recorded_names(tree.catalog(), *recorded->tree);
  KnownModel known = known_model(tree.catalog(), recorded, options);
  same.known = std::move(known.leaves);
  const std::string scheme = recorded ? recorded->tree->scheme : scheme_of_tree(tree.catalog());
  MappingOptions mapping = options.mapping;
  mapping.casts.insert(mapping.casts.begin(), known.wider.begin(), known.wider.end());
  std::vector<std::string> kept;
  for (const TensorInfo* number : numbers_of_state(tree.catalog(), same.known, options.mapping)) {
    mapping.casts.push_back({glob_of(number->name), number->dtype});
    kept.push_back(number->name);
  }
  const FileLayout target = format_of(options.target).layout();
  const bool makes_tree = target.structure;
  std::vector<std::string> renamed;
  const std::shared_ptr<const TreeStructure> structure = structure_for(target, tree, renamed);
  mapping.flat_names = mapping.flat_names || structure != nullptr;
  const std::string config = config_of_codes(tree.catalog(), recorded, options);
  CompiledModel model = compile_with_codes(tree, config, mapping, same);
  model.scheme = scheme;
  if (!kept.empty()) model.notes.push_back("numbers keep their dtype: " + quoted_list(kept));
  if (const auto named = schemes_of_names(tree.catalog());
      known.loads && scheme == kNoScheme && named.size() == 1 &&
      (known.model || loader_takes(named.front().name, names_of(tree.catalog()))))
    model.loader = named.front().name;
  if (scheme != kNoScheme || !model.loader.empty())
    model.left_out_leaves = parameters_left_out(model, tree.catalog());
  keep_structure(structure.get(), mapping, tree.catalog(), model);
  if (!makes_tree) {
    name_left_out(tree_extras(scheme), recorded.has_value(), model);
    std::ranges::copy(renamed, std::back_inserter(model.notes));
  }
  if (known.own_names) {
    model.notes.emplace_back(
        "its names are those of the model's files, which have no logical axes: pass --axes, or "
        "hfshard cuts the arrays by size");
  }
  if (recorded) {
    model.family = recorded->origin.model->family;
    model.stacked = recorded->origin.model->stacked;
    model.origin = recorded->origin_path;
    // If the names aren't the model's own, a loader that reads config.json would look for other
    // names.
    if (scheme == kNoScheme || !format_of(options.target).layout().whole_arrays)
      carry_model(tree, *recorded, options.tree);
  }
  if (tree.catalog().config_text.empty()) model.config_text.clear();
  take_load_words(known.model ? &*known.model : nullptr, recorded.has_value(), model);
  return model;
}

}  // namespace hfshard
