#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/last_made.h"
#include "base/text.h"
#include "mapping/tables/expand.h"
#include "mapping/tables/load_decode.h"
#include "mapping/tables/load_reader.h"
#include "mapping/tables/load_rules.h"
#include "mapping/tables/table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

std::vector<Conditional> read_conditionals(const JsonAt& at) {
  std::vector<Conditional> out;
  for (const JsonAt& pair : at.elements()) {
    if (pair.size() != 2) pair.fail("this must be a pair [text, condition]");
    out.push_back({pair.at(std::size_t{1}).expr(), pair.at(std::size_t{0}).text()});
  }
  return out;
}

std::vector<Setting> read_settings(const JsonAt& at) {
  std::vector<Setting> out;
  for (const std::string& name : at.keys()) {
    if (!at.at(name).json().is_null()) out.push_back({name, at.at(name).expr()});
  }
  return out;
}

std::vector<Warning> read_warnings(const JsonAt& at) {
  std::vector<Warning> out;
  for (const JsonAt& pair : at.elements()) {
    if (pair.size() != 2) pair.fail("this must be a pair [text, condition]");
    const JsonAt text = pair.at(std::size_t{0});
    out.push_back({pair.at(std::size_t{1}).expr(), NameTemplate(text.text(), text.pointer())});
  }
  return out;
}

std::vector<NameRule> read_name_rules(const JsonAt& at) {
  std::vector<NameRule> out;
  for (const JsonAt& pair : at.elements()) {
    if (pair.size() != 2) pair.fail("this must be a pair [glob, condition]");
    out.push_back({pair.at(std::size_t{0}).text(), pair.at(std::size_t{1}).expr()});
  }
  return out;
}

std::map<std::string, std::vector<std::string>> read_forms(const JsonAt& at) {
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& option : at.keys()) out[option] = at.at(option).texts();
  return out;
}

class TableLoader {
 public:
  TableLoader(const ExpandedFamily& family, const FamilyFile& file)
      : root_(family.json, std::string(file.path) + "#", family.origins), path_(file.path) {}

  MappingTable load() {
    root_.check_keys(Block::family);
    table_.path = path_;
    if (root_.at("schema").integer() != kSchemaVersion) {
      root_.at("schema").fail(fmt::format("hfshard reads schema {}", kSchemaVersion));
    }
    header();
    const JsonAt dims = root_.at("dims");
    for (const std::string& name : dims.keys()) table_.dims.emplace(name, dims.at(name).expr());
    if (root_.has("config_at")) table_.config_at = root_.at("config_at").texts();
    if (root_.has("sizes")) sizes(root_.at("sizes"));
    if (root_.has("drop")) table_.drops = read_drops(root_.at("drop"), nullptr);
    if (root_.has("decode")) {
      for (const JsonAt& at : root_.at("decode").elements())
        table_.decodes.push_back(read_decode(at));
    }
    const JsonAt schemes = root_.at("schemes");
    for (const std::string& name : schemes.keys()) scheme(name, schemes.at(name));
    if (table_.schemes.empty()) schemes.fail("this must be a scheme");
    options();
    return std::move(table_);
  }

 private:
  void header() {
    table_.family = root_.at("family").text();
    const JsonAt match = root_.at("match");
    match.check_keys(Block::match);
    table_.model_types = match.at("model_type").texts();
    if (match.has("architectures")) table_.architectures = match.at("architectures").texts();
    if (root_.has("source")) table_.sources = root_.at("source").texts();
    if (!root_.at("example").json().is_object()) root_.at("example").fail("this must be an object");
    table_.example = root_.at("example").json();
  }

  void sizes(const JsonAt& at) {
    for (const std::string& name : at.keys()) {
      if (!at.at(name).json().is_object()) at.at(name).fail("this must be an object");
      table_.sizes.emplace(name, at.at(name).json());
    }
  }

  // Reads [from*, to*] or [from*, to*, condition].
  static Renaming read_renaming(const JsonAt& at) {
    if (at.size() != 2 && at.size() != 3)
      at.fail("this must be [from*, to*], with a condition if needed");
    const auto side = [&](std::size_t number) {
      const JsonAt side_at = at.at(number);
      std::string_view text = side_at.text();
      if (!text.ends_with('*')) side_at.fail("this must be a name that ends in *");
      text.remove_suffix(1);
      return NameTemplate(text, side_at.pointer());
    };
    Renaming out{at.pointer(), side(0), side(1), {}};
    if (at.size() == 3) out.when = at.at(std::size_t{2}).expr();
    return out;
  }

  static std::vector<Renaming> read_renames(const JsonAt& at) {
    std::vector<Renaming> out;
    if (!at.has("rename")) return out;
    for (const JsonAt& renaming : at.at("rename").elements())
      out.push_back(read_renaming(renaming));
    return out;
  }

  std::vector<DropRule> read_drops(const JsonAt& at, const Scheme* scheme) const {
    std::vector<DropRule> out;
    for (const JsonAt& drop : at.elements())
      out.push_back(read_drop(drop, {&table_, scheme, nullptr}));
    return out;
  }

  void scheme(const std::string& name, const JsonAt& at) {
    at.check_keys(Block::scheme, /*open=*/true);
    Scheme out;
    out.name = name;
    out.pointer = at.pointer();
    const std::string root = at.at("root").text();
    if (!root.empty()) out.root = split(root, '.');
    out.scan_axis = read_scan_axis(at.at("scan_axis"));
    axis_rules(at, out);
    if (at.has("axes_by_place")) out.axes_by_place = at.at("axes_by_place").boolean();
    if (at.has("axes") || !out.axes_by_place) out.axes = read_axes(at.at("axes"), out.axis_names);
    out.sources = at.at("source").texts();
    if (at.has("rest")) out.rest = at.at("rest").text();
    out.renames = read_renames(at);
    if (at.has("require")) out.require = read_requirements(at.at("require"));
    if (at.has("notes")) out.notes = read_conditionals(at.at("notes"));
    if (at.has("warnings")) out.warnings = read_warnings(at.at("warnings"));
    if (at.has("settings")) out.settings = read_settings(at.at("settings"));
    if (at.has("by_release")) out.by_release = at.at("by_release").texts();
    if (at.has("forms")) out.forms = read_forms(at.at("forms"));
    if (at.has("keeps_codes")) out.keeps_codes = at.at("keeps_codes").text();
    if (at.has("model_names")) out.model_names = read_name_rules(at.at("model_names"));
    if (at.has("global")) {
      for (const JsonAt& rule : at.at("global").elements()) {
        out.global.push_back(read_rule(rule, {&table_, &out, nullptr}));
      }
    }
    if (at.has("fill")) {
      for (const JsonAt& fill : at.at("fill").elements()) {
        out.fills.push_back(read_fill(fill, {&table_, &out, nullptr}));
      }
    }
    if (at.has("drop")) out.drops = read_drops(at.at("drop"), &out);
    for (const std::string& key : at.keys()) {
      const auto known = block_keys(Block::scheme);
      const bool is_key =
          std::ranges::any_of(known, [&](const BlockKey& k) { return k.name == key; });
      if (!is_key) out.groups.push_back(group(key, at, out));
    }
    (out.rest.empty() ? table_.schemes : table_.dialects).push_back(std::move(out));
  }

  // Collects the logical axes that rules may name: those with axis rules, and axes_without_rules.
  static void axis_rules(const JsonAt& at, Scheme& out) {
    if (!at.has("axis_rules")) return;
    out.axis_rules = at.at("axis_rules").json();
    for (const JsonAt& rule : at.at("axis_rules").elements()) {
      if (rule.size() != 2) rule.fail("an axis rule must be [logical axis, [mesh axis, ...]]");
      out.axis_names.push_back(rule.at(std::size_t{0}).text());
    }
    if (at.has("axes_without_rules")) {
      for (const std::string& axis : at.at("axes_without_rules").texts())
        out.axis_names.push_back(axis);
    }
    std::ranges::sort(out.axis_names);
    // clang 14 doesn't compile the result of std::ranges::unique.
    out.axis_names.erase(std::unique(out.axis_names.begin(), out.axis_names.end()),
                         out.axis_names.end());
  }

  LayerGroup group(const std::string& name, const JsonAt& scheme_at, const Scheme& scheme) const {
    const JsonAt at = scheme_at.at(name);
    if (!at.json().is_object()) {
      at.fail(fmt::format("key {} is neither known nor a layer group (an object)", quote(name)));
    }
    at.check_keys(Block::group);
    LayerGroup out;
    out.pointer = at.pointer();
    out.name = name;
    out.loops = read_loops(at.at("for"));
    out.hf = NameTemplate(at.at("hf").text(), at.at("hf").pointer());
    placement(at, scheme, out);
    out.renames = read_renames(at);
    if (at.has("require")) out.require = read_requirements(at.at("require"));
    if (at.has("source")) out.sources = at.at("source").texts();
    const RuleContext context{&table_, &scheme, &out.loops};
    if (at.has("use")) {
      const JsonAt use = at.at("use");
      for (const std::string& part : use.texts()) {
        if (!scheme_at.has("parts")) use.fail("the scheme has no parts");
        for (const JsonAt& rule : scheme_at.at("parts").at(part).elements()) {
          out.rules.push_back(read_rule(rule, context));
        }
      }
    }
    if (at.has("rules")) {
      for (const JsonAt& rule : at.at("rules").elements())
        out.rules.push_back(read_rule(rule, context));
    }
    if (at.has("fill")) {
      for (const JsonAt& fill : at.at("fill").elements())
        out.fills.push_back(read_fill(fill, context));
    }
    // In a dialect, a group may have only the places of layers.
    if (out.rules.empty() && scheme.rest.empty())
      at.fail("a layer group needs rules or parts to use");
    return out;
  }

  // Reads the places of a group's leaves: `stacked` [prefix, index...] and `separate` prefix.
  static void placement(const JsonAt& at, const Scheme& scheme, LayerGroup& out) {
    if (!at.has("stacked") && !at.has("separate"))
      at.fail("key \"stacked\" or \"separate\" is missing");
    if (at.has("separate")) {
      out.separate = NameTemplate(at.at("separate").text(), at.at("separate").pointer());
    }
    if (!at.has("stacked")) return;
    const JsonAt stacked = at.at("stacked");
    if (stacked.size() == 0) stacked.fail("stacked must be [prefix, stack index...]");
    out.stacked = NameTemplate(stacked.at(std::size_t{0}).text(), stacked.pointer());
    for (std::size_t i = 1; i < stacked.size(); ++i) {
      out.stack_index.push_back(stacked.at(i).expr());
      bool named = false;
      for (const std::string& name : out.stack_index.back().names()) {
        named = named || scheme.axes.contains(name);
      }
      if (!named)
        stacked.at(i).fail("the stack axis lacks a logical name; add its loop under axes");
    }
  }

  void add_options(const Expr& expr) {
    for (const std::string& name : expr.names()) {
      if (name.starts_with("option.")) table_.options.push_back(name.substr(7));
    }
  }

  void add_options(const RuleModifiers& modifiers) {
    if (modifiers.when) add_options(*modifiers.when);
    add_options(modifiers.loops);
  }

  void add_options(const std::vector<LoopRule>& loops) {
    for (const LoopRule& loop : loops) {
      add_options(loop.begin);
      add_options(loop.end);
    }
  }

  void add_options(const Scheme& scheme) {
    for (const Requirement& item : scheme.require) add_options(item.expr);
    for (const Conditional& note : scheme.notes) add_options(note.when);
    for (const Warning& warning : scheme.warnings) add_options(warning.when);
    for (const Setting& setting : scheme.settings) add_options(setting.value);
    for (const NameRule& rule : scheme.model_names) add_options(rule.when);
    for (const Rule& rule : scheme.global) add_options(rule.modifiers);
    for (const FillRule& fill : scheme.fills) add_options(fill.modifiers);
    for (const DropRule& drop : scheme.drops) add_options(drop.modifiers);
    for (const LayerGroup& group : scheme.groups) {
      add_options(group.loops);
      for (const Expr& index : group.stack_index) add_options(index);
      for (const Requirement& item : group.require) add_options(item.expr);
      for (const Rule& rule : group.rules) add_options(rule.modifiers);
      for (const FillRule& fill : group.fills) add_options(fill.modifiers);
    }
  }

  // Collects the family's options: those in its conditions and dims.
  void options() {
    for (const auto& [name, expr] : table_.dims) add_options(expr);
    for (const DropRule& drop : table_.drops) add_options(drop.modifiers);
    for (const Scheme& scheme : table_.schemes) add_options(scheme);
    std::ranges::sort(table_.options);
    const auto rest = std::unique(table_.options.begin(), table_.options.end());
    table_.options.erase(rest, table_.options.end());
  }

  JsonAt root_;
  std::string path_;
  MappingTable table_;
};

}  // namespace

const Scheme* MappingTable::scheme(std::string_view name) const noexcept {
  for (const Scheme& candidate : schemes) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

const Scheme* MappingTable::dialect(std::string_view name) const noexcept {
  const auto found = std::ranges::find(dialects, name, &Scheme::name);
  return found == dialects.end() ? nullptr : &*found;
}

const Scheme& MappingTable::main_scheme() const noexcept {
  const Scheme* found = scheme("maxtext");
  return found != nullptr ? *found : schemes.front();
}

const Scheme& MappingTable::scheme_or_main(std::string_view name) const {
  if (name.empty()) return main_scheme();
  if (const Scheme* found = scheme(name)) return *found;
  std::vector<std::string> names;
  for (const Scheme& candidate : schemes) names.push_back(candidate.name);
  throw Error(ErrorCode::not_found,
              fmt::format("family {} has no scheme {}", quote(family), quote(name)))
      .in_file(path)
      .hint("its schemes are " + join(names, ", "));
}

bool Scheme::stacks() const noexcept {
  return std::ranges::any_of(groups, [](const LayerGroup& g) { return g.stacked.has_value(); });
}

std::string Scheme::head(const std::string& collection) const {
  std::string out;
  for (const std::string& key : root) {
    out += !collection.empty() && &key == &root.back() ? collection : key;
    out += '.';
  }
  return out;
}

bool Scheme::differs_by_release(bool stacked) const {
  return std::ranges::find(by_release, stacked ? "stacked" : "separate") != by_release.end();
}

MappingTable load_table(const FamilyFile& file) {
  const auto load = [&] { return TableLoader(expand_family(file), file).load(); };
  if (!file.is_built_in()) return load();
  // A command asks for the same built-in table several times.
  static LastMade<const char*, MappingTable> kept;
  return kept.get(file.text.data(), load);
}

bool is_norm_scale(std::string_view target, const Pattern& pattern) noexcept {
  return pattern.axes.size() == 1 && target.ends_with(".scale");
}

std::optional<std::string> axis_name(const PatternNode& node, const AxisNames& rule,
                                     const AxisNames& scheme) {
  std::vector<std::string> dims;
  collect_dims(node, dims);
  if (dims.empty()) return std::string();
  for (const AxisNames* names : {&rule, &scheme}) {
    for (const std::string& dim : dims) {
      const auto found = names->find(dim);
      if (found != names->end()) return found->second;
    }
  }
  return std::nullopt;
}

}  // namespace hfshard
