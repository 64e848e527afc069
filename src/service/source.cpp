#include "service/source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/files.h"
#include "format/formats.h"
#include "mapping/find.h"
#include "mapping/mtp_layers.h"
#include "mapping/scheme_defaults.h"
#include "mapping/table.h"
#include "plan/compile/steps.h"
#include "plan/options_json.h"
#include "service/described.h"
#include "service/dialect.h"
#include "service/recorded.h"
#include "service/tree_source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kModelScheme = "hf";

void carry_recorded(TreeSource& tree, const Recorded& recorded) {
  if (recorded.model_files.empty()) return;
  const StorePath directory(recorded.model_files);
  tree.carry(directory, (directory / "config.json").read());
}

// The scheme whose loaders a tree of another program is for, as far as its names tell: one that
// needs what a tree of parameters alone has beside them.
std::string scheme_of_tree(const Catalog& tree) {
  const std::string scheme = MappingOptions().scheme;
  const TreeExtras extras = tree_extras(scheme);
  const auto below = [&](const std::string& prefix) {
    return std::ranges::any_of(
        tree.tensors, [&](const TensorInfo& info) { return info.name.starts_with(prefix + "."); });
  };
  const bool parameters_alone = tree.find(extras.step) && !below(extras.empty);
  return parameters_alone ? scheme : std::string(kModelScheme);
}

void check_same_model(const Catalog& tree, const CompiledModel& model,
                      const std::string& config_name) {
  const auto other = std::ranges::find_if(model.leaves, [&](const Leaf& leaf) {
    const auto array = tree.find(leaf.name);
    return !array || !(tree.tensors[*array].shape == leaf.shape);
  });
  if (other == model.leaves.end()) return;
  throw Error(ErrorCode::bad_input, "the checkpoint is of another model than this config")
      .in_file(config_name)
      .in_tensor(other->name)
      .hint("the config must be that of the model whose arrays these are");
}

// Whether a tree has names of the model's files. Throws: bad_input (with other shapes).
bool has_own_names(const Catalog& tree, const Catalog& model, const std::string& config_name) {
  std::size_t shared = 0;
  for (const TensorInfo& info : tree.tensors) {
    const auto found = model.find(info.name);
    if (!found) continue;
    ++shared;
    const Shape& wanted = model.tensors[*found].shape;
    if (info.shape == wanted) continue;
    throw Error(ErrorCode::bad_input, fmt::format("the tensor is {} here, and {} by this config",
                                                  to_string(info.shape), to_string(wanted)))
        .in_file(config_name)
        .in_tensor(info.name)
        .hint("is it the config of this model, and all of the checkpoint here?");
  }
  return 2 * shared > tree.tensors.size();
}

CompiledModel compile_anew(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  SameOptions same;
  for (const std::string& text : options.tree.axes) same.axes.push_back(parse_axes(text));
  const auto recorded = recorded_at(place);
  bool own_names = false;
  if (const TreeOptions& asked = options.tree; asked.config_text) {
    const Described described =
        describe_model(tree.catalog(), *asked.config_text, asked.config_name, {});
    own_names = !has_all(tree.catalog(), described.model) &&
                has_own_names(tree.catalog(), described.catalog, asked.config_name);
    if (!own_names) {
      check_same_model(tree.catalog(), described.model, asked.config_name);
      same.known = described.model.leaves;
    }
  } else if (recorded) {
    same.known = recorded->tree->leaves;
  }
  const std::string scheme = recorded ? recorded->tree->scheme : scheme_of_tree(tree.catalog());
  same.left_out = tree_extras(scheme).step;
  CompiledModel model = compile_same(tree.catalog(), options.mapping, same);
  model.scheme = scheme;
  if (own_names) {
    model.notes.emplace_back(
        "its names are those of the model's files, which have no axes: --axes says them, else "
        "arrays are cut by size");
  }
  if (recorded) {
    model.family = recorded->origin.model->family;
    model.stacked = recorded->origin.model->stacked;
    model.origin = recorded->origin_path;
    const std::string flag = loader_options(scheme).stacked;
    if (!flag.empty())
      model.load_words = {fmt::format("{}={}", flag, model.stacked ? "true" : "false")};
    carry_recorded(tree, *recorded);
  }
  return model;
}

bool was_coded(const CompiledModel& forward) {
  return std::ranges::any_of(forward.transfers,
                             [](const Transfer& transfer) { return transfer.decode != nullptr; });
}

// Whether a tree of another program has the model's own names, as loaders of its format look for.
bool has_model_names(const StorePath& place) {
  const auto found = recognise(place);
  return found && found->format->scheme() == kModelScheme && !recorded_at(place);
}

// The model of another scheme whose names a tree has, as far as a config tells.
std::optional<Described> named_otherwise(const TreeSource& tree, const PlanOptions& options) {
  const TreeOptions& asked = options.tree;
  if (!asked.config_text) return std::nullopt;
  if (!find_family(parse_json(*asked.config_text, asked.config_name), options.mapping.files))
    return std::nullopt;
  try {
    Described out =
        describe_model(tree.catalog(), *asked.config_text, asked.config_name, options.mapping);
    if (has_all(tree.catalog(), out.model)) return out;
  } catch (const Error& error) {  // a model that no scheme has keeps its own names
    if (error.code() == ErrorCode::internal) throw;
  }
  return std::nullopt;
}

// Whether a tree was made of another tree, or of files with other names than the model's own.
bool was_tree(const Manifest& manifest) {
  const Json& source = manifest.identity.at("source");
  const Json::Array& files = source.at("files").as_array();
  return source.find("dialect") != nullptr ||
         (files.size() == 1 && files.front().at("name").as_string() == kWholeTree);
}

// The tensors of a config's model, as far as its family is known and nothing is coded.
std::optional<Catalog> tensors_by_config(const Catalog& tree, const PlanOptions& options) {
  const std::string& config = *options.tree.config_text;
  const std::string& name = options.tree.config_name;
  if (!(parse_json(config, name) == parse_json(without_codes(config, name), name)))
    return std::nullopt;
  try {
    return describe_model(tree, config, name, options.mapping).catalog;
  } catch (const Error& error) {  // a model that no scheme has keeps its own names
    if (error.code() == ErrorCode::internal) throw;
    return std::nullopt;
  }
}

// Such a tree is the model; what goes along with it may be named.
CompiledModel compile_as_it_is(TreeSource& tree, const StorePath& place,
                               const PlanOptions& options) {
  PlanOptions plain = options;
  take_off(std::exchange(plain.mapping.prefix, {}), tree.names());
  if (const TreeOptions& asked = options.tree; asked.config_text) {
    if (exists(asked.config_name)) tree.carry(parent_path(asked.config_name), *asked.config_text);
    if (auto model = compile_from_dialect(tree.catalog(), *asked.config_text, asked.config_name,
                                          plain.mapping))
      return *std::move(model);
    if (const auto tensors = tensors_by_config(tree.catalog(), plain))
      has_own_names(tree.catalog(), *tensors, asked.config_name);
    plain.tree.config_text.reset();  // the arrays are the model's own
  }
  CompiledModel model = compile_anew(tree, place, plain);
  if (tree.catalog().config_text.empty()) {
    model.notes.emplace_back(
        "no config.json goes along, since the checkpoint has none (--config DIR of the model), and "
        "all arrays do (--root KEY takes those below one key)");
  }
  for (const SchemeSummary& scheme : known_schemes()) {
    const std::string sign = loader_sign(scheme.name);
    const bool has = !sign.empty() &&
                     std::ranges::any_of(tree.catalog().tensors,
                                         [&](const auto& t) { return glob_match(sign, t.name); });
    if (!has) continue;
    model.notes.push_back(
        fmt::format("its names are {}; with --config DIR of the model "
                    "they become the model's own",
                    scheme.about));
  }
  return model;
}

// The way back to the model that a config describes. `described`: where that is known already.
CompiledModel compile_by_config(TreeSource& tree, std::optional<Described> described,
                                const PlanOptions& options) {
  const TreeOptions& asked = options.tree;
  std::string config = *asked.config_text;
  const auto describe = [&] {
    return describe_model(tree.catalog(), config, asked.config_name, options.mapping);
  };
  if (!described) described = describe();
  const bool coded = was_coded(described->model);
  if (coded) {  // what was coded is a number in the tree
    config = without_codes(config, asked.config_name);
    described = describe();
  }
  if (exists(asked.config_name))  // what was recorded of it is its text
    tree.carry(parent_path(asked.config_name), *asked.config_text);
  CompiledModel model =
      compile_inverse(described->model, described->catalog, tree.catalog(), options.mapping);
  if (coded) model.config_text = config;
  return model;
}

Error unknown_model(const StorePath& place) {
  return Error(ErrorCode::usage, "nothing says which model this checkpoint is of")
      .in_file(place.text())
      .hint("--config DIR names a directory with its config.json and tokenizer");
}

// The way back to the model that a checkpoint was made of, by what is recorded of it. `tree`: whose
// names lose their prefix where the model's own are below one.
CompiledModel compile_recorded(const Recorded& recorded, const MappingOptions& mapping,
                               Catalog& tree) {
  const Model& forward = *recorded.origin.model;
  const bool of_tree = was_tree(recorded.origin);
  if (!of_tree && !was_coded(forward))
    return compile_inverse(forward, forward.catalog(), tree, mapping);
  PlanOptions made_with = options_from_json(recorded.origin.identity.at("options"));
  const bool has_dialect = has_rules(made_with.mapping);
  if (made_with.mapping.scheme == kModelScheme && !(has_dialect && of_tree)) {
    take_off(made_with.mapping.prefix, tree);
    std::optional<CompiledModel> model;  // where its names are not the model's own
    if (has_dialect)
      model = compile_from_dialect(tree, tree.config_text, "config.json", mapping, &forward);
    return model ? *std::move(model) : compile_same(tree, mapping, {});
  }
  if (of_tree) {  // the rules that made it lead from other names than the model's
    const Catalog tensors = tensors_of(forward.through, tree.config_text, tree);
    made_with.mapping.num_layers.reset();  // the config has no others
    made_with.mapping.flat_names = true;
    return compile_inverse(compile_model(tensors, made_with.mapping), tensors, tree, mapping);
  }
  // Names and shapes of what was coded are those of the same model without codes.
  const std::string name = join_path(recorded.model_files, "config.json");
  const std::string config = without_codes(tree.config_text, name);
  const Described described = describe_model(tree, config, name, made_with.mapping, &forward);
  CompiledModel model = compile_inverse(described.model, described.catalog, tree, mapping);
  model.config_text = config;
  return model;
}

// The way back to the model that a tree was made of; what goes along with it is carried.
CompiledModel compile_back(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  const bool as_it_is = has_model_names(place);
  std::optional<Described> named;
  if (as_it_is) named = named_otherwise(tree, options);
  if (as_it_is && !named) return compile_as_it_is(tree, place, options);
  if (options.tree.config_text) return compile_by_config(tree, std::move(named), options);
  const auto recorded = recorded_at(place);
  if (!recorded) throw unknown_model(place);
  carry_recorded(tree, *recorded);
  return compile_recorded(*recorded, options.mapping, tree.names());
}

// The config that goes along says nothing of layers of multi-token prediction that are not there:
// programs that predict with them look for their tensors.
void count_no_mtp(const Catalog& tree, CompiledModel& model) {
  const std::string& text = model.config_text.empty() ? tree.config_text : model.config_text;
  if (text.empty()) return;
  std::vector<std::string> names;
  for (const Leaf& leaf : model.leaves) names.push_back(leaf.name);
  const auto without = without_mtp(parse_json(text, "config.json"), names);
  if (!without) return;
  model.config_text = dump_json_pretty(without->config);
  model.notes.push_back(fmt::format(
      "no layer of multi-token prediction is here, so that {} of config.json is 0", without->key));
}

// Whether every leaf is the array of its name, as it is.
bool is_same(const CompiledModel& model, const Catalog& tree) {
  const auto stays = [&](const Transfer& transfer) {
    const Leaf& leaf = model.leaves[transfer.target];
    const TensorInfo& array = tree.tensors[transfer.sources.front()];
    return transfer.sources.size() == 1 && transfer.value.empty() && array.name == leaf.name &&
           array.dtype == leaf.dtype && array.shape == leaf.shape &&
           normalize(transfer.map) == normalize(identity_map(leaf.shape));
  };
  return model.fills.empty() && std::ranges::all_of(model.transfers, stays);
}

// Of what is asked of a source, that which concerns the model in it.
MappingOptions to_model(const MappingOptions& asked) {
  MappingOptions out;
  out.scheme = kModelScheme;
  out.flat_names = true;
  out.keep_dtype = asked.keep_dtype;
  out.options = asked.options;
  out.files = asked.files;
  return out;
}

// What a source becomes by way of the model that `back` makes of it, whose config this is.
CompiledModel compile_onward(const CompiledModel& back, std::string config, const Catalog& source,
                             const MappingOptions& mapping) {
  const Catalog tensors =
      tensors_of({back.leaves.begin(), back.leaves.end()}, std::move(config), source);
  return compile_through(back, compile_model(tensors, mapping), source);
}

// From the tree's scheme to another one, by way of the model that the tree was made of.
CompiledModel compile_across(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  PlanOptions back = options;
  back.mapping = to_model(options.mapping);
  const CompiledModel model = compile_back(tree, place, back);
  std::string config = model.config_text.empty() ? tree.catalog().config_text : model.config_text;
  if (config.empty()) config = options.tree.config_text.value_or("");
  if (config.empty()) throw unknown_model(place);
  CompiledModel out = compile_onward(model, std::move(config), tree.catalog(), options.mapping);
  if (!is_same(out, tree.catalog())) return out;
  throw Error(ErrorCode::usage, fmt::format("the checkpoint has these leaves already ({}, {})",
                                            out.scheme, out.stacked ? "stacked" : "separate"))
      .in_file(place.text())
      .hint(
          "reshard lays it out for another mesh; convert --to safetensors goes back to the model "
          "that it was made of");
}

// What a tree becomes: laid out anew, of another scheme, or the model that it was made of.
CompiledModel compile_tree(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  if (options.tree.same) return compile_anew(tree, place, options);
  if (has_rules(options.mapping)) return compile_across(tree, place, options);
  CompiledModel out = compile_back(tree, place, options);
  count_no_mtp(tree.catalog(), out);
  return out;
}

// Files whose tensors have the names of a dialect, by way of their own names. `said`: what says so.
CompiledModel compile_otherwise(const CompiledModel& back, const std::string& dialect,
                                std::string_view said, const Catalog& source,
                                const MappingOptions& mapping) {
  std::string config = back.config_text.empty() ? source.config_text : back.config_text;
  CompiledModel out = compile_onward(back, std::move(config), source, mapping);
  out.source_dialect = dialect;
  out.notes.insert(out.notes.begin(),
                   fmt::format("the source has the names of --dialect {}, as {}", dialect, said));
  return out;
}

// The step that is read, of a place that has steps.
std::optional<Found::Step> step_of(const StorePath& place, const PlanOptions& options) {
  const auto found = recognise(place);
  const std::vector<Found::Step> steps = found ? found->found.steps : std::vector<Found::Step>();
  if (options.tree.step) return step_numbered(steps, *options.tree.step, place);
  const auto taken = std::ranges::find_if(
      steps, [&](const Found::Step& step) { return step.directory == found->found.directory; });
  return taken == steps.end() ? std::nullopt : std::optional(*taken);
}

// What a record says is about the whole tree.
void check_root(const StorePath& place, const std::string& root) {
  if (root.empty() || !recorded_at(place)) return;
  throw Error(ErrorCode::usage, "--root is for checkpoints of other programs; hfshard wrote this")
      .in_file(place.text())
      .hint("--include takes some of its arrays");
}

// Copies what lies beside a tree along with it.
void keep_beside(Beside beside, TreeSource& tree, CompiledModel& model) {
  // What a run of ours records of a tree says nothing of another one.
  std::erase_if(beside.files, [](const std::string& name) {
    return name == kManifestName || name == kOriginName;
  });
  std::vector<std::string> tops;
  for (const std::string& name : beside.files) {
    const std::string top = name.substr(0, name.find('/'));
    if (tops.empty() || tops.back() != top) tops.push_back(top);
  }
  model.notes.push_back(tops.empty() ? "nothing lies beside the tree"
                                     : "copied as they are: " + join(tops, ", "));
  tree.keep(std::move(beside));
}

void check_no_files(const StorePath& place, const FileGlobs& asked) {
  if (asked.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} is about files of a model, and this is a tree of "
                          "arrays",
                          quote((asked.take.empty() ? asked.leave : asked.take).front())))
      .in_file(place.text())
      .hint("--include and --exclude choose by the names of arrays");
}

// What is asked of a source that is a model.
void check_no_tree(const StorePath& place, const TreeOptions& asked) {
  if (!asked.root.empty()) {
    throw Error(ErrorCode::usage, "--root is for checkpoints that are trees of arrays")
        .in_file(place.text())
        .hint("--include takes some of a model's tensors");
  }
  if (!asked.items.empty() || asked.all_items) {
    throw Error(ErrorCode::usage, "--items is for checkpoints that are trees of arrays")
        .in_file(place.text());
  }
}

// `compile`: what is done with tensors that have the files' names.
CompiledModel compile_source_by(const Catalog& source, const StorePath& place,
                                const MappingOptions& mapping,
                                CompiledModel (*compile)(const Catalog&, const MappingOptions&)) {
  if (const std::string dialect = recorded_dialect(place); !dialect.empty()) {
    Catalog names = source;
    const CompiledModel back =
        compile_recorded(recorded_at(model_directory(place)).value(), to_model(mapping), names);
    return compile_otherwise(back, dialect, "hfshard.json says", names, mapping);
  }
  std::optional<Error> refused;
  if (mapping.scheme != kModelScheme) {  // whose rules say which names they take
    try {
      return compile(source, mapping);
    } catch (const Error& error) {  // of tensors with other names
      if (error.code() == ErrorCode::internal || error.code() == ErrorCode::usage) throw;
      refused = error;
    }
  }
  NamedOtherwise names = names_of(source, to_model(mapping));
  if (names.back)
    return compile_otherwise(*names.back, names.dialect, "they show", source, mapping);
  if (names.half && asked_dialect(mapping).empty()) throw Error(*names.half);
  if (refused) throw Error(*refused);
  return compile(source, mapping);
}

}  // namespace

CompiledModel compile_source(const Catalog& source, const StorePath& place,
                             const MappingOptions& mapping) {
  return compile_source_by(source, place, mapping, compile_model);
}

CompiledModel compile_source_unproved(const Catalog& source, const StorePath& place,
                                      const MappingOptions& mapping) {
  return compile_source_by(source, place, mapping, compile_unproved);
}

OpenedSource open_source_model(const StorePath& place, const PlanOptions& options) {
  // A model that has an index over its files is still read from them.
  const bool is_tree = !options.link && !is_model_place(place);
  if (options.tree.same || is_tree) {
    const std::optional<Found::Step> step = step_of(place, options);
    const StorePath read = step ? place.at(step->directory) : place;
    Choice choice;
    choice.items = options.tree.items;
    choice.usual_items = options.tree.all_items;
    if (std::shared_ptr<const Checkpoint> opened = open_tree(read, choice)) {
      check_no_files(read, options.files);
      check_root(read, options.tree.root);
      auto tree = std::make_shared<TreeSource>(std::move(opened), read, options.tree.root);
      OpenedSource out;
      out.model = compile_tree(*tree, read, options);
      if (options.tree.all_items) {
        keep_beside(beside_tree(read, choice, options.target), *tree, out.model);
      }
      out.checkpoint = std::move(tree);
      if (step) out.step = step->number;
      return out;
    }
  }
  if (options.tree.same) {
    if (!place.is_file() && !place.is_directory()) open_source(place, {});  // says what is there
    throw Error(ErrorCode::usage, "this is no checkpoint that could be laid out anew")
        .in_file(place.text())
        .hint(
            "reshard, and verify of what it wrote, read a checkpoint; a HuggingFace model is for "
            "convert and diff");
  }
  check_no_tree(place, options.tree);
  Choice choice;
  choice.files = options.files;
  std::shared_ptr<const Checkpoint> opened = open_source(place, choice);
  CompiledModel model = compile_source(opened->catalog(), place, options.mapping);
  return {std::move(opened), std::move(model), std::nullopt};
}

}  // namespace hfshard
