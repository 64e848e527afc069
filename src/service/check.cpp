#include "service/check.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "plan/compile/compile_model.h"
#include "service/dialect.h"
#include "service/example.h"
#include "service/recorded.h"
#include "service/source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

CheckReport::Problem problem_of(const Error& error) {
  return {error.tensor(), error.sentence(), error.rule(), error.hint_text()};
}

// Returns whether an error is about the mapping and the tensors, not about the command line.
bool is_finding(const Error& error) {
  const bool about_input = error.code() == ErrorCode::bad_input ||
                           error.code() == ErrorCode::not_found ||
                           error.code() == ErrorCode::unsupported;
  return about_input && (!error.tensor().empty() || !error.rule().empty());
}

std::string family_name(const std::string& config_text, const MappingOptions& options) {
  if (!has_rules(options)) return "hf";
  if (config_text.empty()) return {};
  const auto family = find_family(parse_json(config_text, "config.json"), options.files);
  return family ? std::string(family->name) : std::string();
}

void add_model(const Catalog& catalog, CompiledModel model, CheckReport& out) {
  for (CheckFinding& finding : prove(catalog, model)) {
    out.problems.push_back(
        {std::move(finding.tensor), std::move(finding.what), std::move(finding.rule), {}});
  }
  for (Drop& drop : model.drops) {
    out.dropped.push_back(
        {catalog.tensors[drop.source].name, std::move(drop.why),
         drop.rule < model.rules.size() ? model.rules[drop.rule] : std::string()});
  }
  out.leaves = model.leaves.size();
  out.rules = std::move(model.rules);
  out.notes = std::move(model.notes);
}

CheckReport empty_report(const Catalog& catalog, const MappingOptions& options) {
  CheckReport out;
  out.family = family_name(catalog.config_text, options);
  out.scheme = options.scheme;
  out.dialect = asked_dialect(options);
  out.layers = options.stacked && scheme_stacks(options.scheme) ? "stacked" : "separate";
  out.tensors = catalog.tensors.size();
  return out;
}

bool has_names_of_files(const Catalog& catalog, const StorePath& place,
                        const MappingOptions& options) {
  return recorded_dialect(place).empty() && names_of(catalog, options).dialect.empty();
}

// Adds the names' other problems after the first one.
void add_other_names(const Catalog& catalog, const MappingOptions& options, CheckReport& out) {
  NameList list{catalog.location, catalog.config_text, {}};
  for (const TensorInfo& tensor : catalog.tensors) list.names.push_back(tensor.name);
  try {
    for (CheckFinding& finding : check_names(list, options).findings) {
      CheckReport::Problem& first = out.problems.front();
      if (finding.tensor == first.tensor) {  // the same problem, without the other names
        if (finding.rule == first.rule) first.what = std::move(finding.what);
        continue;
      }
      out.problems.push_back(
          {std::move(finding.tensor), std::move(finding.what), std::move(finding.rule), {}});
    }
  } catch (const Error& error) {  // the same problem stops this too
    if (!is_finding(error)) throw;
  }
}

}  // namespace

CheckReport check_mapping(const Catalog& catalog, const StorePath& place,
                          const MappingOptions& options) {
  CheckReport out = empty_report(catalog, options);
  try {
    add_model(catalog, compile_source(catalog, place, options, false), out);
  } catch (const Error& error) {  // the first problem ends a compilation; here it is a result
    if (!is_finding(error)) throw;
    out.problems.push_back(problem_of(error));
    const bool chosen = !options.include.empty() || !options.exclude.empty();
    if (has_rules(options) && !chosen && has_names_of_files(catalog, place, options))
      add_other_names(catalog, options, out);
  }
  return out;
}

CheckReport check_tree(const StorePath& place, const PlanOptions& options) {
  CheckReport out;
  out.scheme = options.mapping.scheme;
  out.layers = options.mapping.stacked && scheme_stacks(out.scheme) ? "stacked" : "separate";
  try {
    OpenedSource opened = open_source_model(place, options);
    const Catalog& tree = opened.checkpoint->catalog();
    out.source_notes = tree.notes;
    out.tensors = tree.tensors.size();
    out.family = opened.model.family;
    add_model(tree, std::move(opened.model), out);
  } catch (const Error& error) {  // the first problem ends a compilation; here it is a result
    if (!is_finding(error)) throw;
    out.problems.push_back(problem_of(error));
  }
  return out;
}

CheckReport check_mapping(const NameList& list, const MappingOptions& options) {
  CheckReport out;
  out.scheme = options.scheme;
  out.dialect = asked_dialect(options);
  out.layers = options.stacked && scheme_stacks(options.scheme) ? "stacked" : "separate";
  out.tensors = list.names.size();
  out.shapes_seen = false;
  out.family = family_name(list.config_text, options);
  try {
    NameCheck check = check_names(list, options);
    out.leaves = check.leaves;
    out.rules = std::move(check.rules);
    out.notes = std::move(check.notes);
    for (CheckFinding& drop : check.dropped)
      out.dropped.push_back({std::move(drop.tensor), std::move(drop.what), std::move(drop.rule)});
    for (CheckFinding& finding : check.findings)
      out.problems.push_back(
          {std::move(finding.tensor), std::move(finding.what), std::move(finding.rule), {}});
  } catch (const Error& error) {
    if (!is_finding(error)) throw;
    out.problems.push_back(problem_of(error));
  }
  return out;
}

namespace {

using Options = std::map<std::string, std::string>;

// Checks one family with one config.
class FamilyCheck {
 public:
  FamilyCheck(const FamilyFile& file, const MappingTable& table, const FamilyInfo& info,
              const std::vector<MappingFile>& own, MappingOptions names, std::string name,
              const Json& config)
      : file_(file),
        table_(table),
        info_(info),
        own_(own),
        names_(std::move(names)),
        tensors_of_(asked_dialect(names_).empty() ? names_.scheme : table.main_scheme().name),
        name_(std::move(name)),
        config_(config) {
    for (const std::string_view part : kParts) {
      if (std::ranges::find(info.options, part) != info.options.end())
        parts_.emplace(std::string(part), "true");
    }
  }

  void run(std::vector<CheckReport>& out) {
    bool all_parts = !parts_.empty();
    Catalog catalog;
    try {
      if (all_parts) catalog = example_catalog(file_, config_, DType::bf16, parts_, tensors_of_);
    } catch (const Error& error) {  // this size doesn't have such a part
      if (error.code() != ErrorCode::unsupported) throw;
      all_parts = false;
    }
    if (!all_parts) catalog = example_catalog(file_, config_, DType::bf16, {}, tensors_of_);
    check(catalog, {}, out);
    if (all_parts && takes_options()) check(catalog, parts_, out);
  }

 private:
  // A dialect always takes the whole model.
  bool takes_options() const { return asked_dialect(names_).empty(); }
  bool has_layout(const Options& parts, bool stacked) const {
    if (!takes_options()) return !stacked;
    return family_has_layout(file_, config_, parts, stacked, names_.scheme);
  }

  void check(const Catalog& catalog, const Options& parts, std::vector<CheckReport>& out) {
    for (const bool stacked : {true, false}) {
      if (!has_layout(parts, stacked)) continue;
      MappingOptions options = names_;
      options.stacked = stacked;
      options.options = parts;
      options.files = own_;
      CheckReport report = empty_report(catalog, options);
      report.config = name_;
      for (const auto& [part, value] : parts) report.with.push_back(part);
      try {
        add_model(catalog, compile_model(catalog, options, table_), report);
      } catch (const Error& error) {  // the other checks still run
        if (error.code() == ErrorCode::internal) throw;
        if (error.code() == ErrorCode::unsupported && !takes_options()) continue;
        report.problems.push_back(problem_of(error));
      }
      if (report.family != info_.name)
        report.problems.push_back(
            {{}, "the config's model_type doesn't belong to the family", {}, {}});
      out.push_back(std::move(report));
    }
  }

  const FamilyFile& file_;
  const MappingTable& table_;
  const FamilyInfo& info_;
  const std::vector<MappingFile>& own_;
  MappingOptions names_;    // scheme and dialect
  std::string tensors_of_;  // the scheme whose sources are in the checkpoint
  std::string name_;
  const Json& config_;
  Options parts_;
};

}  // namespace

std::vector<CheckReport> check_family(const FamilyFile& file, const FamilyInfo& info,
                                      const std::vector<MappingFile>& own) {
  std::vector<CheckReport> out;
  const MappingTable table = load_table(file);
  const std::string& main = table.main_scheme().name;
  std::vector<MappingOptions> all_names;
  for (const std::string& scheme : info.schemes) all_names.emplace_back().scheme = scheme;
  for (const Scheme& dialect : table.dialects) {
    MappingOptions& names = all_names.emplace_back();
    names.scheme = dialect.rest;
    names.dialect = dialect.name;
  }
  const auto check_in = [&](const MappingOptions& names, const std::string& name,
                            const Json& config) {
    try {
      FamilyCheck(file, table, info, own, names, name, config).run(out);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      // One of the loaders doesn't have this model.
      if (error.code() == ErrorCode::unsupported && names.scheme != main) return;
      CheckReport report;
      report.family = info.name;
      report.scheme = names.scheme;
      report.dialect = asked_dialect(names);
      report.config = name;
      report.problems.push_back(problem_of(error));
      out.push_back(std::move(report));
    }
  };
  const auto check = [&](const std::string& name, const Json& config) {
    for (const MappingOptions& names : all_names) {
      // A dialect has the sizes of the scheme whose tensors it takes.
      if (asked_dialect(names).empty() || name == "example") check_in(names, name, config);
    }
  };
  check("example", info.example);
  for (std::string& weakness : lint_table(table))
    out.front().problems.push_back({{}, std::move(weakness), std::string(file.path), {}});
  for (const auto& [name, config] : info.sizes) check(name, config);
  return out;
}

}  // namespace hfshard
