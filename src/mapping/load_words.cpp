#include "mapping/load_words.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "mapping/scheme_defaults.h"

namespace hfshard {
namespace {

std::string value_text(const ExprValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  return {};
}

}  // namespace

std::vector<std::string> load_words(const Scheme& scheme, const Bindings& model, bool stacked,
                                    const std::vector<std::string>& names,
                                    std::optional<std::uint64_t> layers) {
  const LoaderOptions known = loader_options(scheme.name);
  if (known.path.empty()) return {};
  std::vector<std::pair<std::string, std::string>> words;
  if (!known.stacked.empty()) words.emplace_back(known.stacked, stacked ? "true" : "false");
  if (!names.empty()) words.emplace_back(known.model, names.front());
  bool overrides = layers.has_value();
  if (layers && !known.layers.empty()) words.emplace_back(known.layers, std::to_string(*layers));
  for (const Note& note : scheme.notes) {
    if (note.load.empty() || !note.when.truth(model)) continue;
    overrides = true;
    for (const LoadOption& option : note.load) {
      const std::string value =
          option.value ? value_text(option.value->evaluate(model)) : option.text;
      const auto same =
          std::ranges::find(words, option.name, [](const auto& w) { return w.first; });
      if (same != words.end()) {
        same->second = value;
      } else {
        words.emplace_back(option.name, value);
      }
    }
  }
  // What the named model's own settings say otherwise, its loader refuses without this.
  if (overrides && !names.empty() && !known.override_model.empty())
    words.emplace_back(known.override_model, "true");
  std::vector<std::string> out;
  out.reserve(words.size());
  for (const auto& [name, value] : words) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

}  // namespace hfshard
