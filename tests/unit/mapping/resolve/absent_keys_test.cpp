// A key that config.json leaves out has the default of transformers. The config classes' own values
// are in tests/golden/transformers_defaults.json, and what needs a person's judgment is in
// tests/golden/absent_keys.json.

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/resolve/find.h"
#include "mapping/resolve/load_words.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/config_keys.h"
#include "support/test_data.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

namespace hfshard {
namespace {

using Lines = std::vector<std::string>;

const Json& data(const char* name) {
  static std::map<std::string, Json> files;
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  const std::string path = test_data(std::string("golden/") + name);
  return files.emplace(name, parse_json(read_file(path), path)).first->second;
}

const Json& defaults() { return data("transformers_defaults.json"); }
// `requested` has the keys whose absence is an error. `differs` has keys of a case with another
// default than transformers. `own` has keys that no config class of transformers has. The last two
// have reasons.
const Json& judged() { return data("absent_keys.json"); }

// Returns the keys of a family in a list of judged keys. Null if it lacks the family.
const Json* judged_of(std::string_view list, std::string_view family) {
  return judged().at(list).find(family);
}

// Returns what a list says of a key: of the family, or of all families.
const Json* judged_key(std::string_view list, std::string_view family, std::string_view key) {
  for (const std::string_view whose : {family, std::string_view("all")}) {
    const Json* keys = judged_of(list, whose);
    if (keys == nullptr) continue;
    if (const Json* found = keys->find(key)) return found;
  }
  return nullptr;
}

// Returns whether a family asks for a key, in some of its cases.
bool is_requested(std::string_view family, std::string_view path) {
  for (const std::string_view place : {"thinker_config.", "text_config."}) {
    if (path.starts_with(place)) path.remove_prefix(place.size());
  }
  const Json* keys = judged_of("requested", family);
  return keys != nullptr &&
         std::ranges::find(keys->as_array(), Json(path)) != keys->as_array().end();
}

// All keys of rotary positions. transformers writes them into rope_parameters.
constexpr std::array<std::string_view, 4> kRopeKeys = {"rope_parameters", "rope_scaling",
                                                       "rope_theta", "rope_local_base_freq"};

// Calls `change` with the object that holds a dotted path, and the last key.
template <typename Change>
void change_at(Json& config, const std::string& path, const Change& change) {
  std::vector<std::string> keys = split(path, '.');
  Json* at = &config;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = &(*at)[keys[i]];
  change(at->object(), keys.back());
}

Json without(Json config, const std::string& path) {
  change_at(config, path, [](Json::Object& holder, const std::string& key) {
    if (key == "rope_parameters") {
      for (const std::string_view other : kRopeKeys) holder.erase(std::string(other));
    }
    holder.erase(key);
  });
  return config;
}

// The default of rope_theta is that of all rope_parameters, since the rest of them stays.
Json with(Json config, const std::string& path, const Json& value) {
  change_at(config, path, [&](Json::Object& holder, const std::string& key) {
    const bool rope = std::ranges::find(kRopeKeys, key) != kRopeKeys.end();
    if (rope) {
      for (const std::string_view other : kRopeKeys) holder.erase(std::string(other));
    }
    holder[rope ? "rope_parameters" : key] = value;
  });
  return config;
}

void add_layout(Lines& out, const LaidOutPattern& layout) {
  std::string text = fmt::format("{} at {}", to_string(layout.shape), layout.base);
  for (const Walk& walk : layout.walks) text += fmt::format(" {}:{}", walk.extent, walk.step);
  out.push_back(text);
}

void add_value(Lines& out, const std::optional<ValueConstant>& constant, const Bindings& scope) {
  if (constant) out.push_back(fmt::format("value {}", constant->expr.real(scope)));
}

void add_rules(Lines& out, const ResolvedModel& model, const Bindings& scope) {
  for (const ResolvedRule& rule : model.rules) {
    out.push_back(rule.rule->pointer + " " + rule.target + " from " + join(rule.sources, " "));
    add_layout(out, rule.source_layout);
    add_layout(out, rule.target_layout);
    out.push_back(join(rule.axes, " "));
    add_value(out, rule.rule->modifiers.value.mul, scope);
    add_value(out, rule.rule->modifiers.value.add, scope);
  }
  for (const ResolvedFill& fill : model.fills) {
    out.push_back(fill.rule->pointer + " " + fill.target);
    add_layout(out, fill.layout);
  }
  for (const ResolvedDrop& drop : model.drops) {
    out.push_back(drop.rule->pointer + " " + join(drop.sources, " ") + " as " +
                  join(drop.same_as, " "));
  }
}

// Appends everything that a plan says about one scheme and one layout of layers.
void add_plan(Lines& out, const MappingTable& table, const Scheme& scheme, const Json& config,
              const Bindings::Options& options, bool stacked) {
  out.push_back(fmt::format("{} {} {}", scheme.name, stacked ? "stacked" : "separate",
                            options.empty() ? "" : "with all parts"));
  try {
    Bindings bindings(table, config, options, {});
    if (stacked && !scheme.stacks()) return;
    add_rules(out, resolve(scheme, bindings, stacked), bindings);
    for (const Conditional& note : scheme.notes) {
      if (note.when.truth(bindings)) out.push_back(note.text);
    }
    const LoadAdvice advice = load_advice(scheme, bindings, bindings, stacked);
    for (const Lines& lines : {advice.names, advice.words, Lines{advice.note}, advice.warnings})
      out.insert(out.end(), lines.begin(), lines.end());
  } catch (const Error& error) {
    // A config that can't be planned must be refused with the same sentence.
    out.push_back(fmt::format("error {}: {}", to_string(error.code()), error.sentence()));
  }
}

Lines plans(const MappingTable& table, const Json& config) {
  Bindings::Options parts;
  for (const std::string_view part : kParts) {
    if (std::ranges::find(table.options, part) != table.options.end())
      parts[std::string(part)] = "true";
  }
  Lines out;
  std::vector<const Scheme*> schemes;
  for (const Scheme& scheme : table.schemes) schemes.push_back(&scheme);
  for (const Scheme& scheme : table.dialects) schemes.push_back(&scheme);
  for (const Scheme* scheme : schemes) {
    for (const bool stacked : {true, false}) {
      add_plan(out, table, *scheme, config, {}, stacked);
      if (!parts.empty()) add_plan(out, table, *scheme, config, parts, stacked);
    }
  }
  return out;
}

// Returns the first lines that differ. Empty if none does.
std::string difference(const Lines& one, const Lines& other) {
  const auto [a, b] = std::ranges::mismatch(one, other);
  if (a == one.end() && b == other.end()) return {};
  return fmt::format("without it: {}\nwith the default: {}", a == one.end() ? "" : *a,
                     b == other.end() ? "" : *b);
}

// Returns whether some plan is refused because a key is absent.
bool requests(const Lines& lines, const std::string& key) {
  return std::ranges::any_of(lines, [&](const std::string& line) {
    return line.starts_with("error ") && line.find(" lacks ") != std::string::npos &&
           line.find(key) != std::string::npos;
  });
}

// Finds every key of config.json that a table reads.
class KeyFinder {
 public:
  explicit KeyFinder(const MappingTable& table) : table_(table) {
    for (const auto& [name, expr] : table.dims) add(expr);
    for (const DropRule& drop : table.drops) add(drop);
    for (const auto* schemes : {&table.schemes, &table.dialects}) {
      for (const Scheme& scheme : *schemes) add(scheme);
    }
    for (const std::string& loop : loops_) keys_.erase(loop);
  }

  const std::set<std::string>& keys() const noexcept { return keys_; }

 private:
  void add(const Scheme& scheme) {
    for (const Requirement& item : scheme.require) add(item.expr);
    for (const Conditional& item : scheme.notes) add(item.when);
    for (const Warning& item : scheme.warnings) {
      add(item.when);
      add(item.text);
    }
    for (const Setting& item : scheme.settings) add(item.value);
    for (const NameRule& item : scheme.model_names) add(item.when);
    for (const Rule& rule : scheme.global) add(rule);
    for (const FillRule& fill : scheme.fills) add(fill.modifiers);
    for (const DropRule& drop : scheme.drops) add(drop);
    for (const LayerGroup& group : scheme.groups) add(group);
  }

  void add(const LayerGroup& group) {
    for (const LoopRule& loop : group.loops) add(loop);
    for (const Requirement& item : group.require) add(item.expr);
    for (const Expr& index : group.stack_index) add(index);
    for (const Rule& rule : group.rules) add(rule);
    for (const FillRule& fill : group.fills) add(fill.modifiers);
    add(group.hf);
  }

  void add(const Rule& rule) {
    add(rule.source);
    add(rule.target);
    add(rule.modifiers);
  }

  void add(const DropRule& drop) {
    add(drop.source);
    add(drop.modifiers);
  }

  void add(const RuleModifiers& modifiers) {
    if (modifiers.when) add(*modifiers.when);
    for (const LoopRule& loop : modifiers.loops) add(loop);
    for (const auto& constant : {modifiers.value.mul, modifiers.value.add}) {
      if (constant) add(constant->expr);
    }
  }

  void add(const LoopRule& loop) {
    loops_.insert(loop.name);
    add(loop.begin);
    add(loop.end);
  }

  void add(const NameTemplate& text) {
    for (const std::string& name : text.names()) {
      if (!table_.dims.contains(name)) add_key(name);
    }
  }

  void add(const Expr& expr) {
    for (const std::string& key : inputs_of(table_, expr).keys) add_key(key);
  }

  // An item of a list counts as the list, and a rotary fact as rope_parameters.
  void add_key(const std::string& name) {
    std::vector<std::string> steps = split(name, '.');
    if (steps.front() == "quantization_config" || steps.back() == "model_type") return;
    const auto item = std::ranges::find_if(steps, [](const std::string& step) {
      return step.find_first_not_of("0123456789") == std::string::npos;
    });
    steps.erase(item, steps.end());
    keys_.insert(steps.front() == "rope" ? "rope_parameters" : join(steps, "."));
  }

  const MappingTable& table_;
  std::set<std::string> keys_;
  std::set<std::string> loops_;
};

bool has_default(std::string_view family, const std::string& key) {
  return std::ranges::any_of(defaults().at("cases").as_array(), [&](const Json& item) {
    return item.at("family").as_string() == family &&
           std::ranges::any_of(item.at("defaults").as_object(), [&](const auto& entry) {
             return entry.first == key || entry.first.ends_with("." + key);
           });
  });
}

// A key that a table reads for the first time needs its default here, or a reason in
// absent_keys.json.
TEST(AbsentKeys, AreAllKnown) {
  for (const FamilyFile& file : embedded_families()) {
    const std::string family(file.name);
    const MappingTable table = load_table(file);
    const KeyFinder finder(table);
    for (const std::string& key : finder.keys()) {
      EXPECT_TRUE(has_default(family, key) || judged_key("own", family, key) != nullptr)
          << family << " " << key << ": run tests/golden/transformers_defaults.py";
    }
  }
}

std::vector<std::string> cases_of_defaults() {
  std::vector<std::string> out;
  for (const Json& item : defaults().at("cases").as_array())
    out.push_back(item.at("name").as_string());
  return out;
}

const Json& case_named(std::string_view name) {
  const Json::Array& all = defaults().at("cases").as_array();
  return *std::ranges::find_if(
      all, [&](const Json& item) { return item.at("name").as_string() == name; });
}

class AbsentKey : public testing::TestWithParam<std::string> {};

TEST_P(AbsentKey, HasTheDefaultOfTransformers) {
  const Json& item = case_named(GetParam());
  const std::string& family = item.at("family").as_string();
  const MappingTable table = load_table(family_by_name(family));
  const Json& config = item.at("config");
  for (const auto& [path, value] : item.at("defaults").as_object()) {
    const std::string key = path.substr(path.rfind('.') + 1);
    const Lines absent = plans(table, without(config, path));
    const std::string differs = difference(absent, plans(table, with(config, path, value)));
    if (judged_key("differs", GetParam(), path) != nullptr) {
      EXPECT_NE(differs, "") << path << ": it doesn't differ anymore";
    } else if (!is_requested(family, path) || !requests(absent, key)) {
      EXPECT_EQ(differs, "") << path << " = " << dump_json(value);
    }
  }
}

// A window of null is no window, unlike one that is absent.
TEST(AbsentKeys, ANullWindowIsNoWindow) {
  for (const char* name : {"qwen2_windows", "qwen3_windows", "qwen3_moe_windows"}) {
    const Json& item = case_named(name);
    const MappingTable table = load_table(family_by_name(item.at("family").as_string()));
    const Json& config = item.at("config");
    const Lines null = plans(table, with(config, "sliding_window", {}));
    EXPECT_EQ(difference(null, plans(table, with(config, "sliding_window", 0))), "") << name;
    EXPECT_NE(difference(null, plans(table, without(config, "sliding_window"))), "") << name;
    const auto warns = [](const std::string& line) { return line.find("windows") != line.npos; };
    EXPECT_TRUE(std::ranges::none_of(null, warns)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AbsentKey, testing::ValuesIn(cases_of_defaults()),
                         [](const testing::TestParamInfo<std::string>& parameter) {
                           return parameter.param;
                         });

}  // namespace
}  // namespace hfshard
