#include "service/structure.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"
#include "catalog/rich_types.h"
#include "format/formats.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/steps.h"
#include "run/check/output_manifest.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The restore type for programs other than the one that wrote a JAX array.
constexpr const char* kArrayType = "np.ndarray";

std::set<std::string_view> array_names(const Catalog& source) {
  std::set<std::string_view> out;
  for (const TensorInfo& tensor : source.tensors) out.insert(tensor.name);
  return out;
}

// Returns the keys of a nested state if they make up the name. Otherwise returns nothing.
std::optional<TreeEntry> entry_of_keys(const std::string& name,
                                       const std::vector<NestedName>& nested) {
  const std::string_view text = nested_keys(nested, name);
  if (text.empty()) return std::nullopt;
  TreeEntry out;
  const Json keys = parse_json(text, name);
  for (const Json& key : keys.as_array()) {
    const bool is_index = !key.is_string();
    out.add_key(is_index ? std::to_string(key.as_uint()) : key.as_string(), is_index);
  }
  return out.path == name ? std::optional(std::move(out)) : std::nullopt;
}

// Returns whether the dotted parts of a name can be keys. Each must be nonempty and without a
// slash. No node above may be an array.
bool is_dotted_path(std::string_view name, const std::set<std::string_view>& names) {
  if (name.empty() || name.find('/') != std::string_view::npos) return false;
  for (std::size_t dot = name.find('.'), begin = 0;; dot = name.find('.', begin)) {
    if (dot == begin || begin == name.size()) return false;
    if (dot == std::string_view::npos) return true;
    if (names.contains(name.substr(0, dot))) return false;
    begin = dot + 1;
  }
}

// Orders elements as in lists.
bool comes_before(const TreeEntry& a, const TreeEntry& b) {
  const auto before = [](const TreeKey& left, const TreeKey& right) {
    const bool numbers = left.is_index && right.is_index;
    if (numbers && left.text.size() != right.text.size())
      return left.text.size() < right.text.size();
    return left.text < right.text;
  };
  return std::ranges::lexicographical_compare(a.keys(), b.keys(), before);
}

// Orbax can't restore a tree with a string whose text is missing. Source: google/orbax checkpoint/
// orbax/checkpoint/_src/serialization/type_handlers.py (StringHandler).
void check_texts(const TreeStructure& tree, const std::string& location) {
  for (const TreeEntry& entry : tree.entries) {
    if (entry.kind != TreeEntry::Kind::text || tree.texts.contains(entry.path)) continue;
    throw Error(
        ErrorCode::corrupt,
        fmt::format("the text of the string {} is missing in _strings.json next to the tree",
                    quote(entry.path)))
        .in_file(location)
        .hint(fmt::format("restore that file, or pass --exclude '{}' to leave the string out",
                          entry.path));
  }
}

// Gives the entries of codes the names of their values: "x.weight" for "x.weight_packed".
TreeStructure with_values(const TreeStructure& structure, const Catalog& source,
                          const CompiledModel& model) {
  TreeStructure out = structure;
  std::unordered_map<std::string_view, std::string_view> names;
  for (const Transfer& transfer : model.transfers) {
    if (!transfer.decode) continue;
    names.emplace(source.tensors[transfer.sources.front()].name,
                  model.leaves[transfer.target].name);
  }
  for (TreeEntry& entry : out.entries) {
    const auto found = names.find(entry.path);
    if (found == names.end() || entry.kind != TreeEntry::Kind::array) continue;
    entry.path = found->second;  // only the last key differs
    entry.ends.back() = static_cast<std::uint32_t>(2 * entry.path.size()) | (entry.ends.back() & 1);
  }
  return out;
}

}  // namespace

std::shared_ptr<const TreeStructure> structure_of_keys(const Catalog& source) {
  const std::set<std::string_view> names = array_names(source);
  const bool is_flat = source.nested.empty();
  bool needed = false;
  auto out = std::make_shared<TreeStructure>();
  for (const std::string_view name : names) {
    std::optional<TreeEntry> entry = entry_of_keys(std::string(name), source.nested);
    const bool is_path = !entry && is_flat && is_dotted_path(name, names);
    needed = needed || !is_path;
    if (!entry) {
      entry.emplace();
      if (is_path) {
        for (const std::string& key : split(name, '.')) entry->add_key(key, /*is_index=*/false);
      } else {
        entry->add_key(name, /*is_index=*/false);
      }
    }
    entry->type = kArrayType;
    out->entries.push_back(*std::move(entry));
  }
  if (!needed) return nullptr;
  std::ranges::stable_sort(out->entries, comes_before);
  return out;
}

namespace {

std::string list_becomes_dict(const std::string& list) {
  return fmt::format(
      "the list {} loses elements before others, so it becomes a dict with their numbers as keys",
      list.empty() ? "at the root" : quote(list));
}

}  // namespace

std::vector<NestedName> nested_of(const TreeStructure& whole, std::vector<std::string>& notes) {
  std::vector<NestedName> out;
  const TreeStructure tree = select_entries(
      whole, [](const TreeEntry& entry) { return entry.kind == TreeEntry::Kind::array; },
      [&](const std::string& list) { notes.push_back(list_becomes_dict(list)); });
  const Json* ours = tree.attributes.find("hfshard");
  const bool was_flat = ours != nullptr && ours->find(kNestedFlag) == nullptr;
  bool has_lists = false;
  bool root_is_list = false;
  for (const TreeEntry& entry : tree.entries) {
    Json::Array keys;
    for (const TreeKey& key : entry.keys()) {
      const auto index = key.is_index ? parse_whole(key.text) : std::nullopt;
      has_lists = has_lists || index.has_value();
      keys.push_back(index ? Json(*index) : Json(key.text));
    }
    // A state is a dict, so the indices of a list at the root become text.
    if (!keys.empty() && !keys.front().is_string()) {
      root_is_list = true;
      keys.front() = entry.keys().front().text;
    }
    if (keys.size() > 1) out.push_back({entry.path, dump_json(Json(std::move(keys)))});
  }
  if (root_is_list) notes.push_back(root_becomes_dict("the root"));
  if (was_flat && !has_lists) return {};
  std::ranges::sort(out, {}, &NestedName::name);
  return out;
}

void keep_structure(const TreeStructure* structure, const MappingOptions& options,
                    const Catalog& source, CompiledModel& model) {
  if (structure == nullptr) return;
  const bool decodes = std::ranges::any_of(
      model.transfers, [](const Transfer& transfer) { return transfer.decode != nullptr; });
  const TreeStructure decoded = decodes ? with_values(*structure, source, model) : TreeStructure{};
  const auto takes = [&](const TreeEntry& entry) {
    if (entry.kind == TreeEntry::Kind::array)
      return std::ranges::binary_search(model.leaves, entry.path, {}, &Leaf::name);
    const auto asked = left_out(options, entry.path);
    if (asked) model.left_out.push_back({entry.path, asked->why});
    return !asked;
  };
  const auto renamed = [&](const std::string& list) {
    model.notes.push_back(list_becomes_dict(list));
  };
  TreeStructure kept = select_entries(decodes ? decoded : *structure, takes, renamed);
  close_gaps(kept, renamed);
  check_texts(kept, source.location);
  model.structure = std::make_shared<const TreeStructure>(std::move(kept));
}

BeyondArrays beyond_arrays(const TreeStructure& tree, const std::string& known_empty) {
  BeyondArrays out;
  for (const TreeEntry& entry : tree.entries) {
    if (!entry.random_key.empty()) out.random_keys.push_back(entry.path);
    if (entry.type == "scalar") out.numbers.push_back(entry.path);
    if (entry.kind != TreeEntry::Kind::array && entry.path != known_empty)
      out.nodes.push_back(entry.path);
  }
  for (const auto& [name, node] : rich_nodes(tree.rich_types))
    out.tuples.push_back(node.path.empty() ? "the root" : node.path);
  out.custom_metadata = custom_keys(tree);
  return out;
}

namespace {

void add_note(std::string_view what, const std::vector<std::string>& names, CompiledModel& model) {
  if (names.empty()) return;
  std::string note = fmt::format("{} {}", what, quoted_list(names));
  if (std::ranges::find(model.notes, note) == model.notes.end())
    model.notes.push_back(std::move(note));
}

void name_lost(const BeyondArrays& found, CompiledModel& model) {
  add_note("left out, because the output holds only arrays: the strings and empty nodes",
           found.nodes, model);
  add_note("left out, because the output has no place for it: the custom metadata",
           found.custom_metadata, model);
}

}  // namespace

void name_left_out(const TreeExtras& known, bool is_recorded, CompiledModel& model) {
  const auto structure = std::exchange(model.structure, nullptr);
  if (structure == nullptr) return;
  BeyondArrays found = beyond_arrays(*structure, known.empty);
  std::erase(found.numbers, known.step);
  if (is_recorded) found.custom_metadata.clear();
  name_lost(found, model);
  add_note("random keys become integer arrays:", found.random_keys, model);
  add_note("Python's numbers become arrays without dimensions:", found.numbers, model);
  add_note("tuples and named tuples become lists and dicts:", found.tuples, model);
}

void name_beyond_model(const Catalog& tree, CompiledModel& model) {
  if (tree.structure == nullptr || model.structure != nullptr) return;  // the output keeps it
  const std::string scheme = MappingOptions().scheme;
  std::set<std::string> others;  // have arrays, and none of the model
  for (const TensorInfo& array : tree.tensors) others.insert(first_key(array.name));
  for (const Transfer& transfer : model.transfers) {
    for (const std::uint32_t source : transfer.sources)
      others.erase(first_key(tree.tensors[source].name));
  }
  BeyondArrays found = beyond_arrays(*tree.structure, tree_extras(scheme).empty);
  std::erase_if(found.nodes,
                [&](const std::string& node) { return others.contains(first_key(node)); });
  std::erase(found.custom_metadata, loader_options(scheme).stacked);  // the tree's shapes say it
  name_lost(found, model);
}

void keep_beside(Beside beside, TreeSource& tree, CompiledModel& model) {
  std::set<std::string> items;
  for (const auto* names : {&beside.files, &beside.empty})
    for (const std::string& name : *names) items.insert(name.substr(0, name.find('/')));
  std::vector<std::string> tops = beside.root_files;
  std::ranges::copy(items, std::back_inserter(tops));
  model.notes.push_back(tops.empty() ? "the tree is the step's only item"
                                     : "copied unchanged: " + join(tops, ", "));
  tree.keep(std::move(beside));
}

void check_beside(const Catalog& tree, const std::string& item) {
  const auto taken = std::ranges::find_if(tree.beside.files, [&](const std::string& name) {
    return !item.empty() && name.starts_with(item + "/");
  });
  if (taken == tree.beside.files.end()) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("another item of the step has the name {}, which the tree needs", quote(item)))
      .in_file((tree.beside.directory / item).text())
      .hint("pass the step's directory instead of the item's, or leave out --items all");
}

void name_other_items(const StorePath& place, const Choice& choice, bool can_keep,
                      CompiledModel& model) {
  const Format* format = tree_format(place);
  if (format == nullptr) return;
  std::vector<std::string> names = format->other_items(place, choice);
  std::ranges::move(format->root_files(place.parent()), std::back_inserter(names));
  if (names.empty()) return;
  model.notes.push_back(fmt::format("left out, because hfshard reads one item of the step: {}{}",
                                    join(names, ", "),
                                    can_keep ? " (pass --items all to copy the others)" : ""));
}

}  // namespace hfshard
