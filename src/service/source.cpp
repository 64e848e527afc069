#include "service/source.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/store/tree_identity.h"
#include "format/formats.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "plan/compile/steps.h"
#include "service/anew.h"
#include "service/complete.h"
#include "service/config_sizes.h"
#include "service/described.h"
#include "service/dialect.h"
#include "service/linked.h"
#include "service/loadable.h"
#include "service/onward.h"
#include "service/own_names.h"
#include "service/recorded.h"
#include "service/recorded_model.h"
#include "service/scheme_files.h"
#include "service/source_checks.h"
#include "service/step.h"
#include "service/structure.h"
#include "service/ties.h"
#include "service/tree_names.h"
#include "service/tree_source.h"
#include "service/with_config.h"
#include "service/written_config.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kModelScheme = "hf";

// Returns whether another program's tree has the model's own names, which its loaders look for.
bool has_model_names(const StorePath& place, const std::string& root) {
  const auto found = recognise(place);
  return found && found->format->scheme() == kModelScheme && !recorded_below(place, root);
}

// Returns the other scheme's model whose names a tree has, if a config tells.
std::optional<Described> named_otherwise(const TreeSource& tree, const PlanOptions& options) {
  const TreeOptions& asked = options.tree;
  if (!asked.config_text) return std::nullopt;
  if (!find_family(parse_json(*asked.config_text, asked.config_name), options.mapping.files))
    return std::nullopt;
  try {
    const std::string config =
        config_as_asked(*asked.config_text, asked.config_name, options.mapping);
    Described out = describe_model(tree.catalog(), config, asked.config_name, options.mapping);
    if (has_all(tree.catalog(), out.model)) return out;
  } catch (const Error& error) {  // a model that no scheme has keeps its own names
    if (error.code() == ErrorCode::internal) throw;
  }
  return std::nullopt;
}

void name_findings(const Completeness& found, CompiledModel& model) {
  if (!found.doubt.empty()) model.warnings.push_back(found.doubt);
  model.left_out_others =
      static_cast<std::uint64_t>(std::ranges::count_if(found.left_out_others, may_be_parameter));
  if (!found.compared.empty()) model.notes.push_back(found.compared);
  if (!found.unchecked.empty()) model.notes.push_back("nothing was checked: " + found.unchecked);
  if (!found.others.empty()) {
    model.notes.push_back(fmt::format(
        "converted without a check, since no rule of family {} has {}: {}", quote(found.family),
        found.others.size() == 1 ? "it" : "them", quoted_list(found.others, kShownNames)));
  }
}

// Compiles a tree that is the model itself. It can also copy side files and names them.
CompiledModel compile_as_it_is(TreeSource& tree, const StorePath& place, const PlanOptions& options,
                               bool complete) {
  PlanOptions plain = options;
  take_off(std::exchange(plain.mapping.prefix, {}), tree.names());
  const TreeOptions& asked = options.tree;
  const bool foreign = !schemes_of_names(tree.catalog()).empty();  // a config has other names
  const auto carry = [&] {
    if (asked.config_text && !foreign) tree.carry(asked);
  };
  carry();
  Completeness found;
  if (asked.config_text) {
    const std::string config =
        config_as_asked(*asked.config_text, asked.config_name, plain.mapping);
    auto model = compile_from_dialect(tree.catalog(), config, asked.config_name, plain.mapping);
    if (model && complete)
      name_findings(check_undone(tree.catalog(), *model, config, asked, plain.mapping), *model);
    if (model) return *std::move(model);
    if (!complete || plain.mapping.include.empty())
      refuse_missing(tree.catalog(), asked, plain.mapping);
    if (complete) found = check_complete_tree(tree.catalog(), config, plain.mapping);
    plain.tree.config_text.reset();  // the arrays are the model's own
  }
  CompiledModel model = compile_anew(tree, place, plain);
  name_findings(found, model);
  carry();  // replaces the files that a record names
  if (tree.catalog().config_text.empty() && !asked.config_text) {
    model.notes.emplace_back(
        "without a config.json, hfshard can't check the tensors and converts all arrays; pass "
        "--root KEY to convert only those below one key");
  }
  if (const std::string_view way = foreign_export(place); !way.empty()) {
    model.notes.push_back(fmt::format(
        "the arrays keep Megatron-LM's names and shapes; to get the model's own, {}", way));
  }
  for (const SchemeSummary& scheme : schemes_of_names(tree.catalog())) {
    model.notes.push_back(fmt::format(
        "its names are {}{}", scheme.about,
        asked.config_text ? " and stay the same"
                          : "; pass --config DIR of the model to get the model's own names"));
  }
  return model;
}

// Compiles the export of a tree to a config's model. `described`: set if it's already known.
CompiledModel compile_by_config(TreeSource& tree, std::optional<Described> described,
                                const PlanOptions& options) {
  const TreeOptions& asked = options.tree;
  const std::string stated =
      config_as_asked(*asked.config_text, asked.config_name, options.mapping);
  std::string config = stated;
  if (!described || was_coded(described->model))
    described = describe_numbers(tree.catalog(), config, asked.config_name, options.mapping);
  check_sizes(tree.catalog(), *described, config, asked.config_name, options.mapping);
  if (!has_all(tree.catalog(), described->model))
    refuse_missing(tree.catalog(), asked, options.mapping);
  tree.carry(asked);
  CompiledModel model =
      compile_inverse(described->model, described->catalog, tree.catalog(), options.mapping);
  if (config != stated) model.config_text = config;
  note_lacking_parts(config, model);
  return model;
}

Error unknown_model(const StorePath& place) {
  return Error(ErrorCode::usage, "can't tell which model this checkpoint belongs to")
      .in_file(place.text())
      .hint("pass --config DIR, a directory with the model's config.json and tokenizer");
}

// Returns whether no config, record or name shows that a tree belongs to a model.
bool is_of_no_model(const TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  const std::string& root = options.tree.root;
  if (has_model_names(place, root) || options.tree.config_text || recorded_below(place, root))
    return false;
  return schemes_of_names(tree.catalog()).empty();
}

// Compiles the export of a tree to its original model, and copies its side files. `complete`: if
// the tree already has a model's own names, it must have every tensor of that model.
CompiledModel compile_back(TreeSource& tree, const StorePath& place, const PlanOptions& options,
                           bool complete) {
  if (is_of_no_model(tree, place, options)) {
    CompiledModel model = compile_as_it_is(tree, place, options, complete);
    model.scheme = kModelScheme;  // for any loader of its names
    return model;
  }
  const bool as_it_is = has_model_names(place, options.tree.root) ||
                        (options.tree.config_text &&
                         has_names_of_files(tree.catalog(), options.tree, options.mapping));
  std::optional<Described> named;
  if (as_it_is) named = named_otherwise(tree, options);
  if (as_it_is && !named) return compile_as_it_is(tree, place, options, complete);
  if (options.tree.config_text) return compile_by_config(tree, std::move(named), options);
  const auto recorded = recorded_below(place, options.tree.root);
  if (!recorded) throw unknown_model(place);
  if (options.mapping.options.contains("vocab")) {  // the record says how many rows were written
    PlanOptions named_by = options;
    named_by.tree.config_text = recorded_config(*recorded);
    named_by.tree.config_name = join_path(recorded->model_files, "config.json");
    return compile_by_config(tree, std::nullopt, named_by);
  }
  carry_recorded(tree, *recorded);
  return compile_recorded(*recorded, options.mapping, tree.names());
}

// Returns whether every leaf is the unchanged array with its name.
bool is_same(const CompiledModel& model, const Catalog& tree) {
  const auto stays = [&](const Transfer& transfer) {
    const Leaf& leaf = model.leaves[transfer.target];
    const TensorInfo& array = tree.tensors[transfer.sources.front()];
    return is_one_array(transfer, leaf.shape) && array.name == leaf.name &&
           array.dtype == leaf.dtype && array.shape == leaf.shape;
  };
  return model.fills.empty() && std::ranges::all_of(model.transfers, stays);
}

// Compiles a tree from its scheme to another one, through the model that the tree was made from.
CompiledModel compile_across(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  PlanOptions back = options;
  back.mapping = to_model(options.mapping);
  MappingOptions onward = options.mapping;
  if (takes_prefix_off(onward) && has_model_names(place, options.tree.root))
    back.mapping.prefix = std::exchange(onward.prefix, {});
  const CompiledModel model = compile_back(tree, place, back, /*complete=*/false);
  std::string config = model.config_text.empty() ? tree.catalog().config_text : model.config_text;
  if (config.empty()) config = options.tree.config_text.value_or("");
  if (config.empty()) throw unknown_model(place);
  if (options.tree.config_text) {
    const std::string& name = options.tree.config_name;
    family_of(parse_json(config, name), name, onward.files);
  }
  config = config_as_asked(config, place.text(), onward);
  CompiledModel out = compile_onward(model, std::move(config), tree.catalog(), onward);
  if (!is_same(out, tree.catalog())) return out;
  throw Error(ErrorCode::usage, fmt::format("the checkpoint has these leaves already ({}, {})",
                                            out.scheme, out.stacked ? "stacked" : "separate"))
      .in_file(place.text())
      .hint(
          "for another mesh, run hfshard reshard; for the Hugging Face model, pass --to "
          "safetensors "
          "--scheme hf");
}

// Returns whether a reshard writes a model's directory: files with its own names, and its config.
bool becomes_model(const TreeSource& tree, const PlanOptions& options) {
  return options.tree.same && options.tree.config_text &&
         format_of(options.target).layout().whole_arrays &&
         has_names_of_files(tree.catalog(), options.tree, options.mapping);
}

// Compiles a tree into a new layout, another scheme, or the model that it was made from or is.
CompiledModel compile_tree(TreeSource& tree, const StorePath& place, const PlanOptions& options) {
  const bool same = options.tree.same;
  if (same && !becomes_model(tree, options)) return compile_anew(tree, place, options);
  if (same) refuse_adapter_tensors(tree.catalog(), *options.tree.config_text, options.mapping);
  const bool across = !same && has_rules(options.mapping);
  if (!across && options.mapping.num_layers) {
    throw Error(ErrorCode::usage, "an export has all layers, so it can't use --num-layers")
        .in_file(place.text())
        .hint("pass --include to select tensors by name");
  }
  if (!across && !same) check_recorded_options(place, options);
  CompiledModel out = across ? compile_across(tree, place, options)
                      : same ? compile_as_it_is(tree, place, options, /*complete=*/true)
                             : compile_back(tree, place, options, /*complete=*/true);
  if (!across) {
    const TreeOptions& asked = options.tree;
    const std::string config = asked.config_text.value_or(tree.catalog().config_text);
    if (!options.mapping.untie)
      claim_ties(tree.catalog(), config, "config.json", options.mapping, out);
    count_no_mtp(tree.catalog(), out);
    write_without_leftover(tree.catalog(), out);
  }
  if (!same) name_beyond_model(tree.catalog(), out);
  // A config that is only recorded isn't written.
  if (!options.tree.config_text || !tree.catalog().config_text.empty())
    write_untied(options.mapping, tree.catalog(), out);
  return out;
}

// Compiles files with a dialect's names, through the model's own names. `said`: the evidence.
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

// `compile`: compiles tensors that have the files' names.
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
  if (mapping.scheme != kModelScheme) {  // its rules decide which names they take
    try {
      return compile(source, mapping);
    } catch (const Error& error) {  // the tensors have other names
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

// Opens a tree. Returns nothing if the place has no tree.
std::optional<OpenedSource> open_tree_model(const StorePath& place, const PlanOptions& asked) {
  const ReadStep step = read_source_step(place, asked.tree);
  const StorePath& read = step.place;
  Choice choice;
  choice.items = asked.tree.items;
  choice.usual_items = asked.tree.all_items;
  choice.model_alone = !asked.tree.same;
  choice.without = globs_below(asked.tree.root, asked.mapping.exclude);
  const auto before = read.is_directory() ? std::optional(tree_version(read)) : std::nullopt;
  std::shared_ptr<const Checkpoint> opened =
      open_linked(read, [&] { return open_tree(read, choice); });
  if (!opened) return std::nullopt;
  check_no_files(read, asked.files);
  check_root(read, asked.tree.root);
  PlanOptions options = asked;
  if (!options.tree.same) {
    options.tree = with_config_beside(read, std::move(options.tree));
    refuse_adapter_tensors(opened->catalog(), options.tree.config_text.value_or(""),
                           options.mapping);
  }
  auto tree = std::make_shared<TreeSource>(std::move(opened), read, options.tree.root);
  // Checks that the metadata, which were read first, and the data are from the same version.
  if (before && *before != tree->catalog().files.front().identity())
    throw changed_source(read.text());
  if (options.tree.config_text) check_elements(tree->catalog());
  if (!options.tree.same) {
    auto named = with_model_names(tree, options.tree, options.mapping);
    if (named != tree) tree = std::make_shared<TreeSource>(std::move(named), read, std::string());
  }
  if (read.name() != place.name()) tree->set_root(place.name());
  OpenedSource out;
  out.model = compile_tree(*tree, read, options);
  if (std::string changed = check_linked(read); !changed.empty())
    out.model.warnings.push_back(std::move(changed));
  if (options.tree.all_items) {
    keep_beside(beside_tree(read, choice, options.target), *tree, out.model);
  } else {
    const bool can_keep = options.tree.same && tree_format(read) == &format_of(options.target);
    name_other_items(read, choice, can_keep, out.model);
  }
  out.checkpoint = std::move(tree);
  if (const auto own = own_step(read))
    std::tie(out.step, out.step_name) = std::tie(own->number, own->directory);
  return out;
}

// Checks a model's files, also under the base model's names, which AutoModel saves. Throws: see
// check_complete.
Completeness check_files(const Catalog& source, const MappingOptions& mapping) {
  try {
    return check_complete(source, mapping);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    const std::optional<Catalog> files = under_rules_names(source, mapping);
    if (!files) throw;
    return check_complete(*files, mapping);
  }
}

// Compiles by the rules, also without the config's ties (--untie).
CompiledModel compile_files(const Catalog& source, const StorePath& place,
                            const MappingOptions& mapping, bool proves) {
  CompiledModel (*compile)(const Catalog&, const MappingOptions&) = compile_model;
  if (!proves) compile = compile_unproved;
  if (!mapping.untie) return compile_source_by(source, place, mapping, compile);
  Catalog untied = source;
  untied.config_text = config_as_asked(source.config_text, source.location, mapping);
  check_head(source, untied, mapping);
  CompiledModel out = compile_source_by(untied, place, mapping, compile);
  write_untied(mapping, untied, out);
  return out;
}

// Reports what a model's files lack or add to config.json's tensors, if they are taken as they are.
// The user can name one of several files of a model. Returns whether it is.
bool note_completeness(const Catalog& source, const MappingOptions& mapping, CompiledModel& model) {
  if (mapping.scheme != kModelScheme || !model.source_dialect.empty()) return false;
  // A dialect accepts tensors that already have its names.
  if (!asked_dialect(mapping).empty() && names_of(source, to_model(mapping)).half) return false;
  Completeness found;
  bool part = false;
  try {
    found = check_files(source, mapping);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found || source.part.empty()) throw;
    part = true;
    model.warnings.push_back(fmt::format("the output is a part of the model: {}, such as {}",
                                         error.sentence(), quote(error.tensor())));
  }
  found.compared.clear();  // hfshard copies the files
  name_findings(found, model);
  return part;
}

}  // namespace

CompiledModel compile_source(const Catalog& source, const StorePath& place,
                             const MappingOptions& mapping, bool proves) {
  try {
    return compile_files(source, place, mapping, proves);
  } catch (const Error& error) {  // the model's other files have what this one lacks
    if (error.code() != ErrorCode::not_found || source.part.empty()) throw;
    throw error
        .reworded(error.code(),
                  fmt::format("the file is {} of a model: {}", source.part, error.sentence()))
        .rehinted(fmt::format("pass the directory: {}", shell_word(source.directory.text())))
        .in_file(source.location);
  }
}

OpenedSource open_source_model(const StorePath& place, const PlanOptions& options) {
  // A model with an index over its files is still read from the files.
  const bool is_tree = !options.link && !is_model_place(place);
  if (options.tree.same || is_tree) {
    if (auto out = open_tree_model(place, options)) return *std::move(out);
  }
  if (options.tree.same) {
    if (!place.is_file() && !place.is_directory()) open_source(place, {});  // reports what is there
    throw Error(ErrorCode::usage, "reshard can't read this checkpoint")
        .in_file(place.text())
        .hint(
            "reshard reads Orbax and DCP checkpoints; for a Hugging Face model, run hfshard "
            "convert");
  }
  check_no_tree(place, options.tree);
  Choice choice;
  choice.files = options.files;
  choice.without = options.mapping.exclude;
  choice.root = options.tree.root;
  std::shared_ptr<const Checkpoint> opened =
      with_own_names(with_config(open_source(place, choice), options.tree), place, options.mapping);
  refuse_adapter_tensors(opened->catalog(), opened->catalog().config_text, options.mapping);
  const bool copied = !has_rules(options.mapping) && !options.mapping.include.empty();
  if (!copied) check_elements(opened->catalog());
  if (auto out = open_scheme_files(opened, place, options.mapping)) return *std::move(out);
  MappingOptions mapping = options.mapping;
  if (takes_prefix_off(mapping)) mapping.prefix.clear();
  CompiledModel model = compile_source(opened->catalog(), place, mapping);
  if (copied) warn_of_no_elements(opened->catalog(), model.warnings);
  const bool part = note_completeness(opened->catalog(), mapping, model);
  if (part) opened = without_side_files(std::move(opened));
  return {std::move(opened), std::move(model), std::nullopt};
}

}  // namespace hfshard
