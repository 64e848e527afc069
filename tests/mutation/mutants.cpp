#include "mutation/mutants.h"

#include <array>

#include <fmt/format.h>

#include "mutation/collector.h"
#include "mutation/pattern_text.h"

namespace hfshard::mutation {
namespace {

constexpr std::array<std::string_view, kKinds> kKindNames = {
    "swap two dims",     "transpose",      "another dim",     "swap two names",
    "swap gate/up",      "drop a rule",    "change an index", "change a window",
    "shift the stack",   "reorder a loop", "change a scale",  "change a dtype floor",
    "change a condition"};

void apply(Json& root, const Edit& edit) {
  Json* at = &root;
  for (std::size_t i = 0; i + 1 < edit.at.size(); ++i) {
    at = at->is_array() ? &at->array()[std::stoull(edit.at[i])] : &(*at)[edit.at[i]];
  }
  const std::string& key = edit.at.back();
  if (!at->is_array()) {
    if (edit.value) {
      (*at)[key] = *edit.value;
    } else {
      at->object().erase(key);
    }
    return;
  }
  Json::Array& array = at->array();
  const auto index = static_cast<std::ptrdiff_t>(std::stoll(key));
  if (!edit.value) {
    array.erase(array.begin() + index);
  } else if (index == std::ssize(array)) {
    array.push_back(*edit.value);
  } else {
    array[static_cast<std::size_t>(index)] = *edit.value;
  }
}

// Mutates prefixes, loops and stack indices of a layer group.
void add_group_mutants(Collector& out, const Path& group) {
  const Json& json = value_at(out.family(), group);
  std::vector<LoopText> loops;
  for (const auto& [name, range] : json.at("for").as_object()) {
    loops.push_back(parse_loop(name, range));
    add_loop_mutants(out, group, below(below(group, "for"), name), loops.back());
  }
  for (const std::string_view key : {"hf", "separate"}) {
    const Json* name = json.find(key);
    if (name == nullptr) continue;
    const Path at = below(group, std::string(key));
    add_name_mutants(out, group, at, name->as_string());
    for (const Span& span : braces_of(name->as_string())) {
      for (const LoopText& loop : loops)
        add_order_mutants(out, Kind::stack_index, group, at, name->as_string(), span.begin,
                          span.end, loop);
    }
  }
  const Json* stacked = json.find("stacked");
  if (stacked == nullptr) return;
  for (std::size_t i = 0; i < stacked->as_array().size(); ++i) {
    const Json& part = stacked->as_array()[i];
    const std::string text = part.is_string() ? part.as_string() : dump_json(part);
    const Path at = below(below(group, "stacked"), i);
    if (i == 0) {
      add_name_mutants(out, group, at, text);
      continue;
    }
    add_index_mutants(out, Kind::stack_index, group, at, text, 0, text.size());
    for (const LoopText& loop : loops)
      add_order_mutants(out, Kind::stack_index, group, at, text, 0, text.size(), loop);
  }
}

void add_decode_mutants(Collector& out, const Path& rule) {
  const Json& json = value_at(out.family(), rule);
  out.remove(Kind::drop_rule, rule, rule);
  out.set(Kind::swap_names, rule, below(rule, "scale"), json.at("scale").as_string() + "_other");
  if (const Json* block = json.find("block")) {
    const Json::Array& extents = block->as_array();
    out.set(Kind::scale, rule, below(rule, "block"), Json(Json::Array{extents[1], extents[0]}));
  }
  if (const Json* when = json.find("when")) {
    out.set(Kind::condition, rule, below(rule, "when"), fmt::format("!({})", when->as_string()));
    out.remove(Kind::condition, rule, below(rule, "when"));
  }
}

void add_lists(Collector& out, const Path& at, const Json& json) {
  if (json.find("global") != nullptr)
    add_list_mutants(out, below(at, "global"), RuleForm::transfer);
  if (json.find("rules") != nullptr) add_list_mutants(out, below(at, "rules"), RuleForm::transfer);
  if (json.find("fill") != nullptr) add_list_mutants(out, below(at, "fill"), RuleForm::fill);
  if (json.find("drop") != nullptr) add_list_mutants(out, below(at, "drop"), RuleForm::drop);
}

void add_scheme_mutants(Collector& out, const Path& scheme) {
  const Json& json = value_at(out.family(), scheme);
  add_lists(out, scheme, json);
  if (const Json* parts = json.find("parts")) {
    for (const auto& [name, rules] : parts->as_object())
      add_list_mutants(out, below(below(scheme, "parts"), name), RuleForm::transfer);
  }
  for (const auto& [name, group] : json.as_object()) {
    if (!group.is_object() || group.find("for") == nullptr) continue;
    const Path at = below(scheme, name);
    add_lists(out, at, group);
    add_group_mutants(out, at);
    const Json* use = group.find("use");
    const std::size_t used = use != nullptr && use->is_array() ? use->as_array().size() : 0;
    for (std::size_t i = 0; i < used; ++i)
      out.remove(Kind::drop_rule, at, below(below(at, "use"), i));
  }
}

}  // namespace

std::string_view to_string(Kind kind) noexcept {
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::vector<Mutant> make_mutants(const Json& family) {
  Collector out(family);
  add_lists(out, {}, family);
  if (const Json* decode = family.find("decode")) {
    for (std::size_t i = 0; i < decode->as_array().size(); ++i)
      add_decode_mutants(out, {"decode", std::to_string(i)});
  }
  for (const auto& [name, scheme] : family.at("schemes").as_object())
    add_scheme_mutants(out, {"schemes", name});
  return std::move(out).take();
}

std::string text_of(const Json& family, const Mutant& mutant) {
  Json changed = family;
  for (const Edit& edit : mutant.edits) apply(changed, edit);
  return dump_json(changed);
}

}  // namespace hfshard::mutation
