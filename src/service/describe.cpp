#include "service/describe.h"

#include <string_view>
#include <utility>

#include "mapping/find.h"
#include "service/damage.h"

namespace hfshard {
namespace {

StoredArray stored_array(const Catalog& catalog, std::uint32_t i) {
  const TensorInfo& array = catalog.tensors[i];
  const Grid grid = catalog.grid_of(i);
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

// What the format keeps beside the arrays, and what the model's config says.
Json metadata_of(const Catalog& catalog) {
  Json out = config_facts(catalog);
  if (!catalog.attributes.is_object()) return out;
  for (const auto& [key, value] : catalog.attributes.as_object()) out[key] = value;
  return out;
}

}  // namespace

CheckpointInfo describe(const Catalog& catalog, const std::string& path) {
  CheckpointInfo out;
  out.path = path;
  out.wording = catalog.wording;
  out.arrays.reserve(catalog.tensors.size());
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    out.arrays.push_back(stored_array(catalog, i));
    out.size_bytes += out.arrays.back().size_bytes;
    out.chunks += out.arrays.back().chunks;
  }
  for (const CatalogFile& file : catalog.files) out.files.push_back({file.name, file.size_bytes});
  out.metadata = dump_json(metadata_of(catalog));
  out.notes = catalog.notes;
  return out;
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
