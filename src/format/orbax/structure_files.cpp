#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/coding.h"
#include "base/json_shape.h"
#include "format/orbax/buffered.h"
#include "format/orbax/metadata.h"
#include "format/orbax/structure.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr std::string_view kJaxArray = "jax.Array";

std::optional<std::uint32_t> leaf_of(const TreeSpec& tree, const TreeEntry& entry) {
  if (entry.kind != TreeEntry::Kind::array) return std::nullopt;
  const auto at = std::ranges::lower_bound(*tree.leaves, entry.path, {}, &Leaf::name);
  if (at == tree.leaves->end() || at->name != entry.path) return std::nullopt;
  return static_cast<std::uint32_t>(at - tree.leaves->begin());
}

Json entry_json(const TreeSpec& tree, const TreeEntry& entry, std::optional<std::uint32_t> leaf) {
  Json::Array path;
  for (const TreeKey& key : entry.keys()) {
    Json element;
    element["key"] = key.text;
    element["key_type"] = key.is_index ? 1 : 2;
    path.push_back(std::move(element));
  }
  Json out;
  out["key_metadata"] = std::move(path);
  Json& value = out["value_metadata"];
  value["skip_deserialize"] = entry.kind == TreeEntry::Kind::empty;
  value["value_type"] = entry.type;
  if (leaf && entry.type == kJaxArray)
    value["write_shape"] = shape_json((*tree.grids)[*leaf].chunk);
  return out;
}

// Numbers the devices of a mesh row by row.
Json devices_of(const std::vector<MeshAxis>& mesh, std::size_t axis, std::uint64_t& next) {
  if (axis == mesh.size()) {
    Json device;
    device["id"] = next++;
    return device;
  }
  Json::Array out;
  for (std::uint64_t i = 0; i < mesh[axis].size; ++i)
    out.push_back(devices_of(mesh, axis + 1, next));
  return Json(std::move(out));
}

// Writes one entry of a partition spec: null, an axis, or several.
Json spec_entry(const std::vector<std::string>& axes) {
  if (axes.empty()) return {};
  return axes.size() == 1 ? Json(axes.front()) : texts_json(axes);
}

// Returns the members of a NamedSharding that all arrays share.
Json sharding_on(const std::vector<MeshAxis>& mesh) {
  Json out;
  out["sharding_type"] = "NamedSharding";
  for (const MeshAxis& axis : mesh) {
    out["shape"].array().emplace_back(axis.size);
    out["axis_names"].array().emplace_back(axis.name);
    out["axis_types"].array().emplace_back("AxisType.Auto");
  }
  std::uint64_t next = 0;
  out["device_mesh"]["mesh"] = devices_of(mesh, 0, next);
  return out;
}

// Calls `visit(entry, leaf)` for every JAX array.
template <typename Visit>
void for_each_jax_array(const TreeSpec& tree, const Visit& visit) {
  for (const TreeEntry& entry : tree.structure->entries) {
    if (entry.type != kJaxArray) continue;
    if (const auto leaf = leaf_of(tree, entry)) visit(entry, *leaf);
  }
}

bool has_jax_array(const TreeSpec& tree) {
  bool out = false;
  for_each_jax_array(tree, [&](const TreeEntry&, std::uint32_t) { out = true; });
  return out;
}

void write_shardings(const TreeSpec& tree, const ByteSink& sink) {
  Buffered out(sink);
  out.put("{");
  bool first = true;
  Json shared = tree.mesh.empty() ? Json() : sharding_on(tree.mesh);
  for_each_jax_array(tree, [&](const TreeEntry& entry, std::uint32_t leaf) {
    std::string text;
    if (!tree.mesh.empty()) {
      Json::Array spec;
      for (const auto& axes : tree.shardings[leaf].mesh_axes) spec.push_back(spec_entry(axes));
      shared["partition_spec"] = std::move(spec);
      text = dump_json(shared);
    } else if (entry.sharding != TreeEntry::kNone) {
      text = tree.structure->shardings[entry.sharding];
    } else {
      return;
    }
    out.put(fmt::format("{}{}:{}", first ? "" : ",", dump_json(Json(encode_base64(entry.path))),
                        dump_json(Json(text))));
    first = false;
  });
  out.put("}");
  out.flush();
}

void write_array_metadata(const TreeSpec& tree, const ByteSink& sink) {
  Buffered out(sink);
  out.put("{\"array_metadatas\":[");
  bool first = true;
  for_each_jax_array(tree, [&](const TreeEntry& entry, std::uint32_t leaf) {
    const Grid& grid = (*tree.grids)[leaf];
    Json json;
    Json& array = json["array_metadata"];
    array["param_name"] = entry.path;
    array["write_shape"] = shape_json(grid.chunk);
    array["chunk_shape"] = shape_json(grid.inner);
    array["ext_metadata"] = Json();
    if (!entry.random_key.empty()) array["ext_metadata"]["random_key_impl"] = entry.random_key;
    out.put(fmt::format("{}{}", first ? "" : ",", dump_json(json)));
    first = false;
  });
  out.put("]}");
  out.flush();
}

void write_texts(const TreeSpec& tree, const ByteSink& sink) {
  Json::Object out;
  for (const TreeEntry& entry : tree.structure->entries) {
    const auto text = tree.structure->texts.find(entry.path);
    if (entry.kind == TreeEntry::Kind::text && text != tree.structure->texts.end())
      out.emplace(text->first, text->second);
  }
  sink(as_bytes(dump_json(Json(std::move(out)))));
}

// Finds the handler of an item in the metadata of the source's step. A step without items names
// only one handler.
const Json* handler_in(const Json& step, const std::string& item) {
  const Json* handlers = step.find("item_handlers");
  if (handlers == nullptr || !handlers->is_object()) return handlers;
  return handlers->find(item);
}

}  // namespace

void put_entries(const TreeSpec& tree, const std::function<void(const std::string&)>& put) {
  for (const TreeEntry& entry : tree.structure->entries) {
    const auto leaf = leaf_of(tree, entry);
    if (entry.kind == TreeEntry::Kind::array && !leaf) continue;
    std::vector<std::string> keys;
    for (const TreeKey& key : entry.keys()) keys.push_back(key.text);
    put(dump_json(Json(tuple_text(keys))) + ":" + dump_json(entry_json(tree, entry, leaf)));
  }
}

Json step_of_structure(const TreeSpec& tree, std::string_view handler) {
  const Json& source = tree.structure->step;
  Json out = source.is_object() ? source : Json(Json::Object());
  const Json* own = source.is_object() ? handler_in(source, tree.structure->item) : nullptr;
  const bool known = own != nullptr && own->is_string();
  const Json name = known ? *own : Json(std::string(handler));
  out["item_handlers"] = tree.direct ? name : Json(Json::Object{{tree.item, name}});
  return out;
}

std::vector<SideFile> structure_files(const TreeSpec& tree, const std::string& item) {
  const auto file = [&](std::string_view name,
                        void (*write)(const TreeSpec& tree, const ByteSink& sink)) {
    return SideFile{item + std::string(name),
                    [tree, write](const ByteSink& sink) { write(tree, sink); }};
  };
  std::vector<SideFile> out;
  if (has_jax_array(tree)) {
    out.push_back(file(fmt::format("{}/process_0", kArrayMetadataDirectory), write_array_metadata));
    const auto has_sharding = [](const TreeEntry& entry) {
      return entry.sharding != TreeEntry::kNone;
    };
    if (!tree.mesh.empty() || std::ranges::any_of(tree.structure->entries, has_sharding))
      out.push_back(file(kShardingFile, write_shardings));
  }
  const bool has_texts = std::ranges::any_of(tree.structure->entries, [](const TreeEntry& entry) {
    return entry.kind == TreeEntry::Kind::text;
  });
  if (has_texts) out.push_back(file(kTextsFile, write_texts));
  return out;
}

}  // namespace hfshard::format::orbax
