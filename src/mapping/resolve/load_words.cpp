#include "mapping/resolve/load_words.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/loader_models.h"
#include "mapping/tables/scheme_defaults.h"

namespace hfshard {
namespace {

constexpr const char* kFlavor = "flavor";  // of a model without a loader config

struct Wanted {
  std::string name;
  ExprValue value;
};

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool has_fraction(double value) { return value != std::nearbyint(value); }

std::string value_text(const ExprValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  const double real = std::get<double>(value);
  constexpr double kMostExact = 0x1p53;
  if (!has_fraction(real) && std::abs(real) < kMostExact)
    return fmt::format("{}", static_cast<std::int64_t>(real));
  return fmt::format("{}", real);
}

// Formats a list for the command line: [silu,linear].
std::string list_text(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list.as_array())
    out.push_back(item.is_string() ? item.as_string() : dump_json(item));
  return "[" + join(out, ",") + "]";
}

std::string fact_text(const Json& value) {
  return value.is_string()  ? value.as_string()
         : value.is_array() ? list_text(value)
                            : dump_json(value);
}

std::optional<double> number_of(const ExprValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

bool same_value(const Json* has, const ExprValue& wanted) {
  if (has == nullptr) return false;
  if (const auto* flag = std::get_if<bool>(&wanted))
    return has->is_bool() && has->as_bool() == *flag;
  if (const auto number = number_of(wanted)) return has->is_number() && has->as_double() == *number;
  const auto& text = std::get<std::string>(wanted);
  if (has->is_array()) return list_text(*has) == text;
  return has->is_string() && has->as_string() == text;
}

std::vector<Wanted> evaluated(const std::vector<Setting>& settings, const Bindings& model) {
  std::vector<Wanted> out;
  for (const Setting& setting : settings) {
    ExprValue value = setting.value.evaluate(model);
    if (!std::holds_alternative<Absent>(value)) out.push_back({setting.name, std::move(value)});
  }
  return out;
}

bool may_be(const std::vector<NameRule>& rules, const std::string& name, const Bindings& model) {
  const auto rule = std::ranges::find_if(
      rules, [&](const NameRule& item) { return glob_match(item.glob, name); });
  return rule != rules.end() && rule->when.truth(model);
}

class Adviser {
 public:
  Adviser(const Scheme& scheme, const Bindings& model, const Bindings& uncut, bool stacked)
      : scheme_(scheme),
        model_(model),
        uncut_(uncut),
        stacked_(stacked),
        known_(loader_options(scheme.name)),
        facts_(loader_facts(scheme.name)) {}

  LoadAdvice advice() && {
    for (const Warning& warning : scheme_.warnings) {
      if (warning.when.truth(model_)) out_.warnings.push_back(warning.text.name(model_));
    }
    if (known_.path.empty()) return std::move(out_);
    if (known_.override_model.empty()) {
      name_same();
      return std::move(out_);
    }
    const LoaderModel* nearest = choose(uncut_);
    std::vector<Wanted> all = wanted();
    if (!known_.stacked.empty()) first(all, known_.stacked);
    if (nearest != nullptr) say(known_.model, nearest->name);
    const std::size_t named = out_.words.size();
    const Json* settings = nearest == nullptr ? nullptr : nearest->settings;
    for (Wanted& item : all) {
      if (goes_unsaid(item, settings)) continue;
      say(item.name, value_text(whole(item)));
    }
    note_nearest(nearest);
    note_release();
    if (nearest == nullptr) return std::move(out_);
    if (out_.words.size() > named || lies_otherwise(*settings)) say(known_.override_model, "true");
    return std::move(out_);
  }

 private:
  void say(const std::string& name, const std::string& value) {
    out_.words.push_back(name + "=" + value);
  }

  void note_nearest(const LoaderModel* nearest) {
    if (nearest == nullptr) {
      out_.note = fmt::format("No {} {} matches; the arguments above set every size.", known_.name,
                              known_.model);
    } else if (out_.names.empty()) {
      out_.note = fmt::format("{} is the nearest {}; the other arguments set what differs.",
                              nearest->name, known_.model);
    } else if (out_.names.size() > 1) {
      out_.note = fmt::format("other names that fit: {}",
                              join({out_.names.begin() + 1, out_.names.end()}, ", "));
    }
  }

  // Notes that trees differ between releases of the loader.
  void note_release() {
    if (!scheme_.differs_by_release(stacked_)) return;
    const std::vector<std::string> all = releases_of(scheme_.name);
    const auto asked = model_.options().find(scheme_.name);
    const std::string& release = asked == model_.options().end() ? all.front() : asked->second;
    std::vector<std::string> others;
    for (const std::string& other : all) {
      if (other != release) others.push_back(fmt::format("--{} {}", scheme_.name, other));
    }
    if (!out_.note.empty()) out_.note += ' ';
    out_.note += fmt::format("The tree fits {}; for another release: {}.",
                             loader_name(scheme_.name, model_.options()), join(others, ", "));
  }

  // For a loader whose models have fixed sizes: names the one with the same sizes. Warns if it
  // computes otherwise.
  void name_same() {
    const auto [same, differs] =
        choose(model_, [&](const Wanted& item) { return is_among(known_.computed, item.name); });
    if (!differs.empty()) warn_computed(*same, differs);
    if (same == nullptr) {
      if (!facts_.models.empty()) note_sizes();
    } else if (const Json* flavor = same->settings->find(kFlavor); flavor != nullptr) {
      out_.names.clear();
      out_.note = fmt::format(
          "{}'s {} has the flavor {}, but no config that uses it: add one with "
          "model_registry({}).",
          known_.name, same->settings->at(known_.with_model).as_string(), flavor->as_string(),
          quote(flavor->as_string()));
    } else {
      say(known_.with_model, same->settings->at(known_.with_model).as_string());
      say(known_.model, same->name);
    }
    if (!known_.always.empty()) out_.words.push_back(known_.always);
  }

  void warn_computed(const LoaderModel& model, const std::vector<Wanted>& differs) {
    std::vector<std::string> has;
    std::vector<std::string> says;
    for (const Wanted& item : differs) {
      const Json* value = facts_.value(model.settings, item.name);
      has.push_back(item.name + "=" + (value == nullptr ? "none" : fact_text(*value)));
      says.push_back(item.name + "=" + value_text(item.value));
    }
    out_.warnings.push_back(
        fmt::format("{}'s {} has {}, but this model needs {}: logits will differ", known_.name,
                    model.name, join(has, " "), join(says, " ")));
  }

  void note_sizes() {
    std::vector<std::string> sizes;
    for (const Wanted& item : wanted()) sizes.push_back(item.name + "=" + value_text(item.value));
    if (sizes.empty()) return;
    out_.note = fmt::format("{} has no model of these sizes; add a flavor and a config with {}.",
                            known_.name, join(sizes, " "));
  }

  // Without a model, sizes are given even if they are the defaults.
  bool goes_unsaid(const Wanted& item, const Json* settings) const {
    if (settings == nullptr && (number_of(item.value) || is_among(known_.fixed, item.name)))
      return false;
    return same_value(facts_.value(settings, item.name), item.value);
  }

  std::vector<Wanted> wanted() const { return evaluated(scheme_.settings, model_); }

  // Sets the layout of layers first: from a setting, else as they are written.
  void first(std::vector<Wanted>& all, const std::string& name) {
    const auto own = std::ranges::find(all, name, &Wanted::name);
    if (own != all.end()) {
      if (const auto* flag = std::get_if<bool>(&own->value)) stacked_ = *flag;
      all.erase(own);
    }
    say(name, stacked_ ? "true" : "false");
  }

  bool lies_otherwise(const Json& settings) const {
    const Json* own = settings.find(known_.stacked);
    return own != nullptr && own->as_bool() != stacked_;
  }

  std::vector<Wanted> differing(const LoaderModel& candidate,
                                const std::vector<Wanted>& all) const {
    std::vector<Wanted> out;
    std::ranges::copy_if(all, std::back_inserter(out), [&](const Wanted& item) {
      return !same_value(facts_.value(candidate.settings, item.name), item.value);
    });
    return out;
  }

  // Returns the loader's model with the fewest settings that differ from those of `model`. Models
  // without differences are its names.
  const LoaderModel* choose(const Bindings& model) {
    return choose(model, [&](const Wanted& item) { return !is_among(known_.fixed, item.name); })
        .model;
  }

  // A model of the loader, or null, and the settings that differ.
  struct Choice {
    const LoaderModel* model = nullptr;
    std::vector<Wanted> differs;
  };

  // The same among those that differ only in what `may_differ`.
  template <typename Condition>
  Choice choose(const Bindings& model, const Condition& may_differ) {
    std::vector<Wanted> all = evaluated(scheme_.settings, model);
    std::erase_if(all, [&](const Wanted& item) {
      return item.name == known_.stacked || is_among(known_.free, item.name);
    });
    Choice nearest;
    for (const LoaderModel& candidate : facts_.models) {
      if (!may_be(scheme_.model_names, candidate.name, model)) continue;
      std::vector<Wanted> differs = differing(candidate, all);
      if (!std::ranges::all_of(differs, may_differ)) continue;
      if (differs.empty()) out_.names.push_back(candidate.name);
      if (nearest.model != nullptr && differs.size() >= nearest.differs.size()) continue;
      nearest = {&candidate, std::move(differs)};
    }
    return nearest;
  }

  // Rounds a setting that must be a whole number, with a warning.
  ExprValue whole(const Wanted& item) {
    const auto* real = std::get_if<double>(&item.value);
    if (real == nullptr || !has_fraction(*real) || !is_among(facts_.whole_numbers, item.name))
      return item.value;
    out_.warnings.push_back(fmt::format(
        "{} takes whole numbers and config.json says {}: logits will differ", item.name, *real));
    return std::nearbyint(*real);
  }

  const Scheme& scheme_;
  const Bindings& model_;
  const Bindings& uncut_;
  bool stacked_;
  LoaderOptions known_;
  const LoaderFacts& facts_;
  LoadAdvice out_;
};

}  // namespace

LoadAdvice load_advice(const Scheme& scheme, const Bindings& model, const Bindings& uncut,
                       bool stacked) {
  return Adviser(scheme, model, uncut, stacked).advice();
}

}  // namespace hfshard
