#include "mapping/model_names.h"

#include <algorithm>

namespace hfshard {
namespace {

// Equal values, or both absent.
bool same_value(const ExprValue& a, const ExprValue& b) {
  if (a.index() != b.index() || std::holds_alternative<Absent>(a)) return a.index() == b.index();
  if (const auto* text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
  if (const auto* flag = std::get_if<bool>(&a)) return *flag == std::get<bool>(b);
  if (const auto* real = std::get_if<double>(&a)) return *real == std::get<double>(b);
  return std::get<std::int64_t>(a) == std::get<std::int64_t>(b);
}

bool fits(const MappingTable& table, const Scheme& scheme, const std::string& name,
          const Json& config, const Bindings& model) {
  static const Bindings::Options kNone;
  const auto options = scheme.model_names.options.find(name);
  const Bindings size(table, config,
                      options == scheme.model_names.options.end() ? kNone : options->second, {});
  return std::ranges::all_of(scheme.model_names.by, [&](const Expr& expr) {
    return same_value(expr.evaluate(size), expr.evaluate(model));
  });
}

}  // namespace

std::vector<std::string> names_that_fit(const MappingTable& table, const Scheme& scheme,
                                        const Bindings& model) {
  const ModelNames& names = scheme.model_names;
  std::vector<std::string> out;
  if (names.by.empty() || (names.when && !names.when->truth(model))) return out;
  for (const auto& [name, config] : table.sizes) {
    if (std::ranges::find(names.without, name) != names.without.end()) continue;
    if (fits(table, scheme, name, config, model)) out.push_back(name);
  }
  for (const Conditional& item : names.more) {
    if (item.when.truth(model)) out.push_back(item.text);
  }
  return out;
}

}  // namespace hfshard
