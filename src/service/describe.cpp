#include "service/describe.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "catalog/manifest_head.h"
#include "catalog/rich_types.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "service/damage.h"
#include "service/loadable.h"

#include "hfshard/mapping.h"

namespace hfshard {
namespace {

// The limit for one array. A damaged grid can have any number of chunks.
constexpr std::size_t kMaxListed = std::size_t{1} << 22;

StoredArray stored_array(const Catalog& catalog, std::uint32_t i) {
  const TensorInfo& array = catalog.tensors[i];
  const Grid grid = catalog.stored_grid_of(i);
  StoredArray out;
  out.name = array.name;
  out.dtype = array.dtype;
  out.shape = array.shape;
  out.size_bytes = packed_bytes(array.dtype, array.shape.numel());
  out.chunk = grid.chunk;
  if (grid.has_inner()) out.inner = grid.inner;
  out.chunks = chunk_total(catalog, i);
  out.codecs = catalog.codecs_of(i);
  out.file = array.file;
  out.begin_bytes = array.begin_bytes;
  return out;
}

// Adds a tree's strings, empty nodes and tuples, by path. A tree from hfshard has only the empty
// node that its loader needs, so it's skipped.
void add_nodes(const Catalog& catalog, std::string_view filter, Json& out) {
  if (catalog.structure == nullptr || catalog.writer.starts_with("hfshard")) return;
  Json nodes = Json::Object();
  for (const TreeEntry& entry : catalog.structure->entries) {
    if (entry.kind != TreeEntry::Kind::array && fits(filter, entry.path))
      nodes[entry.path] = words_for(entry);
  }
  for (const auto& [name, node] : rich_nodes(catalog.structure->rich_types)) {
    if (fits(filter, node.path)) nodes[node.path] = node.what;
  }
  if (!nodes.as_object().empty()) out["tree nodes"] = std::move(nodes);
}

// Returns the format's metadata, and facts from the model's config.
Json metadata_of(const Catalog& catalog, std::string_view filter) {
  Json out = config_facts(catalog);
  add_nodes(catalog, filter, out);
  if (!catalog.attributes.is_object()) return out;
  for (const auto& [key, value] : catalog.attributes.as_object()) out[key] = value;
  if (catalog.objects.empty() || filter.empty()) return out;
  std::erase_if(out["objects"].object(),
                [&](const auto& object) { return !fits(filter, object.first); });
  return out;
}

}  // namespace

CheckpointInfo describe(const Catalog& catalog, const std::string& path, std::string_view filter) {
  CheckpointInfo out;
  out.path = path;
  out.wording = catalog.wording;
  out.arrays.reserve(catalog.tensors.size());
  out.writer = catalog.writer;
  // Model files can't store the writer's name. Only the record next to them has it.
  if (out.writer.empty() && catalog.directory.is_directory())
    out.writer = manifest_head(catalog.directory).tool;
  const std::string others = tree_extras(MappingOptions().scheme).empty + ".";
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    const TensorInfo& info = catalog.tensors[i];
    if (!fits(filter, info.name)) continue;
    out.elements += info.shape.numel();
    if (info.name.starts_with(others) || is_state_anywhere(info.name)) {
      out.optimizer_elements += info.shape.numel();
    } else if (is_float(info.dtype)) {
      out.parameters += info.shape.numel();
    }
    out.arrays.push_back(stored_array(catalog, i));
    out.size_bytes += out.arrays.back().size_bytes;
    out.chunks += out.arrays.back().chunks;
  }
  for (const UnreadableArray& array : catalog.unreadable) {
    if (fits(filter, array.name)) out.unreadable.push_back(array);
  }
  for (const CatalogFile& file : catalog.files) out.files.push_back({file.name, file.size_bytes});
  out.metadata = dump_json(metadata_of(catalog, filter));
  out.notes = catalog.notes;
  return out;
}

bool fits(std::string_view filter, std::string_view name) {
  return filter.empty() || glob_match(filter, name);
}

void add_pieces(const Checkpoint& opened, const std::string& root, CheckpointInfo& info) {
  const Catalog& catalog = opened.catalog();
  for (StoredArray& array : info.arrays) {
    const std::uint32_t index = catalog.find(array.name).value();
    for_each_chunk(chunk_counts(array.shape, array.chunk), [&](const Shape& at) {
      StoredPiece& piece = array.pieces.emplace_back();
      piece.place = at;
      if (catalog.tensors[index].is_whole()) {
        piece.file = catalog.files[array.file].name;
        piece.range = catalog.tensors[index].range();
      } else if (auto place = opened.find_piece(index, at)) {
        piece.file = shown_name(catalog, root, place->file);
        piece.range = place->range;
      }
      if (array.pieces.size() > kMaxListed) {
        throw Error(ErrorCode::limit, fmt::format("more than {} pieces to list", kMaxListed))
            .in_file(info.path)
            .in_tensor(array.name);
      }
      return true;
    });
  }
}

Json config_facts(const Catalog& catalog) {
  Json out = Json::Object();
  if (catalog.config_text.empty()) return out;
  const Json config = parse_json(catalog.config_text, "config.json");
  for (const std::string_view key : {"model_type", "architectures"}) {
    if (const Json* value = config.find(key)) out[key] = *value;
  }
  if (const FamilyFile* family = find_family(config)) out["family"] = family->name;
  return out;
}

}  // namespace hfshard
