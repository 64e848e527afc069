#include "mapping/resolve/family_info.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Makes the rows of `mappings show`, in the order of the rules.
class FamilyPrinter {
 public:
  FamilyPrinter(const MappingTable& table, const Scheme& scheme, const Json& config, bool stacked,
                const Bindings::Options& options)
      : scheme_(scheme), bindings_(table, config, options, {}), stacked_(stacked) {}

  std::vector<ShownRule> rows() {
    const ResolvedModel model = resolve(scheme_, bindings_, stacked_);
    renames_ = model.renames;
    for (const ResolvedRule& resolved : model.rules) add_rule(resolved);
    for (const ResolvedFill& resolved : model.fills) add_fill(resolved);
    for (const ResolvedDrop& resolved : model.drops) add_drop(resolved);
    for (const ResolvedRenaming& item : renames_) {
      ShownRule& out = rows_.emplace_back();
      out.source = item.from + "*";
      out.target = item.to + "*";
      out.rule = scheme_.pointer + "/rename";
    }
    if (!scheme_.rest.empty()) {
      ShownRule& out = rows_.emplace_back();
      out.source = "(every other tensor)";
      out.target = "(as it is)";
      out.rule = scheme_.pointer + "/rest";
    }
    return std::move(rows_);
  }

 private:
  struct Prefixes {
    std::string source;
    std::string target;
  };

  Prefixes prefixes(const void* rule, const RuleModifiers& modifiers) const {
    const std::string head = modifiers.collection
                                 ? scheme_.head(modifiers.collection->shown(bindings_))
                                 : scheme_.head();
    for (const LayerGroup& group : scheme_.groups) {
      const bool mine =
          std::ranges::any_of(group.rules, [&](const Rule& r) { return &r == rule; }) ||
          std::ranges::any_of(group.fills, [&](const FillRule& f) { return &f == rule; });
      if (!mine) continue;
      return {group.hf.shown(bindings_),
              head + (stacked_ ? group.stacked : group.separate)->shown(bindings_)};
    }
    return {"", head};
  }

  // Returns the row of this rule. Makes it on the rule's first leaf.
  std::pair<ShownRule*, bool> row(const void* rule) {
    const auto [found, added] = index_.emplace(rule, rows_.size());
    if (added) rows_.emplace_back();
    return {&rows_[found->second], added};
  }

  static std::string shown_axes(const std::vector<std::string>& axes) {
    std::vector<std::string> out;
    out.reserve(axes.size());
    for (const std::string& axis : axes) out.push_back(axis.empty() ? "-" : axis);
    return join(out, ", ");
  }

  std::string shown_value(const ValueRule& value) const {
    std::vector<std::string> out;
    for (const auto& [sign, constant] : {std::pair{"*", &value.mul}, std::pair{"+", &value.add}}) {
      if (!*constant) continue;
      out.push_back(fmt::format("{} {:.9g} ({} in {})", sign, (*constant)->expr.real(bindings_),
                                (*constant)->expr.text(), to_string((*constant)->const_dtype)));
    }
    return join(out, " ");
  }

  void add_rule(const ResolvedRule& resolved) {
    const Rule& rule = *resolved.rule;
    const auto [out, added] = row(&rule);
    if (!added) {
      out->count += resolved.sources.size();
      return;
    }
    const Prefixes prefix = prefixes(&rule, rule.modifiers);
    out->source = prefix.source + rule.source.shown(bindings_);
    out->target = renamed(renames_, prefix.target + rule.target.text());
    out->source_shape = resolved.source_layout.shape;
    out->target_shape = resolved.target_layout.shape;
    out->source_pattern = rule.source_pattern.text;
    out->target_pattern = rule.target_pattern.text;
    out->axes = shown_axes(resolved.axes);
    out->value = shown_value(rule.modifiers.value);
    out->rule = rule.pointer;
    out->count = resolved.sources.size();
  }

  void add_fill(const ResolvedFill& resolved) {
    const FillRule& rule = *resolved.rule;
    const auto [out, added] = row(&rule);
    if (!added) {
      ++out->count;
      return;
    }
    out->source = fmt::format("(filled with {})", rule.scalar);
    out->target = prefixes(&rule, rule.modifiers).target + rule.target.text();
    out->target_shape = resolved.layout.shape;
    out->target_pattern = rule.pattern.text;
    out->axes = shown_axes(resolved.axes);
    out->rule = rule.pointer;
  }

  void add_drop(const ResolvedDrop& resolved) {
    const DropRule& rule = *resolved.rule;
    const auto [out, added] = row(&rule);
    if (!added) return;
    out->source = rule.source.shown(bindings_);
    if (!rule.pattern.whole) out->source_shape = resolved.layout.shape;
    out->source_pattern = rule.pattern.text;
    out->target = "(dropped: " + rule.why + ")";
    out->rule = rule.pointer;
    out->count = resolved.sources.size();
  }

  const Scheme& scheme_;
  Bindings bindings_;
  bool stacked_;
  std::vector<ResolvedRenaming> renames_;
  std::vector<ShownRule> rows_;
  std::map<const void*, std::size_t> index_;
};

// Returns whether a dim is read from the config (`hidden_size`, `head_dim ?? D / H`), not computed.
bool is_free(const MappingTable& table, const Expr& expr, const Bindings& bindings) {
  const std::vector<std::string> names = expr.names();
  if (names.empty() || table.dims.contains(names[0]) || names[0].starts_with("option."))
    return false;
  const bool plain = expr.text() == names[0] || expr.text().starts_with(names[0] + " ??");
  return plain && std::holds_alternative<std::int64_t>(bindings.lookup(names[0]));
}

using NamedDims = std::vector<std::pair<std::string, std::int64_t>>;

// Returns whether `value` is the product of two or more of the dims from `from` on, except `skip`.
bool is_product(const NamedDims& dims, std::size_t skip, std::size_t from, std::size_t taken,
                std::int64_t value) {
  if (value == 1) return taken >= 2;
  for (std::size_t i = from; i < dims.size(); ++i) {
    if (i == skip || dims[i].second < 2 || value % dims[i].second != 0) continue;
    if (is_product(dims, skip, i + 1, taken + 1, value / dims[i].second)) return true;
  }
  return false;
}

}  // namespace

namespace {

FamilyProof proof_of(const Json& all, const std::string& family) {
  FamilyProof out;
  const Json* at = all.find(family);
  if (at == nullptr) return out;
  out.accounted = at->at("accounted").as_uint();
  out.executed = at->at("executed").as_uint();
  out.by_maxtext = at->at("right_by_maxtext").as_uint();
  out.by_own_oracle = at->at("right_by_own_oracle").as_uint();
  out.by_torchtitan = at->at("right_by_torchtitan").as_uint();
  return out;
}

}  // namespace

FamilyInfo info_of_family(const FamilyFile& file, bool built_in) {
  const MappingTable table = load_table(file);
  FamilyInfo info;
  info.name = table.family;
  info.model_types = table.model_types;
  info.architectures = table.architectures;
  for (const Scheme& scheme : table.schemes) info.schemes.push_back(scheme.name);
  for (const Scheme& dialect : table.dialects) info.dialects.push_back(dialect.name);
  info.options = table.options;
  if (built_in) {
    static const Json kProof = parse_json(embedded_proof(), "mappings/proof.json");
    info.proof = proof_of(kProof, table.family);
  }
  const Bindings::Options none;
  Bindings bindings(table, table.example, none, {});
  info.stacked = has_layout(table.main_scheme(), bindings, true);
  info.separate = has_layout(table.main_scheme(), bindings, false);
  info.example = table.example;
  info.sizes = table.sizes;
  return info;
}

bool family_has_layout(const FamilyFile& family, const Json& config,
                       const std::map<std::string, std::string>& options, bool stacked,
                       std::string_view scheme) {
  const MappingTable table = load_table(family);
  Bindings bindings(table, config, options, {});
  return has_layout(table.scheme_or_main(scheme), bindings, stacked);
}

ShownFamily show_family(const FamilyFile& family, const Json& config, bool stacked,
                        const std::map<std::string, std::string>& options,
                        std::string_view scheme) {
  const MappingTable table = load_table(family);
  check_options(table, options);
  const Scheme* dialect = table.dialect(scheme);
  const Scheme& shown = dialect != nullptr ? *dialect : table.scheme_or_main(scheme);
  const bool stacks = stacked && shown.stacks();
  ShownFamily out{shown.name, {}, stacks, {}};
  if (dialect != nullptr) {
    out.scheme = dialect->rest;
    out.dialect = dialect->name;
  }
  out.rules = FamilyPrinter(table, shown, config, stacks, options).rows();
  return out;
}

std::vector<std::string> lint_table(const MappingTable& table) {
  const Bindings::Options options;
  const Bindings bindings(table, table.example, options, {});
  NamedDims dims;
  for (const auto& [name, expr] : table.dims) {
    if (is_free(table, expr, bindings)) dims.emplace_back(name, expr.integer(bindings));
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto& [name, value] = dims[i];
    if (value < 2) out.push_back(fmt::format("dim {} is {} in the example", quote(name), value));
    for (std::size_t j = i + 1; j < dims.size(); ++j) {
      if (dims[j].second != value) continue;
      out.push_back(fmt::format("dims {} and {} are both {} in the example", quote(name),
                                quote(dims[j].first), value));
    }
    if (value >= 2 && is_product(dims, i, 0, 0, value)) {
      out.push_back(
          fmt::format("dim {} is {} in the example, a product of others", quote(name), value));
    }
  }
  for (const std::vector<Scheme>* list : {&table.schemes, &table.dialects}) {
    for (const Scheme& scheme : *list) {
      for (const LayerGroup& group : scheme.groups) {
        if (group.sources.empty() && !group.rules.empty())
          out.push_back(group.pointer + " cites no source");
      }
    }
  }
  return out;
}

}  // namespace hfshard
