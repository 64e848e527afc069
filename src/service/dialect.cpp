#include "service/dialect.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/table.h"
#include "plan/compile/steps.h"
#include "service/described.h"

namespace hfshard {
namespace {

// Names that tell a checkpoint in a dialect from the files, if it has any.
struct Signs {
  std::string of_dialect;  // a tensor that only the dialect has
  std::string of_files;    // a tensor that only the files have
};

// Finds the first tensor with a prefix. Tensors are sorted by name.
const TensorInfo* first_below(const Catalog& catalog, std::string_view prefix) {
  const auto found =
      std::ranges::lower_bound(catalog.tensors, prefix, {},
                               [](const TensorInfo& info) { return std::string_view(info.name); });
  if (found == catalog.tensors.end() || !found->name.starts_with(prefix)) return nullptr;
  return &*found;
}

void set_first(std::string& sign, const std::string& name) {
  if (sign.empty()) sign = name;
}

void look_at_rules(const ResolvedModel& rules, const Catalog& catalog, Signs& out) {
  for (const ResolvedRule& rule : rules.rules) {
    if (rule.rule->modifiers.copy) continue;  // files may have it too
    const std::string target = renamed(rules.renames, rule.target);
    if (std::ranges::find(rule.sources, target) != rule.sources.end()) continue;
    const auto stored = std::ranges::find_if(
        rule.sources, [&](const std::string& name) { return catalog.find(name).has_value(); });
    if (catalog.find(target)) set_first(out.of_dialect, target);
    if (stored != rule.sources.end()) set_first(out.of_files, *stored);
  }
}

void look_at_renames(const std::vector<ResolvedRenaming>& renames, const Catalog& catalog,
                     Signs& out) {
  for (const ResolvedRenaming& item : renames) {
    const TensorInfo* after = first_below(catalog, item.to);
    if (after != nullptr && renamed_back(renames, after->name) != after->name)
      set_first(out.of_dialect, after->name);
    const TensorInfo* before = first_below(catalog, item.from);
    if (before != nullptr && renamed(renames, before->name) != before->name)
      set_first(out.of_files, before->name);
  }
}

Signs signs_of(const MappingTable& table, const Scheme& dialect, const Json& config,
               const Catalog& catalog) {
  Signs out;
  try {
    const Bindings::Options none;
    Bindings bindings(table, config, none, {});
    const ResolvedModel rules = resolve(dialect, bindings, false);
    look_at_rules(rules, catalog, out);
    look_at_renames(rules.renames, catalog, out);
  } catch (const Error& error) {  // the dialect doesn't have this model
    if (error.code() == ErrorCode::internal) throw;
  }
  return out;
}

// Returns whether some scheme accepts all tensors under these names.
bool are_names_of_files(const MappingTable& table, const Catalog& catalog,
                        const MappingOptions& asked) {
  MappingOptions options;
  options.files = asked.files;
  options.flat_names = true;
  for (const Scheme& scheme : table.schemes) {
    options.scheme = scheme.name;
    for (const bool stacked : {false, true}) {
      options.stacked = stacked;
      try {
        compile_unproved(catalog, options);
        return true;
      } catch (const Error& error) {  // other names, or no loader has the model
        if (error.code() == ErrorCode::internal) throw;
      }
    }
  }
  return false;
}

Error half_named(const Catalog& catalog, const Signs& signs, const std::string& dialect) {
  const std::string others =
      signs.of_files.empty() ? "the other names are not" : quote(signs.of_files) + " is not";
  Error out(ErrorCode::bad_input,
            fmt::format("the name belongs to --dialect {}, and {}", dialect, others));
  out.in_file(catalog.location).in_tensor(signs.of_dialect);
  out.hint(
      fmt::format("check that one program wrote all files; to convert the arrays that are there, "
                  "pass --scheme hf --dialect {}",
                  dialect));
  return out;
}

}  // namespace

NamedOtherwise names_of(const Catalog& catalog, const MappingOptions& mapping) {
  NamedOtherwise out;
  if (catalog.config_text.empty()) return out;
  const std::string config_name = config_path(catalog.location);
  const Json config = parse_json(catalog.config_text, config_name);
  const std::optional<FamilyFile> family = find_family(config, mapping.files);
  if (!family) return out;
  const MappingTable table = load_table(*family);
  for (const Scheme& dialect : table.dialects) {
    const Signs signs = signs_of(table, dialect, config, catalog);
    if (signs.of_dialect.empty() || are_names_of_files(table, catalog, mapping)) continue;
    out.dialect = dialect.name;
    out.half = half_named(catalog, signs, dialect.name);
    try {
      out.back = compile_from_dialect(catalog, catalog.config_text, config_name, mapping);
      if (out.back) out.half.reset();
    } catch (const Error& error) {  // the dialect's names don't fit its rules
      if (error.code() == ErrorCode::internal) throw;
      out.half = error;
    }
    return out;
  }
  return out;
}

}  // namespace hfshard
