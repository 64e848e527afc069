#include "format/dcp/write.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32.h"
#include "format/archive.h"
#include "format/dcp/archive_write.h"
#include "format/dcp/metadata.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/tensor_pickle.h"
#include "format/torch_dtype.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// Returns the extent of a piece within its array, in units.
Shape part_in_array(const ChunkOf& chunk) {
  const DType dtype = chunk.leaf->dtype;
  const Shape shape = to_units(dtype, chunk.leaf->shape);
  Shape out = to_units(dtype, chunk.grid->chunk);
  for (std::size_t d = 0; d < out.rank(); ++d)
    out[d] = std::min(out[d], shape[d] - chunk.at[d] * out[d]);
  return out;
}

// Packs the elements of a box that is part of a larger one, at the front.
void close_up(std::span<std::byte> elements, const Shape& larger, const Shape& box,
              std::uint64_t unit) {
  std::size_t level = box.rank();
  std::uint64_t run = unit;
  while (level > 0 && (run *= box[level - 1], box[level - 1] == larger[level - 1])) --level;
  if (level <= 1) return;  // rows of the slowest axis are contiguous
  // Counts the axes before `level`. A row along the last of them moves at once.
  const std::size_t counted = level - 1;
  const Shape strides = larger.strides();
  std::vector<std::uint64_t> at(counted, 0);
  for (std::uint64_t to = 0;; to += run) {
    std::uint64_t from = 0;
    for (std::size_t d = 0; d < counted; ++d) from += at[d] * strides[d] * unit;
    std::memmove(elements.data() + to, elements.data() + from, run);
    std::size_t d = counted;
    while (d > 0 && ++at[d - 1] == box[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

void put(std::string_view text, std::span<std::byte> to) {
  HFSHARD_CHECK(text.size() <= to.size());
  std::ranges::copy(as_bytes(text), to.begin());
}

}  // namespace

PieceForm piece_form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) {
  try {
    if (torch_dtype(leaf.dtype) == nullptr)
      throw Error(ErrorCode::unsupported,
                  fmt::format("PyTorch doesn't have the dtype {}", to_string(leaf.dtype)));
    if (encoding.zstd_level != 0)
      throw Error(ErrorCode::unsupported, "DCP checkpoints can't be compressed");
    if (size_bits(leaf.dtype) < 8)
      throw Error(ErrorCode::unsupported,
                  fmt::format("elements of {} can't be moved one by one", to_string(leaf.dtype)));
    HFSHARD_CHECK(!grid.has_inner());
    const Shape chunk = to_units(leaf.dtype, grid.chunk);
    PieceForm out;
    out.cell_bytes = chunk.numel() * unit_bytes(leaf.dtype);
    const ArchiveForm around =
        archive_form(tensor_pickle(leaf.dtype, chunk).size(), out.cell_bytes);
    out.head_bytes = static_cast<std::uint32_t>(around.head_bytes);
    out.tail_bytes = static_cast<std::uint32_t>(around.tail_bytes);
    return out;
  } catch (Error& error) {  // only here is the leaf known
    throw error.in_tensor(leaf.name);
  }
}

std::uint64_t seal_piece(const PieceForm& form, const ChunkOf& chunk, std::span<std::byte> stored) {
  HFSHARD_CHECK(stored.size() == form.stored_bytes());
  const DType dtype = chunk.leaf->dtype;
  const Shape part = part_in_array(chunk);
  const std::uint64_t unit = unit_bytes(dtype);
  const std::uint64_t size = part.numel() * unit;
  const auto elements = stored.subspan(form.head_bytes, size);
  close_up(stored.subspan(form.head_bytes), to_units(dtype, chunk.grid->chunk), part, unit);
  const std::uint32_t crc = crc32(elements);
  const std::string pickle = tensor_pickle(dtype, part);
  put(archive_head(pickle, size, crc, form.head_bytes), stored);
  const std::string tail = archive_tail(pickle, size, crc, form.head_bytes);
  put(tail, stored.subspan(form.head_bytes + size));
  const std::uint64_t length = form.head_bytes + size + tail.size();
  std::ranges::fill(stored.subspan(length), std::byte{0});
  return length;
}

bool is_written_name(std::string_view name) {
  if (name == kMetadataFile) return true;
  if (!name.starts_with(kDataPrefix) || !name.ends_with(kDataSuffix)) return false;
  name.remove_prefix(kDataPrefix.size());
  if (name.size() < kDataSuffix.size()) return false;
  name.remove_suffix(kDataSuffix.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace hfshard::format::dcp
