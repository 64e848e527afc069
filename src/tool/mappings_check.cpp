#include "tool/mappings_check.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "tool/hub_flags.h"
#include "tool/mapping_flags.h"
#include "tool/plan_flags.h"
#include "tool/problem_groups.h"
#include "tool/steps.h"
#include "tool/text_table.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

struct CheckFlags {
  std::string revision;
  bool ignore_index = false;
  TreeFlags tree;
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
  add_steps(report.step, report.other_steps, out);
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

// Prints a line for each reason, because a tower that is left out has hundreds of tensors.
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
                 ? "complete: every element of the leaves has one origin, and every element of "
                   "the tensors is used once"
                 : "names only: every tensor in the index has a rule or a named drop, and every "
                   "rule has its tensors; without the files, shapes were not checked");
}

int run_check_source(const CheckFlags& flags, const Session& session) {
  SourceName source = source_name(session, flags.source, flags.revision);
  source.ignore_index = flags.ignore_index;
  source.step = flags.tree.step;
  const CheckReport report =
      check_mapping(source, mapping_options(flags.mapping), tree_options(flags.tree));
  if (session.json) {
    print_json("mappings check", report_json(report));
  } else {
    if (report.step)
      print_note(session, "note: reading step " + steps_text(*report.step, report.other_steps));
    for (const std::string& note : report.source_notes) print_note(session, "note: " + note);
    print_check(report);
  }
  return report.problems.empty() ? 0 : exit_status(ErrorCode::bad_input);
}

struct CheckTotals {
  std::uint64_t sizes = 0;  // models other than examples
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
    const std::string& form = report.dialect.empty() ? report.layers : report.dialect;
    print_line(fmt::format("{:<5} {} {} {}{}{}: {}, {}, {}, {} dropped",
                           report.problems.empty() ? "ok" : "WRONG", report.family, report.config,
                           report.scheme, form.empty() ? "" : ", " + form,
                           report.with.empty() ? "" : " with " + join(report.with, ","),
                           counted(report.rules.size(), "rule"), counted(report.tensors, "tensor"),
                           counted(report.leaves, "leaf", "leaves"), report.dropped.size()));
    print_problems(report);
  }
  print_line(fmt::format("{}, {}, {}", counted(reports.size(), "check"),
                         counted(totals.sizes, "model size"), counted(totals.problems, "problem")));
}

// Returns all families, or only those of --mapping.
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
    throw Error(ErrorCode::usage, families
                                      ? "mappings check takes a SOURCE or --all, not both"
                                      : "mappings check needs a SOURCE, --all, or --mapping FILE");
  }
  return families ? run_check_families(flags, session) : run_check_source(flags, session);
}

}  // namespace

Command mappings_check_command(Session& session) {
  const auto flags = std::make_shared<CheckFlags>();
  Command out{
      .name = "check",
      .summary = "prove that a family's rules map every element of a source; writes nothing"};
  out.positionals = {{.name = "SOURCE",
                      .to = &flags->source,
                      .required = false,
                      .offer = Offer::file_or_directory,
                      .help = kSourceHelp}};
  out.options = joined(
      {{revision_option(flags->revision),
        ignore_index_option(flags->ignore_index),
        step_option(flags->tree.step),
        {.name = "--all",
         .to = &flags->all,
         .group = Group::run,
         .help = "check every family with its example config and with each of its sizes, in both "
                 "layouts, with and without the optional parts"}},
       mapping_table(flags->mapping),
       back_table(flags->tree),
       common_table(session)});
  out.examples = {{"for a checkpoint", "hfshard mappings check Qwen3-8B"},
                  {"for the export of a training step", "hfshard mappings check run --step 1000"},
                  {"for your own family", "hfshard mappings check --mapping my_family.json"}};
  out.run = [flags, &session] { return run_check(*flags, session); };
  return out;
}

}  // namespace hfshard
