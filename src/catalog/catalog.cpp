#include "catalog/catalog.h"

#include <algorithm>

#include "base/heap.h"

namespace hfshard {

std::optional<std::uint32_t> Catalog::find(std::string_view name) const noexcept {
  const auto at = std::ranges::lower_bound(
      tensors, name, {}, [](const TensorInfo& t) { return std::string_view(t.name); });
  if (at == tensors.end() || at->name != name) return std::nullopt;
  return static_cast<std::uint32_t>(at - tensors.begin());
}

const std::string& Catalog::file_name(const TensorInfo& array) const noexcept {
  if (files.empty() || files[array.file].name == kWholeTree) return location;
  return files[array.file].name;
}

Grid Catalog::grid_of(std::uint32_t array) const {
  const TensorInfo& info = tensors[array];
  if (!info.is_whole()) return cuts[info.cut].grid;
  const Shape whole = whole_chunk(info.shape);
  return {whole, whole, whole};
}

Grid Catalog::stored_grid_of(std::uint32_t array) const {
  Grid out = grid_of(array);
  const TensorInfo& info = tensors[array];
  if (!info.is_whole() && cuts[info.cut].only_runs) out.inner = out.chunk;
  return out;
}

const std::vector<std::string>& Catalog::codecs_of(std::uint32_t array) const {
  static const std::vector<std::string> kNone;
  const TensorInfo& info = tensors[array];
  return info.is_whole() ? kNone : cuts[info.cut].codecs;
}

std::uint64_t heap_bytes(const ArraySharding& sharding) {
  return heap_bytes(sharding.mesh_axes,
                    [](const std::vector<std::string>& axes) { return heap_bytes(axes); });
}

std::uint64_t heap_bytes(const Catalog& catalog) {
  const Wording& wording = catalog.wording;
  std::uint64_t out = heap_bytes(catalog.location) + heap_bytes(catalog.root) +
                      heap_bytes(catalog.directory.name()) + heap_bytes(wording.kind) +
                      heap_bytes(wording.array) + heap_bytes(wording.arrays) +
                      heap_bytes(wording.name);
  out += heap_bytes(catalog.files, [](const CatalogFile& file) {
    return heap_bytes(file.path.name()) + heap_bytes(file.name) + heap_bytes(file.version) +
           heap_bytes(file.header_sha256) + heap_bytes(file.inodes);
  });
  out += heap_bytes(catalog.tensors, [](const TensorInfo& info) { return heap_bytes(info.name); });
  out += heap_bytes(catalog.cuts, [](const Cut& cut) {
    return heap_bytes(cut.grid.order) + heap_bytes(cut.codecs);
  });
  out += catalog.shardings.heap_bytes(
      [](const ArraySharding& sharding) { return heap_bytes(sharding); });
  return out + heap_bytes(catalog.attributes) + heap_bytes(catalog.config_text) +
         heap_bytes(catalog.part) + heap_bytes(catalog.side_files) +
         heap_bytes(catalog.beside.files) + heap_bytes(catalog.beside.empty) +
         heap_bytes(catalog.beside.root_files) + heap_bytes(catalog.notes) +
         heap_bytes(catalog.objects) + heap_bytes(catalog.nested) +
         heap_bytes(catalog.shared,
                    [](const SharedName& pair) {
                      return heap_bytes(pair.name) + heap_bytes(pair.stored);
                    }) +
         heap_bytes(catalog.unreadable,
                    [](const UnreadableArray& array) {
                      return heap_bytes(array.name) + heap_bytes(array.why);
                    }) +
         heap_bytes(catalog.object_files,
                    [](const StorePath& path) { return heap_bytes(path.name()); });
}

}  // namespace hfshard
