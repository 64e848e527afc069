#include "service/recorded_model.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "bytes/local/files.h"
#include "bytes/store/tree_identity.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "plan/options_json.h"
#include "service/described.h"
#include "service/dialect.h"
#include "service/own_names.h"
#include "service/tree_source.h"
#include "service/written_config.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kOwnNames = "hf";

// Returns whether a tree was made from another tree, or from files with names of a dialect.
bool was_tree(const Manifest& manifest) {
  const Json& source = manifest.identity.at("source");
  const Json::Array& files = source.at("files").as_array();
  return source.find("dialect") != nullptr ||
         (files.size() == 1 && files.front().at("name").as_string() == kWholeTree);
}

// Returns the name of a tensor's module, with the dot behind it.
std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.') + 1); }

// Returns whether a leaf of codes isn't in a tree because their values are.
bool is_decoded(const std::string& name, const Catalog& tree) {
  for (const std::string_view codes : {"_blocks", "_packed"}) {
    if (name.ends_with(codes))
      return tree.find(name.substr(0, name.size() - codes.size())).has_value();
  }
  if (!is_name_of_codes(name)) return false;
  const std::string beside = module_of(name);  // of scales
  const auto found = std::ranges::lower_bound(tree.tensors, beside, {}, &TensorInfo::name);
  return found != tree.tensors.end() && found->name.starts_with(beside);
}

// Returns whether a tree has values where it had codes when it was made.
bool was_decoded(const std::vector<Leaf>& leaves, const Catalog& tree) {
  return std::ranges::any_of(leaves, [&](const Leaf& leaf) {
    return !tree.find(leaf.name) && is_decoded(leaf.name, tree);
  });
}

// Throws: not_found, if a tree lacks more than codes whose values it has.
void check_has_leaves(const std::vector<Leaf>& leaves, const MappingOptions& mapping,
                      const Catalog& tree) {
  for (const Leaf& leaf : leaves) {
    if (tree.find(leaf.name) || left_out(mapping, leaf.name) || is_decoded(leaf.name, tree))
      continue;
    throw Error(ErrorCode::not_found, "the checkpoint lacks a tensor that its record names")
        .in_file(tree.location)
        .in_tensor(leaf.name)
        .hint("to write only what is there, run hfshard reshard --to safetensors");
  }
}

// Notes tensors of the source that no rule took.
void note_unread(const Model& forward, const MappingOptions& mapping, CompiledModel& model) {
  const std::vector<TensorInfo>& tensors = forward.catalog().tensors;
  std::vector<bool> read(tensors.size(), false);
  const auto mark = [&](std::uint32_t tensor) { read[tensor] = true; };
  for (const Transfer& transfer : forward.transfers) {
    std::ranges::for_each(transfer.sources, mark);
    if (transfer.decode) transfer.decode->for_each_tensor(mark);
  }
  std::set<std::string> modules;  // of codes: the decoder needs no shapes
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (read[i]) modules.insert(module_of(tensors[i].name));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    if (read[i] || left_out(mapping, name)) continue;
    if (!is_name_of_codes(name) || !modules.contains(module_of(name))) names.push_back(name);
  }
  note_left_out(std::move(names), tensors.size(), model);
}

}  // namespace

bool was_coded(const CompiledModel& forward) {
  return std::ranges::any_of(forward.transfers,
                             [](const Transfer& transfer) { return transfer.decode != nullptr; });
}

CompiledModel compile_recorded(const Recorded& recorded, const MappingOptions& mapping,
                               Catalog& tree) {
  const Model& forward = *recorded.origin.model;
  const bool of_tree = was_tree(recorded.origin);
  PlanOptions made_with = options_from_json(recorded.origin.identity.at("options"));
  made_with.mapping.drop.clear();  // its globs match names of the first source
  if (takes_prefix_off(made_with.mapping)) made_with.mapping.prefix.clear();
  const bool has_dialect = has_rules(made_with.mapping);
  if (has_dialect) check_has_leaves(forward.leaves, mapping, tree);
  // Arrays with the model's own names can still be codes, which a cast decodes. A reshard can have
  // decoded them.
  const bool decodes =
      made_with.mapping.scheme == kOwnNames && !has_dialect &&
      (mapping.dtype || !mapping.casts.empty() || was_decoded(forward.leaves, tree));
  if (!of_tree && !was_coded(forward) && !mapping.untie && !decodes)
    return compile_inverse(forward, forward.catalog(), tree, mapping);
  const bool of_names =
      of_tree && !was_coded(forward);  // codes are decoded under the model's names
  if (made_with.mapping.scheme == kOwnNames && !(has_dialect && of_names)) {
    if (!has_dialect) check_has_leaves(forward.leaves, mapping, tree);
    take_off(made_with.mapping.prefix, tree);
    std::optional<CompiledModel> model;  // set if its names aren't the model's own
    if (has_dialect)
      model = compile_from_dialect(tree, config_as_asked(tree.config_text, tree.location, mapping),
                                   "config.json", mapping, &forward);
    return model ? *std::move(model) : compile_same(tree, mapping, {});
  }
  if (of_names && !mapping.untie) {  // its rules start from other names than the model's
    const Catalog tensors = tensors_of(forward.through, tree.config_text, tree);
    made_with.mapping.num_layers.reset();  // the config already has the smaller count
    made_with.mapping.flat_names = true;
    return compile_inverse(compile_model(tensors, made_with.mapping), tensors, tree, mapping);
  }
  // Former codes have the names and shapes of the same model without codes.
  const std::string name = join_path(recorded.model_files, "config.json");
  const std::string config =
      without_codes(config_as_asked(tree.config_text, tree.location, mapping), name);
  const Described described = describe_model(tree, config, name, made_with.mapping, &forward);
  CompiledModel model = compile_inverse(described.model, described.catalog, tree, mapping);
  model.config_text = config;
  note_unread(forward, mapping, model);
  return model;
}

}  // namespace hfshard
