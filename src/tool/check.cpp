#include "tool/check.h"

#include <utility>

#include "mapping/find.h"
#include "plan/compile.h"
#include "tool/example.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

CheckReport::Problem problem_of(const Error& error) {
  return {error.tensor(), error.sentence(), error.rule(), error.hint_text()};
}

// Whether it is about the mapping and the tensors, not about how the command was called.
bool is_finding(const Error& error) {
  const bool about_input = error.code() == ErrorCode::bad_input ||
                           error.code() == ErrorCode::not_found ||
                           error.code() == ErrorCode::unsupported;
  return about_input && (!error.tensor().empty() || !error.rule().empty());
}

std::string family_of(const Catalog& catalog, const MappingOptions& options) {
  if (options.scheme == "hf") return "hf";
  if (catalog.config_text.empty()) return {};
  const FamilyFile* family = find_family(parse_json(catalog.config_text, "config.json"));
  return family == nullptr ? std::string() : std::string(family->name);
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
  out.family = family_of(catalog, options);
  out.scheme = options.scheme;
  out.layers = options.stacked ? "stacked" : "separate";
  out.tensors = catalog.tensors.size();
  return out;
}

}  // namespace

CheckReport check_mapping(const Catalog& catalog, const MappingOptions& options) {
  CheckReport out = empty_report(catalog, options);
  try {
    add_model(catalog, compile_model(catalog, options), out);
  } catch (const Error& error) {  // the first problem ends a compilation; here it is the result
    if (!is_finding(error)) throw;
    out.problems.push_back(problem_of(error));
  }
  return out;
}

CheckReport check_example(const FamilyInfo& info, bool stacked) {
  MappingOptions options;
  options.stacked = stacked;
  CheckReport out;
  out.family = info.name;
  out.scheme = options.scheme;
  out.layers = stacked ? "stacked" : "separate";
  try {
    const Catalog catalog = example_catalog(info.name, info.example, DType::bf16);
    out = empty_report(catalog, options);
    add_model(catalog, compile_model(catalog, options), out);
    const FamilyFile& file = family_by_name(info.name);
    for (std::string& weakness : lint_family(file)) {
      out.problems.push_back({{}, std::move(weakness), std::string(file.path), {}});
    }
    if (out.family != info.name) {
      out.problems.push_back({{}, "the example's model_type is not the family's own", {}, {}});
    }
  } catch (const Error& error) {  // the other families are checked all the same
    if (error.code() == ErrorCode::internal) throw;
    out.problems.push_back(problem_of(error));
  }
  return out;
}

}  // namespace hfshard
