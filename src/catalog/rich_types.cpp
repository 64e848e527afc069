#include "catalog/rich_types.h"

#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kName = "value_metadata_tree";  // in errors

// The members of an object that stands for a node, and their values.
constexpr std::string_view kCategory = "category";
constexpr std::string_view kClass = "clazz";
constexpr std::string_view kEntries = "entries";
constexpr std::string_view kKey = "key";
constexpr std::string_view kValue = "value";
constexpr std::string_view kCustom = "custom";
constexpr std::string_view kTuple = "tuple";
constexpr std::string_view kNamedTuple = "namedtuple";

enum class Kind : std::uint8_t { leaf, list, tuple, named_tuple, dict };

struct Child {
  TreeKey key;
  const Json* value;
};

struct Node {
  Kind kind = Kind::leaf;
  std::vector<Child> children;
};

bool has_text(const Json& node, std::string_view member, std::string_view text) {
  const Json* value = node.find(member);
  return value != nullptr && value->is_string() && value->as_string() == text;
}

void add_elements(const Json::Array& elements, Node& out) {
  for (std::size_t i = 0; i < elements.size(); ++i)
    out.children.push_back({{std::to_string(i), true}, &elements[i]});
}

Node node_of(const Json& json) {
  Node out;
  if (json.is_array()) {
    out.kind = Kind::list;
    add_elements(json.as_array(), out);
  } else if (has_text(json, kCategory, kNamedTuple)) {
    out.kind = Kind::named_tuple;
    for (const Json& entry : json.at(kEntries).as_array())
      out.children.push_back({{entry.at(kKey).as_string(), false}, &entry.at(kValue)});
  } else if (has_text(json, kCategory, kCustom)) {
    if (!has_text(json, kClass, kTuple)) return out;
    out.kind = Kind::tuple;
    add_elements(json.at(kEntries).as_array(), out);
  } else if (json.is_object()) {
    out.kind = Kind::dict;
    for (const auto& [key, value] : json.as_object())
      out.children.push_back({{key, false}, &value});
  }
  return out;
}

// A child that is left, with its type changed as needed.
using Kept = std::pair<TreeKey, Json>;

bool has_gap(const std::vector<Kept>& kept) {
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].first.text != std::to_string(i)) return true;
  }
  return false;
}

// `node` with only these children.
Json rebuilt(const Json& node, Kind kind, std::vector<Kept>&& kept) {
  const bool is_sequence = kind == Kind::list || kind == Kind::tuple;
  if (kind == Kind::dict || (is_sequence && has_gap(kept))) {
    Json::Object out;
    for (auto& [key, value] : kept) out.emplace(key.text, std::move(value));
    return out;
  }
  Json::Array elements;
  for (auto& [key, value] : kept) {
    if (kind != Kind::named_tuple) {
      elements.push_back(std::move(value));
      continue;
    }
    Json entry;
    entry[kKey] = key.text;
    entry[kValue] = std::move(value);
    elements.push_back(std::move(entry));
  }
  if (kind == Kind::list) return elements;
  Json out = node;
  out[kEntries] = std::move(elements);
  return out;
}

std::optional<Json> selected(const Json& json, std::vector<TreeKey>& keys,
                             const std::function<bool(const std::vector<TreeKey>&)>& takes) {
  const Node node = node_of(json);
  if (node.children.empty()) return takes(keys) ? std::optional(json) : std::nullopt;
  std::vector<Kept> kept;
  for (const Child& child : node.children) {
    keys.push_back(child.key);
    if (auto value = selected(*child.value, keys, takes))
      kept.emplace_back(child.key, *std::move(value));
    keys.pop_back();
  }
  if (kept.empty()) return std::nullopt;
  return rebuilt(json, node.kind, std::move(kept));
}

// Finds the node at a dotted path, whose keys may contain dots themselves; null without one.
const Json* node_at(const Json& json, std::string_view path) {
  for (const Child& child : node_of(json).children) {
    const std::string& key = child.key.text;
    if (path == key) return child.value;
    if (!path.starts_with(key) || path[key.size()] != '.') continue;
    if (const Json* found = node_at(*child.value, path.substr(key.size() + 1))) return found;
  }
  return nullptr;
}

std::string text_or_empty(const Json& node, std::string_view member) {
  const Json* value = node.find(member);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

void add_nodes(const Json& json, const std::string& path, const std::string& name,
               std::map<std::string, RichNode>& out) {
  const Node node = node_of(json);
  if (node.kind == Kind::tuple) out.emplace(name, RichNode{path, "a tuple"});
  if (node.kind == Kind::named_tuple) {
    out.emplace(name,
                RichNode{path, fmt::format("a named tuple {}.{}", text_or_empty(json, "module"),
                                           text_or_empty(json, kClass))});
  }
  for (const Child& child : node.children) {
    std::string below = name;
    append_key(child.key, below);
    add_nodes(*child.value, path.empty() ? child.key.text : path + "." + child.key.text, below,
              out);
  }
}

}  // namespace

std::string rich_types_below(const std::string& rich, std::string_view root) {
  if (rich.empty()) return {};
  const Json json = parse_json(rich, kName);
  const Json* node = node_at(json, root);
  return node == nullptr || node_of(*node).kind == Kind::leaf ? "" : dump_json(*node);
}

std::string select_rich_types(const std::string& rich,
                              const std::function<bool(const std::vector<TreeKey>&)>& takes) {
  if (rich.empty()) return {};
  std::vector<TreeKey> keys;
  const auto out = selected(parse_json(rich, kName), keys, takes);
  return out ? dump_json(*out) : "";
}

std::map<std::string, RichNode> rich_nodes(const std::string& rich) {
  std::map<std::string, RichNode> out;
  if (rich.empty()) return out;
  try {
    add_nodes(parse_json(rich, kName), "", "", out);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    out = {{"", {"", fmt::format("node types that can't be read ({})", error.sentence())}}};
  }
  return out;
}

}  // namespace hfshard
