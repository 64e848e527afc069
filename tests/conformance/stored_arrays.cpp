#include "conformance/stored_arrays.h"

#include <vector>

#include "catalog/grid.h"
#include "ops/read_piece.h"
#include "support/checkpoint_builder.h"

namespace hfshard::conformance {

std::string read_array(const Checkpoint& opened, const std::string& name) {
  const std::uint32_t array = opened.catalog().find(name).value();
  const TensorInfo& info = opened.catalog().tensors[array];
  const Shape chunk = opened.catalog().grid_of(array).chunk;
  std::string out(packed_bytes(info.dtype, info.shape.numel()), '?');
  std::vector<std::byte> scratch(row_major_scratch_bytes(opened, array));
  for_each_chunk(chunk_counts(info.shape, chunk), [&](const Shape& piece) {
    std::string box(packed_bytes(info.dtype, chunk.numel()), '?');
    read_row_major(opened, array, piece, std::as_writable_bytes(std::span(box)), scratch);
    Shape origin = piece;
    for (std::size_t d = 0; d < piece.rank(); ++d) origin[d] *= chunk[d];
    copy_box(out, info.shape, box, chunk, origin, size_bits(info.dtype) / 8, /*back=*/true);
  });
  return out;
}

std::string differing_arrays(const Checkpoint& opened, const std::vector<Expected>& wanted) {
  std::string out;
  for (const Expected& each : wanted) {
    const auto array = opened.catalog().find(each.name);
    const bool same = array && opened.catalog().tensors[*array].dtype == each.dtype &&
                      opened.catalog().tensors[*array].shape == each.shape &&
                      read_array(opened, each.name) == each.bytes;
    if (!same) out += each.name.substr(0, 60) + "\n";
  }
  return out;
}

}  // namespace hfshard::conformance
