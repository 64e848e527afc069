#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/resolve/first_layers.h"
#include "mapping/tables/quantization.h"
#include "plan/compile/codes.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"

namespace hfshard {
namespace {

// Views of a list's or a catalog's names, which take ten MB for a large model.
using SortedNames = std::vector<std::string_view>;

// Marks the names that a resolved mapping uses.
class NameMatcher {
 public:
  // `takes_rest` is as Scheme::rest. `codes` is for a catalog of the tensors with these names, or
  // null.
  NameMatcher(const SortedNames& names, const Codes* codes, const MappingTable& table,
              const Bindings& bindings, bool takes_rest)
      : names_(names),
        codes_(codes),
        table_(table),
        bindings_(bindings),
        takes_rest_(takes_rest),
        used_(names.size(), false),
        left_out_(names.size(), false) {}

  // Called before match, which would give some of them another reason.
  void leave_out(const std::vector<std::string>& prefixes, const std::string& why, NameCheck& out) {
    for (const std::string& prefix : prefixes) {
      for (auto name = std::ranges::lower_bound(names_, prefix);
           name != names_.end() && name->starts_with(prefix); ++name) {
        const auto at = static_cast<std::size_t>(name - names_.begin());
        if (!left_out_[at]) out.dropped.push_back({std::string(*name), "--num-layers", why});
        used_[at] = left_out_[at] = true;
      }
    }
  }

  void match(const ResolvedModel& model, NameCheck& out) {
    std::set<std::string_view> leaves;
    for (const ResolvedRule& rule : model.rules) {
      if (takes_rest_ && !has_any(rule)) continue;
      leaves.insert(rule.target);
      for (const std::string& name : rule.sources) {
        if (!(takes_rest_ && rule.rule->modifiers.copy)) need(name, rule, out);
      }
      if (std::ranges::find(out.rules, rule.rule->pointer) == out.rules.end())
        out.rules.push_back(rule.rule->pointer);
    }
    for (const ResolvedFill& fill : model.fills) leaves.insert(fill.target);
    out.leaves = leaves.size();
    for (const ResolvedDrop& drop : model.drops) {
      for (const std::string& glob : drop.sources) leave(glob, *drop.rule, out);
    }
    leave_beside(out);
    if (takes_rest_) {
      out.leaves += static_cast<std::uint64_t>(std::ranges::count(used_, false));
      return;
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (used_[i]) continue;
      const UndecodedMethod* method = quantization().undecoded_name(names_[i]);
      out.findings.push_back(
          {std::string(names_[i]),
           {},
           method == nullptr
               ? std::string("neither a rule nor a drop matches the name")
               : fmt::format("quantized with {}, which can't be decoded", method->what)});
    }
  }

 private:
  bool has_any(const ResolvedRule& rule) const {
    return std::ranges::any_of(rule.sources, [&](const std::string& name) {
      return std::ranges::binary_search(names_, name);
    });
  }

  void need(const std::string& name, const ResolvedRule& needed, NameCheck& out) {
    const std::string& pointer = needed.rule->pointer;
    const auto has = [&](std::string_view other) { return at(other).has_value(); };
    const std::string stored = has(name) ? name : stored_as(name, has);
    if (stored.empty()) {
      out.findings.push_back({name, pointer, "the index lacks a tensor that the rule needs",
                              is_of_untied(table_, *needed.rule)});
      return;
    }
    if (codes_ != nullptr) {
      const Catalog& catalog = codes_->catalog();
      check_shape_of(catalog.tensors[*catalog.find(stored)], needed);
    }
    used_[*at(stored)] = true;
    use_scales(stored, stored != name, out);
  }

  // `codes`: the name means that the tensor has codes.
  void use_scales(const std::string& stored, bool codes, NameCheck& out) {
    // Only the headers tell which tensors are coded, so an existing scale counts as one.
    const DecodeRule* decoder = nullptr;
    bool has_scale = false;
    for (const std::vector<DecodeRule>* list : {&table_.decodes, &quantization().decodes}) {
      for (const DecodeRule& rule : *list) {
        if (!rule.takes(stored, std::nullopt, bindings_)) continue;
        use_beside(rule, stored);
        if (!rule.as.empty()) decoder = &rule;
        has_scale = has_scale || at(rule.scale_name(stored));
      }
    }
    if (!codes || decoder == nullptr || has_scale) return;
    out.findings.push_back({decoder->scale_name(stored), decoder->pointer,
                            "the index lacks the scales of " + quote(stored)});
  }

  std::optional<std::size_t> at(std::string_view name) const {
    const auto found = std::ranges::lower_bound(names_, name);
    if (found == names_.end() || *found != name) return std::nullopt;
    return static_cast<std::size_t>(found - names_.begin());
  }

  void use_beside(const DecodeRule& rule, const std::string& stored) {
    for (const std::string* pattern : {&rule.scale, &rule.zeros, &rule.factor}) {
      const auto found = pattern->empty() ? std::nullopt : at(rule.beside(*pattern, stored));
      if (!found) continue;
      used_[*found] = true;
      coded_ = true;
    }
  }

  void leave_beside(NameCheck& out) {
    for (std::size_t i = 0; coded_ && i < names_.size(); ++i) {
      const BesideCodes* beside = used_[i] ? nullptr : quantization().beside_codes(names_[i]);
      if (beside == nullptr) continue;
      used_[i] = true;
      out.dropped.push_back({std::string(names_[i]), std::string(kBesideCodes), beside->why});
    }
  }

  void check_shape_of(const TensorInfo& tensor, const ResolvedRule& needed) const {
    const Shape& shape = needed.source_layout.shape;
    const DecodeRule* decoder = codes_->decoder(tensor);
    if (decoder != nullptr && codes_->holds(*decoder, tensor, shape)) return;
    check_shape(codes_->catalog(), tensor, needed.rule->source_pattern, shape, bindings_,
                needed.rule->pointer);
  }

  void leave(const std::string& glob, const DropRule& rule, NameCheck& out) {
    const bool plain = glob.find('*') == std::string::npos;
    const auto first = plain ? std::ranges::lower_bound(names_, glob) : names_.begin();
    for (auto name = first; name != names_.end() && (!plain || *name == glob); ++name) {
      if (!plain && !glob_match(glob, *name)) continue;
      const auto at = static_cast<std::size_t>(name - names_.begin());
      if (left_out_[at]) continue;
      used_[at] = true;
      out.dropped.push_back({std::string(*name), rule.pointer, rule.why});
    }
  }

  const SortedNames& names_;
  const Codes* codes_;
  const MappingTable& table_;
  const Bindings& bindings_;
  bool takes_rest_;
  bool coded_ = false;
  std::vector<bool> used_;
  std::vector<bool> left_out_;
};

void pass_over_requirements(MappingTable& table) {
  for (Scheme& scheme : table.schemes) {
    scheme.require.clear();
    for (LayerGroup& group : scheme.groups) group.require.clear();
  }
}

// `source` is a NameList or a Catalog. `catalog` is null for a list.
template <typename Source>
NameCheck check_with(const Source& source, const SortedNames& names, const Catalog* catalog,
                     const MappingOptions& asked, Requirements requirements) {
  const Json stored = parse_json(source.config_text, config_path(source.location));
  const Json config = without_leftover(stored, source).value_or(stored);
  MappingTable table = load_table(family_of(config, source.location, asked.files));
  if (requirements == Requirements::are_passed_over) pass_over_requirements(table);
  const Scheme& scheme = scheme_of(table, asked);
  const MappingOptions options = in_layout(asked, scheme);
  check_options(table, options.options);
  Bindings::ShapeOf shape_of = [&](std::string_view name) -> std::optional<Shape> {
    const auto has = [&](std::string_view other) {
      return std::ranges::binary_search(names, other);
    };
    if (!has(name) && stored_as(name, has).empty()) return std::nullopt;
    return Shape{};
  };
  if (catalog != nullptr) shape_of = shapes_of(*catalog);
  check_quantization(config, source.location);
  ModelRules rules(table, scheme, config, options, shape_of);
  NameCheck out;
  out.family = table.family;
  std::optional<Codes> codes;
  if (catalog != nullptr) codes.emplace(table, rules.bindings(), *catalog);
  NameMatcher matcher(names, codes ? &*codes : nullptr, table, rules.bindings(),
                      !scheme.rest.empty());
  matcher.leave_out(rules.left_out(), rules.why_left_out(), out);
  matcher.match(rules.resolved(), out);
  out.notes = texts_that_hold(scheme.notes, rules.bindings());
  return out;
}

}  // namespace

NameCheck check_names(const NameList& list, const MappingOptions& options,
                      Requirements requirements) {
  return check_with(list, SortedNames(list.names.begin(), list.names.end()), nullptr, options,
                    requirements);
}

NameCheck check_names(const Catalog& catalog, const MappingOptions& options,
                      Requirements requirements) {
  SortedNames names;
  names.reserve(catalog.tensors.size());
  for (const TensorInfo& tensor : catalog.tensors) names.push_back(tensor.name);
  return check_with(catalog, names, &catalog, options, requirements);
}

}  // namespace hfshard
