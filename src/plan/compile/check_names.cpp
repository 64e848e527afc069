#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/text.h"
#include "mapping/first_layers.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"

namespace hfshard {
namespace {

// Marks the names that a resolved mapping uses.
class NameMatcher {
 public:
  // `takes_rest`: as Scheme::rest says.
  NameMatcher(const NameList& list, const MappingTable& table, const Bindings& bindings,
              bool takes_rest)
      : names_(list.names),
        table_(table),
        bindings_(bindings),
        takes_rest_(takes_rest),
        used_(list.names.size(), false),
        left_out_(list.names.size(), false) {}

  // Before match, which would give some of them another reason.
  void leave_out(const std::vector<std::string>& prefixes, const std::string& why, NameCheck& out) {
    for (const std::string& prefix : prefixes) {
      for (auto name = std::ranges::lower_bound(names_, prefix);
           name != names_.end() && name->starts_with(prefix); ++name) {
        const auto at = static_cast<std::size_t>(name - names_.begin());
        if (!left_out_[at]) out.dropped.push_back({*name, "--num-layers", why});
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
        if (!(takes_rest_ && rule.rule->modifiers.copy)) need(name, rule.rule->pointer, out);
      }
      if (std::ranges::find(out.rules, rule.rule->pointer) == out.rules.end())
        out.rules.push_back(rule.rule->pointer);
    }
    for (const ResolvedFill& fill : model.fills) leaves.insert(fill.target);
    out.leaves = leaves.size();
    for (const ResolvedDrop& drop : model.drops) {
      for (const std::string& glob : drop.sources) leave(glob, *drop.rule, out);
    }
    if (takes_rest_) {
      out.leaves += static_cast<std::uint64_t>(std::ranges::count(used_, false));
      return;
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!used_[i])
        out.findings.push_back({names_[i], {}, "no rule and no drop matches the name"});
    }
  }

 private:
  bool has_any(const ResolvedRule& rule) const {
    return std::ranges::any_of(rule.sources, [&](const std::string& name) {
      return std::ranges::binary_search(names_, name);
    });
  }

  void need(const std::string& name, const std::string& pointer, NameCheck& out) {
    const auto found = std::ranges::lower_bound(names_, name);
    if (found == names_.end() || *found != name) {
      out.findings.push_back({name, pointer, "the index lacks a tensor that the rule needs"});
      return;
    }
    used_[static_cast<std::size_t>(found - names_.begin())] = true;
    // Which tensors are coded is in the headers; a scale that is there is taken for one.
    for (const DecodeRule& rule : table_.decodes) {
      if (!rule.takes(name, std::nullopt, bindings_)) continue;
      const auto scale = std::ranges::lower_bound(names_, rule.scale_name(name));
      if (scale != names_.end() && *scale == rule.scale_name(name))
        used_[static_cast<std::size_t>(scale - names_.begin())] = true;
    }
  }

  void leave(const std::string& glob, const DropRule& rule, NameCheck& out) {
    const bool plain = glob.find('*') == std::string::npos;
    const auto first = plain ? std::ranges::lower_bound(names_, glob) : names_.begin();
    for (auto name = first; name != names_.end() && (!plain || *name == glob); ++name) {
      if (!plain && !glob_match(glob, *name)) continue;
      const auto at = static_cast<std::size_t>(name - names_.begin());
      if (left_out_[at]) continue;
      used_[at] = true;
      out.dropped.push_back({*name, rule.pointer, rule.why});
    }
  }

  const std::vector<std::string>& names_;
  const MappingTable& table_;
  const Bindings& bindings_;
  bool takes_rest_;
  std::vector<bool> used_;
  std::vector<bool> left_out_;
};

}  // namespace

NameCheck check_names(const NameList& list, const MappingOptions& asked) {
  const Json config = parse_json(list.config_text, config_path(list.location));
  const MappingTable table = load_table(family_of(config, list.location, asked.files));
  const Scheme& scheme = scheme_of(table, asked);
  const MappingOptions options = in_layout(asked, scheme);
  check_options(table, options.options);
  const Bindings::ShapeOf shape_of = [&](std::string_view name) -> std::optional<Shape> {
    if (!std::ranges::binary_search(list.names, name)) return std::nullopt;
    return Shape{};
  };
  ModelRules rules(table, scheme, config, options, shape_of);
  check_quantisation(table, config, list.location);
  NameCheck out;
  out.family = table.family;
  NameMatcher matcher(list, table, rules.bindings(), !scheme.rest.empty());
  matcher.leave_out(rules.left_out(), rules.why_left_out(), out);
  matcher.match(rules.resolved(), out);
  out.notes = texts_that_hold(scheme.notes, rules.bindings());
  return out;
}

}  // namespace hfshard
