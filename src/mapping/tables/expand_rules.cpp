// Writes rules in the loader's form. Replaces the names of tensors and modifiers with their
// definitions, and applies the arguments of a part's use.

#include "mapping/tables/expand_rules.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

[[noreturn]] void fail_unknown(const JsonAt& at, std::string_view what, std::string_view name,
                               const std::vector<std::string>& known) {
  Error error(ErrorCode::bad_input, fmt::format("no {} has the name {}", what, quote(name)));
  const std::vector<std::string> near = near_names(name, known, 3);
  if (!near.empty()) error.hint("did you mean " + join(near, " or ") + "?");
  throw error.by_rule(at.pointer());
}

// Returns the start of the pattern in `name [pattern]`, or npos.
std::size_t pattern_begin(std::string_view side) { return side.find(" ["); }

// Renames dims of a side: in its pattern, and in the braces of its name.
std::string renamed_side(std::string_view side, const DimNames& dims) {
  if (dims.empty()) return std::string(side);
  const std::size_t pattern = std::min(pattern_begin(side), side.size());
  std::string out;
  std::size_t at = 0;
  while (at < pattern) {
    const std::size_t open = std::min(side.find('{', at), pattern);
    const std::size_t close = std::min(side.find('}', open), pattern);
    out += side.substr(at, open - at);
    out += renamed(side.substr(open, close - open), dims);
    at = close;
    if (open == close) break;
  }
  return out + renamed(side.substr(at), dims);
}

// Replaces a tensor's name in a `source side`. A pattern after the name overrides the tensor's.
std::string resolved(const JsonAt& at, const RuleWords& words, const DimNames& dims) {
  const std::string& text = at.text();
  const std::size_t bracket = pattern_begin(text);
  const std::string_view name = std::string_view(text).substr(0, bracket);
  for (const TensorSides* sides : words.tensors) {
    const auto found = sides->find(name);
    if (found == sides->end()) continue;
    if (bracket == std::string::npos) return found->second;
    return found->second.substr(0, pattern_begin(found->second)) +
           renamed(std::string_view(text).substr(bracket), dims);
  }
  // The side is written in full. The loader checks its form.
  if (text.find('[') != std::string::npos) return renamed_side(text, dims);
  std::vector<std::string> known;
  for (const TensorSides* sides : words.tensors) {
    for (const auto& [tensor, side] : *sides) known.push_back(tensor);
  }
  fail_unknown(at, "tensor", name, known);
}

// Merges several modifiers: joins axes, requires all conditions, and otherwise takes the last.
class Modifiers {
 public:
  explicit Modifiers(const RuleWords& words) : words_(words) {}

  void add(const JsonAt& at, const DimNames& dims) {
    if (at.json().is_string()) {
      const auto found = words_.modifiers.find(at.text());
      if (found == words_.modifiers.end()) {
        std::vector<std::string> known;
        for (const auto& [name, modifier] : words_.modifiers) known.push_back(name);
        fail_unknown(at, "modifier", at.text(), known);
      }
      add(found->second, dims);
      return;
    }
    for (const std::string& key : at.keys()) member(key, at.at(key), dims);
  }

  void condition(const std::string& text) {
    if (text.empty()) return;
    const Json* old = all_.find("when");
    if (old == nullptr) {
      all_["when"] = text;
    } else {
      all_["when"] =
          fmt::format("({}) && ({})", text, old->is_string() ? old->as_string() : dump_json(*old));
    }
  }

  bool empty() const { return all_.as_object().empty(); }
  Json take() && { return std::move(all_); }

 private:
  static Json renamed_values(const Json& json, const DimNames& dims) {
    if (json.is_string()) return renamed(json.as_string(), dims);
    if (!json.is_object()) return json;
    Json out = json;
    for (auto& [key, value] : out.object()) {
      if (key != "const_dtype") value = renamed_values(value, dims);
    }
    return out;
  }

  void member(const std::string& key, const JsonAt& at, const DimNames& dims) {
    if (key == "when") {
      condition(at.json().is_string() ? renamed(at.text(), dims) : dump_json(at.json()));
    } else if (key == "axes") {
      for (const std::string& dim : at.keys()) all_["axes"][renamed(dim, dims)] = at.at(dim).json();
    } else if (key == "source") {
      all_["source"] = expand_source(at.json(), words_.sources);
    } else if (key == "for" || key == "value") {
      all_[key] = renamed_values(at.json(), dims);
    } else if (key == "repeat") {
      Json::Array out;
      for (const std::string& dim : at.texts()) out.emplace_back(renamed(dim, dims));
      all_[key] = std::move(out);
    } else if (key == "collection") {
      all_[key] = renamed_side(at.text(), dims);
    } else {
      all_[key] = at.json();
    }
  }

  const RuleWords& words_;
  Json all_{Json::Object{}};
};

bool leaves_out(const JsonAt& source, const PartUse& use) {
  if (use.only.empty()) return false;
  const std::string& text = source.text();
  const std::string name = text.substr(0, pattern_begin(text));
  return std::ranges::find(use.only, name) == use.only.end();
}

std::string target_side(const JsonAt& at, const PartUse* use) {
  if (use == nullptr) return at.text();
  return use->to.value_or("") + renamed_side(at.text(), use->dims);
}

// Returns one modifier or several as a list.
std::vector<JsonAt> list_of(const JsonAt& at) {
  return at.json().is_array() ? at.elements() : std::vector<JsonAt>{at};
}

}  // namespace

std::string renamed(std::string_view text, const DimNames& dims) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t stop = i;
    while (stop < text.size() && is_word(text[stop])) ++stop;
    if (stop == i) {
      out += text[i++];
      continue;
    }
    const std::string_view word = text.substr(i, stop - i);
    const bool in_path = (i > 0 && text[i - 1] == '.') || (stop < text.size() && text[stop] == '.');
    const auto found = in_path ? dims.end() : dims.find(word);
    out += found == dims.end() ? word : std::string_view(found->second);
    i = stop;
  }
  return out;
}

PartUse read_use(const JsonAt& at, const JsonAt& parts) {
  PartUse out;
  out.entry = at.pointer();
  const bool plain = at.json().is_string();
  if (!plain) at.check_keys(Block::use);
  const JsonAt name = plain ? at : at.at("part");
  out.name = name.text();
  if (!parts.has(out.name)) fail_unknown(name, "part", out.name, parts.keys());
  out.part = parts.at(out.name);
  out.part->check_keys(Block::part);
  if (out.part->has("at")) out.at = out.part->at("at").text();
  if (plain) return out;
  if (at.has("at")) out.at = at.at("at").text();
  if (at.has("to")) out.to = at.at("to").text();
  if (at.has("when")) out.when = at.at("when").expr().text();
  if (at.has("only")) out.only = at.at("only").texts();
  if (at.has("dims")) {
    for (const std::string& dim : at.at("dims").keys())
      out.dims.emplace(dim, at.at("dims").at(dim).text());
  }
  if (at.has("with")) out.with = list_of(at.at("with"));
  const TensorSides tensors = part_tensors(out);
  for (const std::string& tensor : out.only) {
    std::vector<std::string> known;
    for (const auto& [key, side] : tensors) known.push_back(key);
    if (!tensors.contains(tensor)) fail_unknown(at.at("only"), "tensor", tensor, known);
  }
  return out;
}

PartUse read_block(const JsonAt& at) {
  at.check_keys(Block::rule_block);
  PartUse out;
  if (at.has("to")) out.to = at.at("to").text();
  if (at.has("with")) out.with = list_of(at.at("with"));
  return out;
}

TensorSides part_tensors(const PartUse& use) {
  TensorSides out;
  if (!use.part->has("tensors")) return out;
  const JsonAt tensors = use.part->at("tensors");
  for (const std::string& name : tensors.keys())
    out.emplace(name, use.at + renamed_side(tensors.at(name).text(), use.dims));
  return out;
}

std::optional<ExpandedRule> expand_rule(const JsonAt& at, ListKind kind, const PartUse* use,
                                        const RuleWords& words) {
  static const DimNames kNoNames;
  const DimNames& dims = use != nullptr ? use->dims : kNoNames;
  const std::size_t sides = kind == ListKind::drop ? 1 : 2;
  if (at.size() < sides) return ExpandedRule{at.json(), true};  // the loader reports it
  if (use != nullptr && kind != ListKind::fill && leaves_out(at.at(std::size_t{0}), *use))
    return std::nullopt;
  Json::Array out;
  bool exact = use == nullptr;
  if (kind == ListKind::fill) {
    out.push_back(at.at(std::size_t{0}).json());
  } else {
    std::string source = resolved(at.at(std::size_t{0}), words, dims);
    exact = exact && source == at.at(std::size_t{0}).text();
    out.emplace_back(std::move(source));
  }
  if (kind != ListKind::drop) out.emplace_back(target_side(at.at(std::size_t{1}), use));
  Modifiers modifiers(words);
  if (use != nullptr && kind == ListKind::rules) {
    for (const JsonAt& with : use->with) modifiers.add(with, kNoNames);
  }
  for (std::size_t i = sides; i < at.size(); ++i) modifiers.add(at.at(i), dims);
  if (use != nullptr) modifiers.condition(use->when);
  exact =
      exact && (at.size() == sides || (at.size() == sides + 1 && at.at(sides).json().is_object()));
  if (!modifiers.empty() || at.size() > sides) out.push_back(std::move(modifiers).take());
  return ExpandedRule{Json(std::move(out)), exact};
}

Json expand_source(const Json& source, const Json* abbreviations) {
  if (source.is_array()) {
    Json::Array out;
    for (const Json& one : source.as_array()) out.push_back(expand_source(one, abbreviations));
    return out;
  }
  if (!source.is_string() || abbreviations == nullptr) return source;
  const std::string& text = source.as_string();
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return source;
  const Json* whole = abbreviations->find(text.substr(0, colon));
  return whole == nullptr ? source : Json(whole->as_string() + text.substr(colon + 1));
}

}  // namespace hfshard
