#include "format/orbax/shardings.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"
#include "format/orbax/structure.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 28;

// Reads one entry of a partition spec: null, an axis, or several.
std::vector<std::string> axes_of(const Json& entry) {
  std::vector<std::string> out;
  if (entry.is_null()) return out;
  if (entry.is_string()) return {entry.as_string()};
  for (const Json& axis : entry.as_array()) out.push_back(axis.as_string());
  return out;
}

// Empty if the sharding names no mesh axes.
std::optional<ArraySharding> sharding_of(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  const Json* spec = json.find("partition_spec");
  if (json.at("sharding_type").as_string() != "NamedSharding" || spec == nullptr)
    return std::nullopt;
  ArraySharding out;
  bool any = false;
  for (const Json& entry : spec->as_array()) {
    out.mesh_axes.push_back(axes_of(entry));
    any = any || !out.mesh_axes.back().empty();
  }
  return any ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

namespace {

std::map<std::uint32_t, ArraySharding> find_shardings(const Json& json, const std::string& file,
                                                      const Catalog& catalog) {
  std::map<std::uint32_t, ArraySharding> found;
  for (const auto& [key, value] : json.as_object()) {
    const std::optional<std::string> name = decode_base64(key);
    if (!name) {
      throw Error(ErrorCode::corrupt, fmt::format("{} is no name in base64", quote(key)))
          .in_file(file);
    }
    const auto array = catalog.find(*name);
    if (!array) continue;
    auto sharding = sharding_of(value.as_string(), file);
    if (!sharding) continue;
    if (sharding->mesh_axes.size() > catalog.tensors[*array].shape.rank()) {
      throw Error(ErrorCode::corrupt, "a sharding has more dims than its array")
          .in_file(file)
          .in_tensor(*name);
    }
    sharding->mesh_axes.resize(catalog.tensors[*array].shape.rank());
    found.emplace(*array, std::move(*sharding));
  }
  return found;
}

PerLeaf<ArraySharding> shardings_of(const Json& json, const std::string& file,
                                    const Catalog& catalog) {
  std::map<std::uint32_t, ArraySharding> found;
  try {
    found = find_shardings(json, file, catalog);
  } catch (Error& error) {  // the JSON accessors don't know the file
    throw error.in_file(file);
  }
  PerLeaf<ArraySharding> out;
  if (found.empty()) return out;
  for (std::uint32_t array = 0; array < catalog.tensors.size(); ++array) {
    const auto at = found.find(array);
    out.push_back(at == found.end() ? ArraySharding() : at->second);
  }
  return out;
}

}  // namespace

PerLeaf<ArraySharding> parse_shardings(std::string_view text, const std::string& file,
                                       const Catalog& catalog) {
  return shardings_of(parse_json(text, file), file, catalog);
}

Json read_shardings(const StorePath& item, Catalog& catalog) {
  const StorePath path = item / kShardingFile;
  Json json;
  if (!path.is_file()) return json;
  try {
    json = parse_json(path.read(kMaxBytes), path.text());
    catalog.shardings = shardings_of(json, path.text(), catalog);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    catalog.notes.push_back(fmt::format("{} is not understood, so that it says nothing of axes: {}",
                                        kShardingFile, error.sentence()));
  }
  return json;
}

}  // namespace hfshard::format::orbax
