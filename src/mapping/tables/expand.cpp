// Expands a family file, by inserting what it uses (mappings/README.md, "Shared parts"):
// 1. Reads every `use` of the family, its schemes, their groups and local parts.
// 2. Adds dims, drops and decoders of all used parts to the family's own.
// 3. In each scheme, adds the defaults of common.json, and the parts' rules before its own.
// 4. In each layer group, adds the parts' rules before its own. Local parts stay, expanded.

#include "mapping/tables/expand.h"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/expand_rules.h"
#include "mapping/tables/expand_sizes.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kCommonPath = "mappings/common.json";

// Builds a list of an expanded family.
class ListWriter {
 public:
  ListWriter(ExpandedFamily& out, std::string path) : out_(out), path_(std::move(path)) {}

  void add(Json json, const JsonAt& from, const std::string& used_by, bool exact) {
    out_.origins[fmt::format("{}/{}", path_, list_.size())] = {from.pointer(), used_by, exact};
    list_.push_back(std::move(json));
  }
  void add_rules(const JsonAt& from, ListKind kind, const PartUse* use, const RuleWords& words) {
    for (const JsonAt& at : from.elements()) {
      if (at.json().is_object() && use == nullptr) {
        const PartUse block = read_block(at);
        add_rules(at.at("rules"), kind, &block, words);
        continue;
      }
      std::optional<ExpandedRule> rule = expand_rule(at, kind, use, words);
      if (rule) add(std::move(rule->json), at, use != nullptr ? use->entry : "", rule->exact);
    }
  }
  bool empty() const { return list_.empty(); }
  Json take() && { return Json(std::move(list_)); }

 private:
  ExpandedFamily& out_;
  std::string path_;
  Json::Array list_;
};

class Expander {
 public:
  explicit Expander(const FamilyFile& file)
      : family_(parse_json(file.text, file.path)),
        root_(family_, std::string(file.path) + "#"),
        common_(common_mappings(), std::string(kCommonPath) + "#"),
        parts_(common_.at("parts")) {}

  ExpandedFamily expand() && {
    root_.check_keys(Block::family);
    words_.sources = common_.json().find("sources");
    collect();
    out_.json = Json{Json::Object{}};
    for (const std::string& key : root_.keys()) {
      if (key == "use" || key == "tensors" || key == "schemes") continue;
      out_.json[key] = root_.at(key).json();
    }
    if (const Json* source = family_.find("source"))
      out_.json["source"] = expand_source(*source, words_.sources);
    if (root_.has("sizes")) out_.json["sizes"] = expand_sizes(root_.at("sizes"));
    dims();
    shared_list("drop");
    shared_list("decode");
    const JsonAt schemes = root_.at("schemes");
    out_.json["schemes"] = Json{Json::Object{}};
    for (const std::string& name : schemes.keys()) scheme(name, schemes.at(name));
    return std::move(out_);
  }

 private:
  // -- which parts are used

  void collect() {
    if (root_.has("tensors")) {
      const JsonAt tensors = root_.at("tensors");
      for (const std::string& name : tensors.keys()) own_tensors_[name] = tensors.at(name).text();
    }
    collect_uses(root_, nullptr);
    const JsonAt schemes = root_.at("schemes");
    for (const std::string& name : schemes.keys()) {
      const JsonAt scheme = schemes.at(name);
      if (!scheme.json().is_object()) continue;
      collect_uses(scheme, nullptr);
      const JsonAt* local = nullptr;
      std::optional<JsonAt> parts;
      if (scheme.has("parts")) local = &parts.emplace(scheme.at("parts"));
      for (const std::string& key : scheme.keys()) collect_uses(scheme.at(key), local);
      if (local == nullptr) continue;
      for (const std::string& key : local->keys()) collect_uses(local->at(key), nullptr);
    }
  }

  static bool is_local(const JsonAt& entry, const JsonAt* local) {
    return local != nullptr && entry.json().is_string() && local->has(entry.text());
  }

  static std::vector<JsonAt> entries_of(const JsonAt& at) {
    if (!at.json().is_object() || !at.has("use")) return {};
    const JsonAt use = at.at("use");
    if (use.json().is_array()) return use.elements();
    return {use};
  }

  void collect_uses(const JsonAt& at, const JsonAt* local) {
    for (const JsonAt& entry : entries_of(at)) {
      if (is_local(entry, local)) continue;
      PartUse use = read_use(entry, parts_);
      if (!used_.insert(use.name).second) continue;
      for (auto& [name, side] : part_tensors(use)) all_tensors_.emplace(name, side);
      uses_.push_back(std::move(use));
    }
  }

  // -- what all schemes share

  void dims() {
    Json& out = out_.json["dims"];
    out.object();
    for (const PartUse& use : uses_) {
      if (!use.part->has("dims")) continue;
      const JsonAt dims = use.part->at("dims");
      for (const std::string& name : dims.keys()) {
        if (out.find(name) != nullptr) continue;
        out[name] = dims.at(name).json();
        out_.origins["/dims/" + name] = {dims.at(name).pointer(), use.entry, true};
      }
    }
  }

  // Adds drops or decoders: those of the parts, then the family's own.
  void shared_list(const std::string& key) {
    ListWriter list(out_, "/" + key);
    for (const PartUse& use : uses_) {
      if (!use.part->has(key)) continue;
      const JsonAt from = use.part->at(key);
      if (key == "drop") {
        list.add_rules(from, ListKind::drop, &use, words_of(&use));
      } else {
        for (const JsonAt& at : from.elements()) list.add(at.json(), at, use.entry, true);
      }
    }
    if (root_.has(key)) {
      const JsonAt from = root_.at(key);
      if (key == "drop") {
        list.add_rules(from, ListKind::drop, nullptr, words_of(nullptr));
      } else {
        for (const JsonAt& at : from.elements()) list.add(at.json(), at, "", true);
      }
    }
    if (!list.empty()) out_.json[key] = std::move(list).take();
  }

  RuleWords words_of(const PartUse* use) {
    RuleWords out = words_;
    out.tensors.clear();
    if (use != nullptr) out.tensors.push_back(&tensor_sets_.emplace_back(part_tensors(*use)));
    out.tensors.push_back(&own_tensors_);
    out.tensors.push_back(&all_tensors_);
    return out;
  }

  // -- a scheme

  void scheme(const std::string& name, const JsonAt& at) {
    if (!at.json().is_object()) at.fail("this must be an object");
    scheme_name_ = name;
    path_ = "/schemes/" + name;
    Json& out = out_.json["schemes"][name];
    out = at.json();
    out.object().erase("use");
    if (const Json* source = at.json().find("source"))
      out["source"] = expand_source(*source, words_.sources);
    defaults(name, at, out);
    std::vector<PartUse> uses;
    for (const JsonAt& entry : entries_of(at)) uses.push_back(read_use(entry, parts_));
    for (const std::string_view key : {"require", "notes", "warnings"})
      conditions(std::string(key), at, out);
    settings(out);
    rules("rules", "global", ListKind::rules, uses, at, path_, out);
    rules("fill", "fill", ListKind::fill, uses, at, path_, out);
    rules("drop", "drop", ListKind::drop, uses_, at, path_, out);
    for (const std::string& key : at.keys()) {
      if (key == "parts") local_parts(at.at(key), out[key]);
      if (is_group(key, at)) group(key, at, out[key]);
    }
  }

  static bool is_group(const std::string& key, const JsonAt& scheme) {
    const auto known = block_keys(Block::scheme);
    return scheme.at(key).json().is_object() &&
           std::ranges::none_of(known, [&](const BlockKey& k) { return k.name == key; });
  }

  // Adds the defaults of common.json for every family with this scheme.
  void defaults(const std::string& name, const JsonAt& at, Json& out) {
    words_.modifiers.clear();
    if (at.has("modifiers")) {
      const JsonAt own = at.at("modifiers");
      for (const std::string& key : own.keys()) words_.modifiers.emplace(key, own.at(key));
      out.object().erase("modifiers");
    }
    axes_of(at, at.pointer(), "", out);
    for (const PartUse& use : uses_) {
      if (const auto mine = scheme_part(use)) axes_of(*mine, mine->pointer(), use.entry, out);
    }
    const JsonAt schemes = common_.at("schemes");
    if (!schemes.has(name)) return;
    const JsonAt common = schemes.at(name);
    common.check_keys(Block::common_scheme);
    axes_of(common, common.pointer(), "", out);
    for (const std::string& key : common.keys()) {
      if (key == "modifiers") {
        const JsonAt shared = common.at(key);
        for (const std::string& word : shared.keys())
          words_.modifiers.emplace(word, shared.at(word));
      } else if (key != "axes" && key != "loader" && key != "about" && out.find(key) == nullptr) {
        out[key] = common.at(key).json();
        out_.origins[path_ + "/" + key] = {common.at(key).pointer(), {}, true};
      }
    }
  }

  // Adds axes that don't have names yet.
  void axes_of(const JsonAt& from, const std::string& pointer, const std::string& used_by,
               Json& out) {
    if (!from.has("axes")) return;
    const JsonAt axes = from.at("axes");
    for (const std::string& dim : axes.keys()) {
      if (out["axes"].find(dim) == nullptr) out["axes"][dim] = axes.at(dim).json();
      const std::string member = "/axes/" + dim;
      out_.origins.try_emplace(path_ + member, Origin{pointer + member, used_by, true});
    }
  }

  // Returns the part's section for this scheme.
  std::optional<JsonAt> scheme_part(const PartUse& use) const {
    if (!use.part->has("schemes")) return std::nullopt;
    const JsonAt schemes = use.part->at("schemes");
    if (!schemes.has(scheme_name_)) return std::nullopt;
    JsonAt out = schemes.at(scheme_name_);
    out.check_keys(Block::part_scheme);
    return out;
  }

  // Adds requirements, notes or warnings: those of the parts, then the scheme's own. In a part's
  // text, `{family}` is the family's name.
  void conditions(const std::string& key, const JsonAt& at, Json& out) {
    ListWriter list(out_, path_ + "/" + key);
    for (const PartUse& use : uses_) {
      const auto mine = scheme_part(use);
      if (!mine || !mine->has(key)) continue;
      for (const JsonAt& item : mine->at(key).elements())
        list.add(with_family(item.json()), item, use.entry, true);
    }
    if (at.has(key)) {
      for (const JsonAt& item : at.at(key).elements()) list.add(item.json(), item, "", true);
    }
    if (!list.empty()) out[key] = std::move(list).take();
  }

  // Adds the loader's settings. The scheme's own override those of parts; null removes one.
  void settings(Json& out) {
    for (const PartUse& use : uses_) {
      const auto mine = scheme_part(use);
      if (!mine || !mine->has("settings")) continue;
      const JsonAt from = mine->at("settings");
      for (const std::string& name : from.keys()) {
        if (out["settings"].find(name) != nullptr) continue;
        out["settings"][name] = from.at(name).json();
        out_.origins[path_ + "/settings/" + name] = {from.at(name).pointer(), use.entry, true};
      }
    }
  }

  Json with_family(const Json& item) const {
    constexpr std::string_view kWord = "{family}";
    if (!item.is_array()) return item;
    Json out = item;
    for (Json& text : out.array()) {
      if (!text.is_string()) continue;
      std::string said = text.as_string();
      const std::size_t found = said.find(kWord);
      if (found != std::string::npos) said.replace(found, kWord.size(), root_.at("family").text());
      text = said;
    }
    return out;
  }

  // Adds the rules in `from` of the parts, then the block's own rules in `to`.
  void rules(const std::string& from, const std::string& to, ListKind kind,
             const std::vector<PartUse>& uses, const JsonAt& at, const std::string& path,
             Json& out) {
    ListWriter list(out_, path + "/" + to);
    for (const PartUse& use : uses) part_rules(from, kind, use, list);
    if (at.has(to)) list.add_rules(at.at(to), kind, nullptr, words_of(nullptr));
    if (!list.empty()) out[to] = std::move(list).take();
  }

  void part_rules(const std::string& from, ListKind kind, const PartUse& use, ListWriter& list) {
    const auto mine = scheme_part(use);
    if (!mine || !mine->has(from)) return;
    PartUse here = use;
    if (!here.to && mine->has("to")) here.to = mine->at("to").text();
    list.add_rules(mine->at(from), kind, &here, words_of(&here));
  }

  // A local part is a list of rules, or an object with `use` and `rules`. It becomes a list.
  void local_parts(const JsonAt& at, Json& out) {
    for (const std::string& name : at.keys()) {
      const JsonAt part = at.at(name);
      ListWriter list(out_, path_ + "/parts/" + name);
      if (part.json().is_object()) {
        part.check_keys(Block::local_part);
        for (const JsonAt& entry : entries_of(part))
          part_rules("rules", ListKind::rules, read_use(entry, parts_), list);
        if (part.has("rules"))
          list.add_rules(part.at("rules"), ListKind::rules, nullptr, words_of(nullptr));
      } else {
        list.add_rules(part, ListKind::rules, nullptr, words_of(nullptr));
      }
      out[name] = std::move(list).take();
    }
  }

  void group(const std::string& name, const JsonAt& scheme, Json& out) {
    const JsonAt at = scheme.at(name);
    const std::string path = path_ + "/" + name;
    std::optional<JsonAt> parts;
    if (scheme.has("parts")) parts.emplace(scheme.at("parts"));
    std::vector<PartUse> uses;
    Json::Array local;
    for (const JsonAt& entry : entries_of(at)) {
      if (is_local(entry, parts ? &*parts : nullptr)) {
        local.push_back(entry.json());
      } else {
        uses.push_back(read_use(entry, parts_));
      }
    }
    out.object().erase("use");
    if (!local.empty()) out["use"] = std::move(local);
    if (const Json* source = at.json().find("source"))
      out["source"] = expand_source(*source, words_.sources);
    for (const PartUse& use : uses) places(use, path, out);
    one_prefix(at, path, out);
    rules("rules", "rules", ListKind::rules, uses, at, path, out);
    rules("fill", "fill", ListKind::fill, uses, at, path, out);
  }

  // With `stacked: true`, the separate prefix is for both, and no axis is stacked.
  void one_prefix(const JsonAt& at, const std::string& path, Json& out) {
    if (!at.has("stacked") || !at.at("stacked").json().is_bool()) return;
    const JsonAt stacked = at.at("stacked");
    if (!stacked.boolean() || !at.has("separate"))
      stacked.fail("stacked can be true only with a separate prefix, which both then use");
    out["stacked"] = Json::Array{at.at("separate").json()};
    out_.origins[path + "/stacked"] = {stacked.pointer(), {}, false};
  }

  // Adds loops and prefixes of a part to a group without its own.
  void places(const PartUse& use, const std::string& path, Json& out) {
    const auto mine = scheme_part(use);
    if (!mine) return;
    for (const std::string_view key : {"for", "hf", "stacked", "separate"}) {
      if (!mine->has(key) || out.find(key) != nullptr) continue;
      out[key] = mine->at(key).json();
      out_.origins[fmt::format("{}/{}", path, key)] = {mine->at(key).pointer(), use.entry, true};
    }
  }

  Json family_;
  JsonAt root_;
  JsonAt common_;
  JsonAt parts_;
  RuleWords words_;
  TensorSides own_tensors_;
  TensorSides all_tensors_;
  std::deque<TensorSides> tensor_sets_;  // of uses whose rules are expanded
  std::set<std::string> used_;
  std::vector<PartUse> uses_;  // the first use of each part
  std::string scheme_name_;
  std::string path_;  // of the scheme, in the expanded family
  ExpandedFamily out_;
};

}  // namespace

const Json& common_mappings() {
  static const Json kCommon = [] {
    Json common = parse_json(embedded_common(), kCommonPath);
    JsonAt(common, std::string(kCommonPath) + "#").check_keys(Block::common);
    return common;
  }();
  return kCommon;
}

ExpandedFamily expand_family(const FamilyFile& file) { return Expander(file).expand(); }

}  // namespace hfshard
