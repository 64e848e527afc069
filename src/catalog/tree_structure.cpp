#include "catalog/tree_structure.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/heap.h"
#include "base/text.h"
#include "catalog/rich_types.h"

namespace hfshard {
namespace {

constexpr std::string_view kOurs = "hfshard";  // custom metadata of this program
// Members of a step's metadata that a run or its user wrote, and what they are called. Source:
// google/orbax checkpoint/orbax/checkpoint/_src/metadata/checkpoint.py (StepMetadata).
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOfStep = {
    {{"custom_metadata", "custom metadata of the step"}, {"metrics", "metrics of the step"}}};

std::vector<std::uint32_t> by_path(const TreeStructure& tree) {
  std::vector<std::uint32_t> out(tree.entries.size());
  std::iota(out.begin(), out.end(), 0U);
  std::ranges::sort(out, {}, [&](std::uint32_t i) {
    return std::pair(std::string_view(tree.entries[i].path), tree.entries[i].ends.size());
  });
  return out;
}

// The type that Orbax restores an entry as.
std::string_view restored_as(const TreeEntry& entry) {
  return entry.type == "jax.Array" ? std::string_view("np.ndarray") : std::string_view(entry.type);
}

// Writes a path as Python indexes it: ['a.b'][0].
std::string words_for(const std::vector<TreeKey>& keys) {
  std::string out;
  for (const TreeKey& key : keys)
    out += key.is_index ? fmt::format("[{}]", key.text) : fmt::format("['{}']", key.text);
  return out.empty() ? "the tree itself" : out;
}

Json without_ours(const Json& attributes) {
  Json out = attributes.is_null() ? Json(Json::Object()) : attributes;
  if (out.is_object()) out.object().erase(std::string(kOurs));
  return out;
}

Json text_of(const TreeStructure& tree, const TreeEntry& entry) {
  const auto found = tree.texts.find(entry.path);
  return found == tree.texts.end() ? Json() : found->second;
}

// Finds the first node of two entries that is a list on one side and a dict on the other. Returns
// nothing if their keys differ otherwise.
std::optional<StructureDifference> first_other_kind(const TreeEntry& a, const TreeEntry& b) {
  const auto same_text = [](std::uint32_t left, std::uint32_t right) {
    return left / 2 == right / 2;
  };
  if (!std::ranges::equal(a.ends, b.ends, same_text)) return std::nullopt;
  const auto at = std::ranges::mismatch(a.ends, b.ends).in1;
  const std::size_t end = at == a.ends.begin() ? 0 : *std::prev(at) / 2;
  return StructureDifference{a.path.substr(0, end), *at % 2 == 1 ? "a list in A, a dict in B"
                                                                 : "a dict in A, a list in B"};
}

// `told` holds the nodes that were reported already.
void compare_entries(const TreeStructure& a, const TreeEntry& in_a, const TreeStructure& b,
                     const TreeEntry& in_b, std::set<std::string>& told,
                     std::vector<StructureDifference>& out) {
  const auto add = [&](std::string what) { out.push_back({in_a.path, std::move(what)}); };
  if (in_a.ends != in_b.ends) {
    if (auto node = first_other_kind(in_a, in_b)) {
      if (told.insert(node->path).second) out.push_back(*std::move(node));
      return;
    }
    return add(fmt::format("its keys are {} in A, {} in B", words_for(in_a.keys()),
                           words_for(in_b.keys())));
  }
  const std::string a_is = words_for(in_a);
  const std::string b_is = words_for(in_b);
  if (a_is != b_is) return add(fmt::format("{} in A, {} in B", a_is, b_is));
  if (restored_as(in_a) != restored_as(in_b)) {
    return add(fmt::format("{}, restored as {} in A, {} in B", a_is, restored_as(in_a),
                           restored_as(in_b)));
  }
  if (in_a.kind == TreeEntry::Kind::text && !(text_of(a, in_a) == text_of(b, in_b)))
    add("the strings differ");
}

void add_unshared(const TreeEntry& entry, StructureDifference::Side side,
                  std::vector<StructureDifference>& out) {
  if (entry.kind != TreeEntry::Kind::array) out.push_back({entry.path, words_for(entry), side});
}

// `what`: what the objects are called, before the key.
void compare_objects(const Json& in_a, const Json& in_b, std::string_view what,
                     std::vector<StructureDifference>& out) {
  if (!in_a.is_object() || !in_b.is_object()) {
    if (!(in_a == in_b)) out.push_back({"", fmt::format("the {} differ", what)});
    return;
  }
  for (const std::string& key : differing_keys(in_a, in_b)) {
    const Json* left = in_a.find(key);
    const Json* right = in_b.find(key);
    const auto shown = [](const Json* value) { return value ? dump_json(*value) : "absent"; };
    out.push_back(
        {"", fmt::format("{} {}: {} in A, {} in B", what, quote(key), shown(left), shown(right))});
  }
}

// Returns a member of the step's metadata. An empty object if the step doesn't have it.
Json stored_of_step(const TreeStructure& tree, std::string_view member) {
  const Json* value = tree.step.is_object() ? tree.step.find(member) : nullptr;
  return value == nullptr || value->is_null() ? Json(Json::Object()) : without_ours(*value);
}

// The same, but also an empty object if it equals the tree's: hfshard writes those to a step
// without custom metadata.
Json of_step(const TreeStructure& tree, std::string_view member) {
  Json out = stored_of_step(tree, member);
  return out == without_ours(tree.attributes) ? Json(Json::Object()) : out;
}

// Returns what a step's `of_step` is compared by, given the other side's. If it is empty, the
// values that are stored for the keys of the other side.
Json beside(Json own, const Json& stored, const Json& other) {
  const Json none((Json::Object()));
  if (own != none || other == none) return own;
  if (!stored.is_object() || !other.is_object()) return stored;
  for (const auto& [key, value] : stored.as_object())
    if (other.find(key) != nullptr) own[key] = value;
  return own;
}

void compare_attributes(const TreeStructure& a, const TreeStructure& b,
                        std::vector<StructureDifference>& out) {
  compare_objects(without_ours(a.attributes), without_ours(b.attributes), "custom metadata", out);
  if (!a.step.is_object() || !b.step.is_object()) return;  // an item without its step
  for (const auto& [member, what] : kOfStep) {
    const Json in_a = of_step(a, member);
    const Json in_b = of_step(b, member);
    compare_objects(beside(in_a, stored_of_step(a, member), in_b),
                    beside(in_b, stored_of_step(b, member), in_a), what, out);
  }
}

// The unique names of the nodes of a tree that aren't arrays, strings or empty.
std::set<std::string> node_names(const TreeStructure& tree) {
  std::set<std::string> out;
  for (const TreeEntry& entry : tree.entries) {
    std::string name;
    for (const TreeKey& key : entry.keys()) {
      out.insert(name);
      append_key(key, name);
    }
  }
  return out;
}

void compare_rich_types(const TreeStructure& a, const TreeStructure& b,
                        std::vector<StructureDifference>& out) {
  if (a.rich_types == b.rich_types) return;
  const std::map<std::string, RichNode> in_a = rich_nodes(a.rich_types);
  const std::map<std::string, RichNode> in_b = rich_nodes(b.rich_types);
  std::map<std::string, std::string> paths;
  for (const auto* side : {&in_a, &in_b}) {
    for (const auto& [name, node] : *side) paths.emplace(name, node.path);
  }
  if (paths.empty()) return;
  const std::set<std::string> nodes_of_a = node_names(a);
  const std::set<std::string> nodes_of_b = node_names(b);
  const auto words = [](const std::map<std::string, RichNode>& side, const std::string& name) {
    const auto found = side.find(name);
    return found == side.end() ? std::string("a plain list or dict") : found->second.what;
  };
  for (const auto& [name, path] : paths) {
    const bool is_shared = nodes_of_a.contains(name) && nodes_of_b.contains(name);
    if (is_shared && words(in_a, name) != words(in_b, name))
      out.push_back({path, fmt::format("{} in A, {} in B", words(in_a, name), words(in_b, name))});
  }
}

}  // namespace

std::string words_for(const TreeEntry& entry) {
  if (entry.kind == TreeEntry::Kind::empty)
    return entry.type == "None" ? "None" : fmt::format("an empty {}", entry.type);
  if (entry.kind == TreeEntry::Kind::text) return "a string";
  if (!entry.random_key.empty()) return fmt::format("a random key ({})", entry.random_key);
  return entry.type == "scalar" ? "a scalar" : "an array";
}

void append_key(const TreeKey& key, std::string& node) {
  node += fmt::format("{}{}:{}", key.is_index ? 'i' : 'k', key.text.size(), key.text);
}

void TreeEntry::add_key(std::string_view key, bool is_index) {
  if (!ends.empty()) path += '.';
  path += key;
  ends.push_back(static_cast<std::uint32_t>(2 * path.size() + (is_index ? 1 : 0)));
}

std::vector<TreeKey> TreeEntry::keys() const {
  std::vector<TreeKey> out;
  std::size_t begin = 0;
  for (const std::uint32_t end : ends) {
    out.push_back({path.substr(begin, end / 2 - begin), end % 2 == 1});
    begin = end / 2 + 1;
  }
  return out;
}

std::uint64_t heap_bytes(const TreeStructure& structure) {
  std::uint64_t out = heap_bytes(structure.entries, [](const TreeEntry& entry) {
    return heap_bytes(entry.path) + heap_bytes(entry.ends) + heap_bytes(entry.type) +
           heap_bytes(entry.random_key);
  });
  return out + heap_bytes(structure.shardings) + heap_bytes(structure.mesh_axes) +
         heap_bytes(structure.texts) + heap_bytes(structure.attributes) +
         heap_bytes(structure.step) + heap_bytes(structure.item) + heap_bytes(structure.rich_types);
}

TreeStructure subtree(const TreeStructure& tree, std::string_view root) {
  TreeStructure out = tree;
  out.entries.clear();
  out.texts.clear();
  out.rich_types = rich_types_below(tree.rich_types, root);
  const std::string prefix = std::string(root) + ".";
  for (const TreeEntry& entry : tree.entries) {
    if (!entry.path.starts_with(prefix)) continue;
    TreeEntry below = entry;
    below.path.erase(0, prefix.size());
    std::erase_if(below.ends, [&](std::uint32_t end) { return end / 2 < prefix.size(); });
    for (std::uint32_t& end : below.ends) end -= static_cast<std::uint32_t>(2 * prefix.size());
    if (const auto text = tree.texts.find(entry.path); text != tree.texts.end())
      out.texts.emplace(below.path, text->second);
    out.entries.push_back(std::move(below));
  }
  return out;
}

namespace {

std::string unique_name(const std::vector<TreeKey>& keys) {
  std::string out;
  for (const TreeKey& key : keys) append_key(key, out);
  return out;
}

// The indices that are left in each list, by the list's unique name.
using Indices = std::map<std::string, std::set<std::string>, std::less<>>;

Indices indices_of(const TreeStructure& tree) {
  Indices out;
  for (const TreeEntry& entry : tree.entries) {
    std::string node;
    for (const TreeKey& key : entry.keys()) {
      if (key.is_index) out[node].insert(key.text);
      append_key(key, node);
    }
  }
  return out;
}

bool has_gaps(const std::set<std::string>& indices) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!indices.contains(std::to_string(i))) return true;
  }
  return false;
}

}  // namespace

TreeStructure select_entries(const TreeStructure& tree,
                             const std::function<bool(const TreeEntry&)>& takes,
                             const std::function<void(const std::string&)>& renamed) {
  TreeStructure out = tree;
  std::erase_if(out.entries, [&](const TreeEntry& entry) { return !takes(entry); });
  if (out.entries.size() == tree.entries.size()) return out;
  std::set<std::string> kept;
  for (const TreeEntry& entry : out.entries) kept.insert(unique_name(entry.keys()));
  out.rich_types = select_rich_types(tree.rich_types, [&](const std::vector<TreeKey>& keys) {
    return kept.contains(unique_name(keys));
  });
  close_gaps(out, renamed);
  return out;
}

void close_gaps(TreeStructure& tree, const std::function<void(const std::string&)>& renamed) {
  Indices broken = indices_of(tree);
  std::erase_if(broken, [](const auto& list) { return !has_gaps(list.second); });
  if (broken.empty()) return;
  std::set<std::string> told;
  for (TreeEntry& entry : tree.entries) {
    const std::vector<TreeKey> keys = entry.keys();
    std::string node;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].is_index && broken.contains(node)) {
        entry.ends[i] -= 1;
        const std::size_t end = i == 0 ? 0 : entry.ends[i - 1] / 2;
        if (told.insert(node).second) renamed(entry.path.substr(0, end));
      }
      append_key(keys[i], node);
    }
  }
}

std::vector<StructureDifference> compare_structures(const TreeStructure& a,
                                                    const TreeStructure& b) {
  std::vector<StructureDifference> out;
  if (!a.item.empty() && !b.item.empty() && a.item != b.item) {
    out.push_back({"", fmt::format("the item is {} in A, {} in B", quote(a.item), quote(b.item))});
  }
  compare_attributes(a, b, out);
  std::set<std::string> told;
  const std::vector<std::uint32_t> in_a = by_path(a);
  const std::vector<std::uint32_t> in_b = by_path(b);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < in_a.size() || j < in_b.size()) {
    const TreeEntry* left = i < in_a.size() ? &a.entries[in_a[i]] : nullptr;
    const TreeEntry* right = j < in_b.size() ? &b.entries[in_b[j]] : nullptr;
    if (right == nullptr || (left != nullptr && left->path < right->path)) {
      add_unshared(*left, StructureDifference::Side::a, out);
      ++i;
    } else if (left == nullptr || right->path < left->path) {
      add_unshared(*right, StructureDifference::Side::b, out);
      ++j;
    } else {
      compare_entries(a, *left, b, *right, told, out);
      ++i;
      ++j;
    }
  }
  compare_rich_types(a, b, out);
  return out;
}

std::vector<std::string> custom_keys(const TreeStructure& tree) {
  std::set<std::string> out;
  const auto add = [&](const Json& object) {
    if (!object.is_object()) {
      out.insert(dump_json(object));
      return;
    }
    for (const auto& [key, value] : object.as_object()) out.insert(key);
  };
  add(without_ours(tree.attributes));
  for (const auto& [member, what] : kOfStep) add(of_step(tree, member));
  return {out.begin(), out.end()};
}

std::string structure_sha256(const TreeStructure& tree) {
  Sha256 hash;
  hash.update(dump_json(without_ours(tree.attributes))).update("\n");
  for (const auto& [member, what] : kOfStep) {
    const Json value = of_step(tree, member);
    if (value == Json(Json::Object())) continue;
    hash.update(member).update(dump_json(value)).update("\n");
  }
  for (const std::uint32_t index : by_path(tree)) {
    const TreeEntry& entry = tree.entries[index];
    std::string line = fmt::format("{} {}", restored_as(entry), entry.random_key);
    for (const TreeKey& key : entry.keys()) append_key(key, line);
    if (entry.kind == TreeEntry::Kind::text) line += dump_json(text_of(tree, entry));
    hash.update(line).update("\n");
  }
  for (const auto& [name, node] : rich_nodes(tree.rich_types))
    hash.update(name).update(node.what).update("\n");
  return to_hex(std::span<const std::byte>(hash.finish()));
}

}  // namespace hfshard
