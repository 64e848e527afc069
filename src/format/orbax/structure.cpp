#include "format/orbax/structure.h"

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/text.h"
#include "bytes/local/files.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 28;
constexpr std::string_view kRandomKey = "random_key_impl";

using ByName = std::unordered_map<std::string_view, TreeEntry*>;

ByName arrays_by_name(TreeStructure& structure) {
  ByName out;
  for (TreeEntry& entry : structure.entries) {
    if (entry.kind == TreeEntry::Kind::array) out.emplace(entry.path, &entry);
  }
  return out;
}

void add_random_keys(const Json& json, const ByName& arrays) {
  for (const Json& item : json.at("array_metadatas").as_array()) {
    const Json& array = item.at("array_metadata");
    const Json* more = array.find("ext_metadata");
    const Json* kind = more != nullptr && more->is_object() ? more->find(kRandomKey) : nullptr;
    if (kind == nullptr) continue;
    const auto found = arrays.find(array.at("param_name").as_string());
    if (found != arrays.end()) found->second->random_key = kind->as_string();
  }
}

// Reads a small file that arrays don't need. `take` processes its text.
template <typename Take>
void read_small(const StorePath& path, std::vector<std::string>& notes, const Take& take) {
  if (!path.is_file()) return;
  try {
    const std::string text = path.read(kMaxFileBytes);
    take(text, path.text());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    notes.push_back(fmt::format("{} is not understood and not carried over: {}", path.text(),
                                error.sentence()));
  }
}

void read_texts(const StorePath& item, TreeStructure& out, std::vector<std::string>& notes) {
  read_small(item / kTextsFile, notes, [&](const std::string& text, const std::string& file) {
    const Json texts = parse_metadata(text, file);
    for (const auto& [name, value] : texts.as_object()) out.texts.emplace(name, value);
  });
}

void read_random_keys(const StorePath& item, const ByName& arrays,
                      std::vector<std::string>& notes) {
  const StorePath directory = item / kArrayMetadataDirectory;
  if (!directory.is_directory()) return;
  for (const std::string& name : directory.list()) {
    read_small(directory / name, notes, [&](const std::string& text, const std::string& file) {
      if (text.find(kRandomKey) != std::string::npos)
        add_random_keys(parse_metadata(text, file), arrays);
    });
  }
}

std::string item_name(const Location& at) {
  if (!at.step || at.item == *at.step) return {};
  return entry_name(at.item.name());
}

}  // namespace

std::shared_ptr<TreeStructure> read_structure(const Location& at, Tree& tree, Json step,
                                              std::vector<std::string>& notes) {
  auto out = std::make_shared<TreeStructure>();
  out->entries = std::move(tree.entries);
  out->rich_types = std::move(tree.rich_types);
  out->attributes = tree.custom_metadata;
  out->step = std::move(step);
  out->item = item_name(at);
  const ByName arrays = arrays_by_name(*out);
  read_texts(at.item, *out, notes);
  read_random_keys(at.item, arrays, notes);
  return out;
}

namespace {

// Adds the axes of a sharding's mesh. One that isn't understood names none.
void add_mesh_axes(const std::string& text, std::set<std::string>& names) {
  try {
    const Json* axes = nullptr;
    const Json json = parse_json(text, kShardingFile);
    if (json.is_object()) axes = json.find("axis_names");
    if (axes == nullptr || !axes->is_array()) return;
    for (const Json& axis : axes->as_array())
      if (axis.is_string()) names.insert(axis.as_string());
  } catch (const Error&) {  // read_shardings says so
  }
}

}  // namespace

void add_shardings(const Json& json, TreeStructure& structure) {
  if (!json.is_object()) return;
  std::set<std::string> axes;
  const ByName arrays = arrays_by_name(structure);
  std::map<std::string, std::uint32_t> numbers;
  for (const auto& [key, value] : json.as_object()) {
    const std::optional<std::string> name = decode_base64(key);
    const auto array = name ? arrays.find(*name) : arrays.end();
    if (array == arrays.end() || !value.is_string()) continue;
    const auto [number, fresh] = numbers.try_emplace(
        value.as_string(), static_cast<std::uint32_t>(structure.shardings.size()));
    if (fresh) structure.shardings.push_back(value.as_string());
    if (fresh) add_mesh_axes(value.as_string(), axes);
    array->second->sharding = number->second;
  }
  structure.mesh_axes.assign(axes.begin(), axes.end());
}

}  // namespace hfshard::format::orbax
