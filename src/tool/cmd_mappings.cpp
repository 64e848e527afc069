#include <algorithm>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "tool/cli.h"
#include "tool/family_table.h"
#include "tool/help.h"
#include "tool/hub_flags.h"
#include "tool/mapping_flags.h"
#include "tool/mappings_check.h"
#include "tool/progress.h"
#include "tool/text_table.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

std::string config_text_of(const std::string& file) {
  return file.empty() ? std::string() : read_file(file);
}

// -- list

Json families_json(const std::vector<FamilySummary>& families) {
  Json::Array items;
  for (const FamilySummary& family : families) {
    Json item;
    item["name"] = family.name;
    item["model_types"] = texts_json(family.model_types);
    item["architectures"] = texts_json(family.architectures);
    item["schemes"] = texts_json(family.schemes);
    item["dialects"] = texts_json(family.dialects);
    item["layers"] = texts_json(family.layers);
    item["accounted"] = family.proof.accounted;
    item["executed"] = family.proof.executed;
    item["right_by_maxtext"] = family.proof.by_maxtext;
    item["right_by_own_oracle"] = family.proof.by_own_oracle;
    item["right_by_torchtitan"] = family.proof.by_torchtitan;
    items.push_back(std::move(item));
  }
  return Json(Json::Object{{"families", Json(std::move(items))}});
}

int run_list(const Session& session, const MappingFlags& flags) {
  const std::vector<FamilySummary> families = list_mappings(own_mappings(flags));
  if (session.json) {
    print_json("mappings list", families_json(families));
  } else {
    print_families(families);
  }
  return 0;
}

Command list_command(Session& session) {
  const auto flags = std::make_shared<MappingFlags>();
  Command out{.name = "list", .summary = "list the model families"};
  out.options = joined({only(mapping_table(*flags), {"--mapping"}), common_table(session)});
  out.examples = {{"as a table", "hfshard mappings list"},
                  {"with your own family", "hfshard mappings list --mapping my_family.json"},
                  {"as JSON", "hfshard mappings list --json"}};
  out.run = [&session, flags] { return run_list(session, *flags); };
  return out;
}

// -- show

struct ShowFlags {
  std::string family;
  std::string config;
  std::string layers = "stacked";
  MappingFlags parts;  // --scheme, --with and --option only
};

Json extents_json(const std::optional<Shape>& shape) { return shape ? shape_json(*shape) : Json(); }

std::string extents_text(const std::optional<Shape>& shape) {
  return shape ? to_string(*shape) : std::string();
}

Json rule_json(const ShownRule& row) {
  Json out;
  out["source"] = row.source;
  out["source_pattern"] = row.source_pattern;
  out["source_shape"] = extents_json(row.source_shape);
  out["target"] = row.target;
  out["target_pattern"] = row.target_pattern;
  out["target_shape"] = extents_json(row.target_shape);
  out["axes"] = row.axes;
  out["value"] = row.value;
  out["rule"] = row.rule;
  out["count"] = row.count;
  return out;
}

std::string layers_of(const FamilyRules& shown) { return shown.stacked ? "stacked" : "separate"; }

Json show_json(const FamilyRules& shown) {
  Json::Array rules;
  for (const ShownRule& row : shown.rules) rules.push_back(rule_json(row));
  Json out;
  out["family"] = shown.family;
  out["scheme"] = shown.scheme;
  if (!shown.dialect.empty()) out["dialect"] = shown.dialect;
  out["layers"] = layers_of(shown);
  out["config"] = parse_json(shown.config, "config");
  out["rules"] = std::move(rules);
  return out;
}

void print_show(const FamilyRules& shown, const ShowFlags& flags) {
  const std::string form =
      shown.dialect.empty() ? "layers " + layers_of(shown) : "dialect " + shown.dialect;
  print_line(fmt::format("family {}, scheme {}, {}, shapes for {}", shown.family, shown.scheme,
                         form, flags.config.empty() ? "its example" : printable(flags.config)));
  for (const ShownRule& row : shown.rules) {
    print_parts("", {row.source, row.source_pattern, extents_text(row.source_shape),
                     row.count > 1 ? fmt::format("({} tensors)", row.count) : ""});
    print_parts("  -> ", {row.target, row.target_pattern, extents_text(row.target_shape),
                          row.axes.empty() ? "" : "axes " + row.axes,
                          row.value.empty() ? "" : "value " + row.value});
  }
}

int run_show(const ShowFlags& flags, const Session& session) {
  MappingOptions options = mapping_options(flags.parts);
  const FamilyRules shown =
      show_mapping({std::move(options.files), flags.family, config_text_of(flags.config),
                    flags.config, std::move(options.options)},
                   flags.layers == "stacked", flags.parts.scheme.value_or(""), flags.parts.dialect);
  if (session.json) {
    print_json("mappings show", show_json(shown));
  } else {
    print_show(shown, flags);
  }
  return 0;
}

Command show_command(Session& session) {
  const auto flags = std::make_shared<ShowFlags>();
  Command out{.name = "show", .summary = "show a family's rules and their shapes"};
  out.positionals = {{.name = "FAMILY",
                      .to = &flags->family,
                      .required = false,
                      .offer = Offer::family,
                      .help = "a name from `mappings list`",
                      .standard = "the family of --mapping"}};
  out.options =
      joined({{config_option(flags->config, "config.json for the shapes", "the family's example"),
               family_scheme_option(flags->parts.scheme), dialect_option(flags->parts.dialect),
               layers_option(flags->layers)},
              part_table(flags->parts),
              common_table(session)});
  out.examples = {
      {"with the shapes of a model", "hfshard mappings show qwen3 --config Qwen3-8B/config.json"},
      {"for separate layers", "hfshard mappings show qwen3 --layers separate"},
      {"for torchtitan", "hfshard mappings show qwen3 --scheme torchtitan"}};
  out.run = [flags, &session] { return run_show(*flags, session); };
  return out;
}

// -- example

struct ExampleFlags {
  std::string config;
  std::string dtype = "bf16";
  std::string shard_bytes = "4GiB";
  MappingFlags parts;  // --with and --option only
  ExampleOptions options;
};

// Returns the options of an example. Throws: usage, io.
ExampleOptions example_options(const ExampleFlags& flags) {
  ExampleOptions out = flags.options;
  out.config_text = config_text_of(flags.config);
  out.dtype = dtype_from_string(flags.dtype).value_or(DType::bf16);
  const auto shard_bytes = parse_bytes(flags.shard_bytes);
  if (!shard_bytes || *shard_bytes == 0) {
    throw Error(ErrorCode::usage, fmt::format("--shard-bytes needs a size such as 4GiB, not {}",
                                              quote(flags.shard_bytes)));
  }
  out.shard_bytes = *shard_bytes;
  MappingOptions chosen = mapping_options(flags.parts);
  out.options = std::move(chosen.options);
  out.own = std::move(chosen.files);
  return out;
}

Json example_json(const ExampleOptions& options, const ExampleResult& result) {
  Json out;
  out["family"] = options.family;
  out["out"] = options.out;
  out["seed"] = options.seed;
  out["sparse"] = options.sparse;
  out["dtype"] = to_string(options.dtype);
  out["tensors"] = result.tensors;
  out["files"] = result.files;
  out["data_bytes"] = result.data_bytes;
  out["file_bytes"] = result.file_bytes;
  return out;
}

void print_example(const ExampleOptions& options, const ExampleResult& result) {
  print_line(fmt::format("{}: {} in {}, {} ({} bytes){}", printable(options.out),
                         counted(result.tensors, "tensor"), counted(result.files, "file"),
                         human_bytes(result.data_bytes), result.data_bytes,
                         options.sparse ? ", sparse: all zeros, no disk used" : ""));
}

int run_example(const ExampleFlags& flags, const Session& session) {
  const ExampleOptions options = example_options(flags);
  const auto progress = make_progress(session);
  const ExampleResult result = write_example(options, *progress);
  progress->finish();
  if (session.json) {
    print_json("mappings example", example_json(options, result));
  } else if (!session.quiet) {
    print_example(options, result);
  }
  return 0;
}

OptionTable example_table(ExampleFlags& flags) {
  return {{.name = "--seed",
           .to = &flags.options.seed,
           .value = "N",
           .group = Group::example,
           .help = "seed for the random weights"},
          {.name = "--sparse",
           .to = &flags.options.sparse,
           .group = Group::example,
           .help = "write sparse files of full size that take no disk space",
           .standard = "random data"},
          {.name = "--dtype",
           .to = &flags.dtype,
           .value = "bf16|f16|f32",
           .choices = {"bf16", "f16", "f32"},
           .group = Group::example,
           .help = "dtype of all tensors"},
          {.name = "--shard-bytes",
           .to = &flags.shard_bytes,
           .value = "SIZE",
           .group = Group::example,
           .help = "largest file, unless one tensor is larger"}};
}

Command example_command(Session& session) {
  const auto flags = std::make_shared<ExampleFlags>();
  Command out{.name = "example", .summary = "write a checkpoint with random weights, of any size"};
  out.positionals = {{.name = "FAMILY",
                      .to = &flags->options.family,
                      .offer = Offer::family,
                      .help = "a name from `mappings list`"},
                     {.name = "OUT",
                      .to = &flags->options.out,
                      .offer = Offer::directory,
                      .help = "directory to create; it may exist if it is empty"}};
  const OptionTable config = {
      config_option(flags->config, "config.json to use and copy", "the family's tiny example")};
  out.options = joined({config, part_table(flags->parts), example_table(*flags),
                        progress_table(session), common_table(session)});
  out.examples = {{"a tiny checkpoint", "hfshard mappings example qwen3 tiny"},
                  {"a checkpoint of full size that takes no disk space",
                   "hfshard mappings example qwen3 big --config Qwen3-8B/config.json --sparse"}};
  out.run = [flags, &session] { return run_example(*flags, session); };
  return out;
}

}  // namespace

Command mappings_command(Session& session) {
  Command out{.name = "mappings",
              .summary = "list model families, show or check their rules, write an example"};
  out.options = {help_option()};
  out.commands = {list_command(session), show_command(session), mappings_check_command(session),
                  example_command(session)};
  return out;
}

}  // namespace hfshard
