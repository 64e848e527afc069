#include <algorithm>
#include <memory>
#include <optional>
#include <set>
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
#include "tool/problem_groups.h"
#include "tool/progress.h"
#include "tool/text_table.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

Json texts_json(const std::vector<std::string>& texts) {
  Json::Array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

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

int run_list(const Session& session) {
  const std::vector<FamilySummary> families = list_mappings(own_mappings({}));
  if (session.json) {
    print_json("mappings list", families_json(families));
  } else {
    print_families(families);
  }
  return 0;
}

Command list_command(Session& session) {
  Command out{.name = "list", .summary = "list the model families that are known"};
  out.options = common_table(session);
  out.examples = {{"as a table", "hfshard mappings list"},
                  {"for programs", "hfshard mappings list --json"}};
  out.run = [&session] { return run_list(session); };
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
  Command out{.name = "show", .summary = "show the rules of a family with their shapes"};
  out.positionals = {{.name = "FAMILY",
                      .to = &flags->family,
                      .required = false,
                      .offer = Offer::family,
                      .help = "a name from `mappings list`",
                      .standard = "that of --mapping"}};
  out.options =
      joined({{config_option(flags->config, "config.json for the shapes", "the family's example"),
               family_scheme_option(flags->parts.scheme), dialect_option(flags->parts.dialect),
               layers_option(flags->layers)},
              part_table(flags->parts),
              common_table(session)});
  out.examples = {
      {"with the shapes of a model", "hfshard mappings show qwen3 --config Qwen3-8B/config.json"},
      {"of separate layers", "hfshard mappings show qwen3 --layers separate"},
      {"as torchtitan names them", "hfshard mappings show qwen3 --scheme torchtitan"}};
  out.run = [flags, &session] { return run_show(*flags, session); };
  return out;
}

// -- check

struct CheckFlags {
  std::string revision;
  std::string source;
  bool all = false;
  MappingFlags mapping;
};

Json report_json(const CheckReport& report) {
  Json out;
  out["family"] = report.family;
  out["scheme"] = report.scheme;
  if (!report.dialect.empty()) out["dialect"] = report.dialect;
  out["layers"] = report.layers;
  if (!report.config.empty()) out["config"] = report.config;
  if (!report.config.empty()) out["with"] = texts_json(report.with);
  out["shapes_seen"] = report.shapes_seen;
  out["tensors"] = report.tensors;
  out["leaves"] = report.leaves;
  out["rules"] = texts_json(report.rules);
  Json::Array dropped;
  for (const CheckReport::Dropped& drop : report.dropped) {
    Json item;
    item["tensor"] = drop.tensor;
    item["why"] = drop.why;
    item["rule"] = drop.rule;
    dropped.push_back(std::move(item));
  }
  out["dropped"] = std::move(dropped);
  out["notes"] = texts_json(report.notes);
  Json::Array problems;
  for (const CheckReport::Problem& problem : report.problems) {
    Json item;
    item["tensor"] = problem.tensor;
    item["region"] = problem.what;
    item["rule"] = problem.rule;
    if (!problem.hint.empty()) item["hint"] = problem.hint;
    problems.push_back(std::move(item));
  }
  out["problems"] = std::move(problems);
  return out;
}

void print_problems(const CheckReport& report) {
  for (const ProblemGroup& group : group_problems(report.problems)) {
    const CheckReport::Problem& problem = group.first;
    const bool many = group.count > 1;
    print_line("problem  " + printable(problem.what));
    if (many) print_line(fmt::format("  {} times  {}", group.count, quote(group.tensors)));
    if (!problem.tensor.empty())
      print_line((many ? "  first   " : "  tensor  ") + quote(problem.tensor));
    if (!problem.rule.empty()) print_line("  rule    " + printable(problem.rule));
    if (!problem.hint.empty()) print_line("  hint    " + printable(problem.hint));
  }
}

// One line per reason: a tower that is left out has hundreds of tensors.
void print_dropped(const CheckReport& report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const CheckReport::Dropped& drop : report.dropped) {
    auto found = std::ranges::find(reasons, drop.why, &decltype(reasons)::value_type::first);
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {drop.why, {}});
    found->second.push_back(drop.tensor);
  }
  for (const auto& [why, tensors] : reasons) {
    print_line(tensors.size() == 1
                   ? fmt::format("dropped  {}: {}", quote(tensors[0]), printable(why))
                   : fmt::format("dropped  {} regions, first {}: {}", tensors.size(),
                                 quote(tensors[0]), printable(why)));
  }
}

std::string headline(const CheckReport& report) {
  std::string out = fmt::format("family {}, scheme {}", report.family, report.scheme);
  if (report.scheme != "hf") out += ", layers " + report.layers;
  if (!report.dialect.empty()) out += ", dialect " + report.dialect;
  return out;
}

void print_check(const CheckReport& report) {
  print_line(headline(report));
  print_problems(report);
  if (!report.problems.empty()) return;
  print_line(fmt::format("rules    {}", report.rules.size()));
  print_line(fmt::format("tensors  {}", report.tensors));
  print_line(fmt::format("leaves   {}", report.leaves));
  print_dropped(report);
  for (const std::string& note : report.notes) print_line("note     " + printable(note));
  print_line(report.shapes_seen
                 ? "accounted: every element of the leaves has one origin, and every element of "
                   "the tensors one use"
                 : "names only: every tensor of the index has a rule or a named drop, and every "
                   "rule its tensors; shapes were not seen, as no listed file is here");
}

int run_check_source(const CheckFlags& flags, const Session& session) {
  const CheckReport report = check_mapping(source_name(session, flags.source, flags.revision),
                                           mapping_options(flags.mapping));
  if (session.json) {
    print_json("mappings check", report_json(report));
  } else {
    for (const std::string& note : report.source_notes) print_note(session, note);
    print_check(report);
  }
  return report.problems.empty() ? 0 : exit_status(ErrorCode::bad_input);
}

struct CheckTotals {
  std::uint64_t sizes = 0;  // models that are no examples
  std::uint64_t problems = 0;
};

CheckTotals totals_of(const std::vector<CheckReport>& reports) {
  CheckTotals out;
  std::set<std::pair<std::string, std::string>> sizes;
  for (const CheckReport& report : reports) {
    out.problems += report.problems.size();
    if (report.config != "example") sizes.emplace(report.family, report.config);
  }
  out.sizes = sizes.size();
  return out;
}

Json checks_json(const std::vector<CheckReport>& reports, const CheckTotals& totals) {
  Json::Array items;
  for (const CheckReport& report : reports) items.push_back(report_json(report));
  Json out;
  out["checks"] = std::move(items);
  out["size_count"] = totals.sizes;
  out["problem_count"] = totals.problems;
  return out;
}

void print_checks(const std::vector<CheckReport>& reports, const CheckTotals& totals) {
  for (const CheckReport& report : reports) {
    print_line(fmt::format("{:<5} {} {} {}, {}{}: {} rules, {} tensors, {} leaves, {} dropped",
                           report.problems.empty() ? "ok" : "WRONG", report.family, report.config,
                           report.scheme, report.dialect.empty() ? report.layers : report.dialect,
                           report.with.empty() ? "" : " with " + join(report.with, ","),
                           report.rules.size(), report.tensors, report.leaves,
                           report.dropped.size()));
    print_problems(report);
  }
  print_line(fmt::format("{} checks, {} model sizes, {} problems", reports.size(), totals.sizes,
                         totals.problems));
}

// All families, or those of --mapping alone.
int run_check_families(const CheckFlags& flags, const Session& session) {
  const std::vector<CheckReport> reports =
      check_mappings(mapping_options(flags.mapping).files, flags.all);
  const CheckTotals totals = totals_of(reports);
  if (session.json) {
    print_json("mappings check", checks_json(reports, totals));
  } else {
    print_checks(reports, totals);
  }
  return totals.problems == 0 ? 0 : exit_status(ErrorCode::bad_input);
}

int run_check(const CheckFlags& flags, const Session& session) {
  const bool families = flags.all || (flags.source.empty() && !flags.mapping.files.empty());
  if (families == !flags.source.empty()) {
    throw Error(ErrorCode::usage,
                "mappings check wants a SOURCE, or --all, or --mapping FILE for its family");
  }
  return families ? run_check_families(flags, session) : run_check_source(flags, session);
}

Command check_command(Session& session) {
  const auto flags = std::make_shared<CheckFlags>();
  Command out{
      .name = "check",
      .summary =
          "prove that a family's rules account for every element of a source; writes nothing"};
  out.positionals = {{.name = "SOURCE",
                      .to = &flags->source,
                      .required = false,
                      .offer = Offer::file_or_directory,
                      .help = kSourceHelp}};
  out.options = joined(
      {{revision_option(flags->revision),
        {.name = "--all",
         .to = &flags->all,
         .group = Group::run,
         .help = "check every family at its example config and at every size that it lists, in "
                 "each layout, with and without the parts that --with names"}},
       mapping_table(flags->mapping),
       common_table(session)});
  out.examples = {{"of a checkpoint", "hfshard mappings check Qwen3-8B"},
                  {"of a family of your own", "hfshard mappings check --mapping my_family.json"}};
  out.run = [flags, &session] { return run_check(*flags, session); };
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

// What was asked for. Throws: usage, io.
ExampleOptions example_options(const ExampleFlags& flags) {
  ExampleOptions out = flags.options;
  out.config_text = config_text_of(flags.config);
  out.dtype = dtype_from_string(flags.dtype).value_or(DType::bf16);
  const auto shard_bytes = parse_bytes(flags.shard_bytes);
  if (!shard_bytes || *shard_bytes == 0) {
    throw Error(ErrorCode::usage, fmt::format("--shard-bytes wants a size such as 4GiB, not {}",
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
  print_line(fmt::format("{}: {} tensors in {} file{}, {} ({} bytes){}", printable(options.out),
                         result.tensors, result.files, result.files == 1 ? "" : "s",
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
  } else {
    print_example(options, result);
  }
  return 0;
}

OptionTable example_table(ExampleFlags& flags) {
  return {{.name = "--seed",
           .to = &flags.options.seed,
           .value = "N",
           .group = Group::example,
           .help = "seed of the random weights"},
          {.name = "--sparse",
           .to = &flags.options.sparse,
           .group = Group::example,
           .help = "full sizes but no data, so that it takes no disk",
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
           .help = "most tensor bytes in one file"}};
}

Command example_command(Session& session) {
  const auto flags = std::make_shared<ExampleFlags>();
  Command out{.name = "example",
              .summary = "write a checkpoint of a family with random weights, of any size"};
  out.positionals = {{.name = "FAMILY",
                      .to = &flags->options.family,
                      .offer = Offer::family,
                      .help = "a name from `mappings list`"},
                     {.name = "OUT",
                      .to = &flags->options.out,
                      .offer = Offer::directory,
                      .help = "directory to make; an existing one must be empty"}};
  const OptionTable config = {
      config_option(flags->config, "config.json, copied as it is", "the family's tiny example")};
  out.options = joined({config, part_table(flags->parts), example_table(*flags),
                        progress_table(session), common_table(session)});
  out.examples = {{"a tiny one", "hfshard mappings example qwen3 tiny"},
                  {"one of a model's size that takes no disk",
                   "hfshard mappings example qwen3 big --config Qwen3-8B/config.json --sparse"}};
  out.run = [flags, &session] { return run_example(*flags, session); };
  return out;
}

}  // namespace

Command mappings_command(Session& session) {
  Command out{.name = "mappings",
              .summary = "the model families: list them, show or check rules, write an example"};
  out.options = {help_option()};
  out.commands = {list_command(session), show_command(session), check_command(session),
                  example_command(session)};
  return out;
}

}  // namespace hfshard
