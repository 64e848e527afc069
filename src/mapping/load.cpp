#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/expand.h"
#include "mapping/load_reader.h"
#include "mapping/load_rules.h"
#include "mapping/table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

std::vector<Conditional> read_conditionals(const JsonAt& at) {
  std::vector<Conditional> out;
  for (const JsonAt& pair : at.elements()) {
    if (pair.size() != 2) pair.fail("a pair [text, condition] is needed here");
    out.push_back({pair.at(std::size_t{1}).expr(), pair.at(std::size_t{0}).text()});
  }
  return out;
}

// `NAME=TEXT`, or `NAME={expression}`.
LoadOption read_load_option(const JsonAt& at, std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == 0 || equals == std::string_view::npos)
    at.fail(fmt::format("{} is not NAME=VALUE", quote(word)));
  LoadOption out{std::string(word.substr(0, equals)), std::string(word.substr(equals + 1)), {}};
  if (out.text.starts_with('{') && out.text.ends_with('}'))
    out.value.emplace(std::string_view(out.text).substr(1, out.text.size() - 2), at.pointer());
  return out;
}

std::vector<Note> read_notes(const JsonAt& at) {
  std::vector<Note> out;
  for (const JsonAt& note : at.elements()) {
    if (note.size() != 2 && note.size() != 3)
      note.fail("a pair [text, condition] is needed here, or with the options to load with");
    out.push_back({{note.at(std::size_t{1}).expr(), note.at(std::size_t{0}).text()}, {}});
    if (note.size() == 2) continue;
    const JsonAt words = note.at(std::size_t{2});
    for (const std::string& word : split(words.text(), ' '))
      out.back().load.push_back(read_load_option(words, word));
  }
  return out;
}

DecodeKind read_kind(const JsonAt& at) {
  for (const DecodeKind kind :
       {DecodeKind::block, DecodeKind::tensor, DecodeKind::mx, DecodeKind::int4}) {
    if (at.text() == to_string(kind)) return kind;
  }
  at.fail(fmt::format("a decoder is block, tensor, mx or int4, not {}", quote(at.text())));
}

DecodeRule read_decode(const JsonAt& at) {
  at.check_keys(Block::decode);
  DecodeRule out;
  out.pointer = at.pointer();
  out.kind = read_kind(at.at("kind"));
  out.scale = at.at("scale").text();
  if (at.has("when")) out.when = at.at("when").expr();
  if (at.has("name")) out.name = at.at("name").text();
  if (at.has("dtype")) {
    for (const std::string& text : at.at("dtype").texts()) {
      const auto dtype = dtype_from_safetensors(text);
      if (!dtype) at.at("dtype").fail(fmt::format("{} is no dtype of safetensors", quote(text)));
      out.dtypes.push_back(*dtype);
    }
  }
  if (!out.name && out.dtypes.empty()) at.fail("a decoder needs a name or a dtype");
  if (at.has("block")) {
    for (const JsonAt& extent : at.at("block").elements()) out.block.push_back(extent.expr());
    if (out.block.size() != 2) at.at("block").fail("a block has rows and columns");
  }
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
      root_.at("schema").fail(fmt::format("this program reads schema {}", kSchemaVersion));
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
    if (table_.schemes.empty()) schemes.fail("a scheme is needed here");
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
    if (!root_.at("example").json().is_object())
      root_.at("example").fail("an object is needed here");
    table_.example = root_.at("example").json();
  }

  void sizes(const JsonAt& at) {
    for (const std::string& name : at.keys()) {
      if (!at.at(name).json().is_object()) at.at(name).fail("an object is needed here");
      table_.sizes.emplace(name, at.at(name).json());
    }
  }

  // [from*, to*] or [from*, to*, condition].
  static Renaming read_renaming(const JsonAt& at) {
    if (at.size() != 2 && at.size() != 3)
      at.fail("a pair [from*, to*] is needed here, or with a condition");
    const auto side = [&](std::size_t number) {
      const JsonAt side_at = at.at(number);
      std::string_view text = side_at.text();
      if (!text.ends_with('*')) side_at.fail("a name that ends in * is needed here");
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
    const std::string& root = at.at("root").text();
    if (!root.empty()) out.root = split(root, '.');
    out.scan_axis = read_scan_axis(at.at("scan_axis"));
    axis_rules(at, out);
    if (at.has("axes_by_place")) out.axes_by_place = at.at("axes_by_place").boolean();
    if (at.has("axes") || !out.axes_by_place) out.axes = read_axes(at.at("axes"), out.axis_names);
    out.sources = at.at("source").texts();
    if (at.has("rest")) out.rest = at.at("rest").text();
    out.renames = read_renames(at);
    if (at.has("require")) out.require = read_requirements(at.at("require"));
    if (at.has("notes")) out.notes = read_notes(at.at("notes"));
    if (at.has("model_names")) out.model_names = model_names(at.at("model_names"));
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

  // The logical axes that a rule may name: those of the axis rules, and those that need none.
  static void axis_rules(const JsonAt& at, Scheme& out) {
    if (!at.has("axis_rules")) return;
    out.axis_rules = at.at("axis_rules").json();
    for (const JsonAt& rule : at.at("axis_rules").elements()) {
      if (rule.size() != 2) rule.fail("an axis rule is [logical axis, [mesh axis, ...]]");
      out.axis_names.push_back(rule.at(std::size_t{0}).text());
    }
    if (at.has("axes_without_rules")) {
      for (const std::string& axis : at.at("axes_without_rules").texts())
        out.axis_names.push_back(axis);
    }
    std::ranges::sort(out.axis_names);
    // Not std::ranges::unique: clang 14 does not compile its result.
    out.axis_names.erase(std::unique(out.axis_names.begin(), out.axis_names.end()),
                         out.axis_names.end());
  }

  ModelNames model_names(const JsonAt& at) const {
    at.check_keys(Block::model_names);
    ModelNames out;
    for (const JsonAt& expr : at.at("by").elements()) out.by.push_back(expr.expr());
    if (at.has("when")) out.when = at.at("when").expr();
    if (at.has("without")) out.without = at.at("without").texts();
    if (at.has("more")) out.more = read_conditionals(at.at("more"));
    if (at.has("options")) {
      for (const std::string& name : at.at("options").keys()) {
        const JsonAt options = at.at("options").at(name);
        for (const std::string& option : options.keys())
          out.options[name][option] = options.at(option).text();
      }
    }
    for (const std::string& name : out.without) known_size(at.at("without"), name);
    for (const auto& [name, options] : out.options) known_size(at.at("options"), name);
    return out;
  }

  void known_size(const JsonAt& at, const std::string& name) const {
    if (!table_.sizes.contains(name)) at.fail(fmt::format("{} is none of the sizes", quote(name)));
  }

  LayerGroup group(const std::string& name, const JsonAt& scheme_at, const Scheme& scheme) const {
    const JsonAt at = scheme_at.at(name);
    if (!at.json().is_object()) {
      at.fail(fmt::format("key {} is unknown, and no layer group (an object)", quote(name)));
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
    // Of a dialect, it may only say where the layers are.
    if (out.rules.empty() && scheme.rest.empty())
      at.fail("a layer group needs rules or parts to use");
    return out;
  }

  // Where the leaves of a group are: `stacked` [prefix, index...] and `separate` prefix.
  static void placement(const JsonAt& at, const Scheme& scheme, LayerGroup& out) {
    if (!at.has("stacked") && !at.has("separate"))
      at.fail("key \"stacked\" or \"separate\" is missing");
    if (at.has("separate")) {
      out.separate = NameTemplate(at.at("separate").text(), at.at("separate").pointer());
    }
    if (!at.has("stacked")) return;
    const JsonAt stacked = at.at("stacked");
    if (stacked.size() == 0) stacked.fail("stacked is [prefix, stack index...]");
    out.stacked = NameTemplate(stacked.at(std::size_t{0}).text(), stacked.pointer());
    for (std::size_t i = 1; i < stacked.size(); ++i) {
      out.stack_index.push_back(stacked.at(i).expr());
      bool named = false;
      for (const std::string& name : out.stack_index.back().names()) {
        named = named || scheme.axes.contains(name);
      }
      if (!named) stacked.at(i).fail("the stack axis has no logical name; add its loop under axes");
    }
  }

  void add_options(const Expr& expr) {
    for (const std::string& name : expr.names()) {
      if (name.starts_with("option.")) table_.options.push_back(name.substr(7));
    }
  }

  void add_options(const Note& note) {
    add_options(note.when);
    for (const LoadOption& option : note.load) {
      if (option.value) add_options(*option.value);
    }
  }

  void add_options(const RuleModifiers& modifiers) {
    if (modifiers.when) add_options(*modifiers.when);
    for (const LoopRule& loop : modifiers.loops) add_options(loop.end);
  }

  // Which options the family knows: those that its conditions and dims use.
  void options() {
    for (const auto& [name, expr] : table_.dims) add_options(expr);
    for (const DropRule& drop : table_.drops) add_options(drop.modifiers);
    for (const Scheme& scheme : table_.schemes) {
      for (const Requirement& item : scheme.require) add_options(item.expr);
      for (const Note& note : scheme.notes) add_options(note);
      if (scheme.model_names.when) add_options(*scheme.model_names.when);
      for (const Rule& rule : scheme.global) add_options(rule.modifiers);
      for (const FillRule& fill : scheme.fills) add_options(fill.modifiers);
      for (const DropRule& drop : scheme.drops) add_options(drop.modifiers);
      for (const LayerGroup& group : scheme.groups) {
        for (const Rule& rule : group.rules) add_options(rule.modifiers);
        for (const FillRule& fill : group.fills) add_options(fill.modifiers);
      }
    }
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

MappingTable load_table(const FamilyFile& file) {
  const ExpandedFamily family = expand_family(file);
  return TableLoader(family, file).load();
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
