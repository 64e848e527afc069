#include "service/element_place.h"

#include <optional>

#include "plan/layout/source_part.h"
#include "service/damage.h"

namespace hfshard {
namespace {

Shape index_of(const Shape& shape, std::uint64_t element) {
  Shape out = shape;
  for (std::size_t d = shape.rank(); d-- > 0;) {
    out[d] = element % shape[d];
    element /= shape[d];
  }
  return out;
}

// Finds an element of a stored piece. Uncoded pieces also get the element's offset in the file.
void find_in_piece(const Checkpoint& source, std::uint32_t array, const std::string& root,
                   ElementPlace& out) {
  const Catalog& catalog = source.catalog();
  const TensorInfo& info = catalog.tensors[array];
  const Grid grid = catalog.grid_of(array);
  Shape piece = out.index;
  for (std::size_t d = 0; d < piece.rank(); ++d) piece[d] /= grid.chunk[d];
  const auto place = source.find_piece(array, piece);
  if (!place) return;
  out.file = shown_name(catalog, root, place->file);
  out.range = place->range;
  constexpr std::uint64_t kChecksumBytes = 4;  // can follow the piece
  const std::uint64_t packed = packed_bytes(info.dtype, grid.chunk.numel());
  if (!place->range || grid.has_inner()) return;
  const std::uint64_t stored = place->range->end - place->range->begin;
  if (stored != packed && stored != packed + kChecksumBytes) return;
  const Shape steps = stored_strides(grid.chunk, grid.order);
  std::uint64_t offset = 0;
  for (std::size_t axis = 0; axis < piece.rank(); ++axis)
    offset += out.index[axis] % grid.chunk[axis] * steps[axis];
  out.byte = place->range->begin + offset * size_bits(info.dtype) / 8;
}

}  // namespace

ElementPlace element_place(const Checkpoint& checkpoint, std::uint32_t array, const Shape& index,
                           const std::string& root) {
  const TensorInfo& tensor = checkpoint.catalog().tensors[array];
  ElementPlace out;
  out.tensor = tensor.name;
  out.index = index;
  if (!tensor.is_whole()) {
    find_in_piece(checkpoint, array, root, out);
    return out;
  }
  std::uint64_t element = 0;
  for (std::size_t d = 0; d < index.rank(); ++d) element = element * tensor.shape[d] + index[d];
  out.file = checkpoint.catalog().files[tensor.file].name;
  out.byte = tensor.begin_bytes + element * size_bits(tensor.dtype) / 8;
  return out;
}

ElementPlace element_place(const Model& model, std::uint32_t leaf, std::uint64_t element,
                           const std::string& root) {
  const Leaf& info = model.leaves[leaf];
  Box box{index_of(info.shape, element), info.shape};
  for (std::size_t d = 0; d < info.shape.rank(); ++d) box.extent[d] = 1;
  ElementPlace out;
  for (const std::uint32_t t : model.transfers_of(leaf)) {
    const Transfer& transfer = model.transfers[t];
    SourcePartCursor parts(transfer, transfer.map, info, box);
    const SourcePart* part = parts.next();
    if (part == nullptr) continue;
    const std::uint32_t array = transfer.sources[part->source];
    const TensorInfo& tensor = model.catalog().tensors[array];
    out.tensor = tensor.name;
    out.index = index_of(transfer.source_shape, part->map.src_base);
    if (!tensor.is_whole()) {
      find_in_piece(model.source(), array, root, out);
      break;
    }
    out.file = model.catalog().files[tensor.file].name;
    out.byte = tensor.begin_bytes + part->map.src_base * size_bits(transfer.source_dtype) / 8;
    break;
  }
  return out;
}

}  // namespace hfshard
