#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "format/orbax/zarr/chunk_reader.h"
#include "support/memory_source.h"

namespace hfshard::format::orbax::zarr {

/// Decodes a stored chunk, in steps of `step` bytes or at once.
inline std::string read_chunk(const Array& array, const Shape& chunk, const Source& source,
                              std::size_t step = 0) {
  const PieceForm form = array.form();
  const PieceSteps steps = step == 0 ? PieceSteps::whole_cells : PieceSteps::any;
  std::vector<std::byte> scratch(chunk_scratch_bytes(array, form, source.size_bytes(), steps));
  ChunkReader reader(array, form, chunk, source, steps, scratch);
  std::string out(form.cells * form.cell_bytes, '?');
  if (step == 0) step = out.size();
  for (std::size_t at = 0; at < out.size(); at += step) {
    const auto left = std::as_writable_bytes(std::span(out)).subspan(at);
    reader.read(left.first(std::min(step, left.size())));
  }
  return out;
}

inline std::string read_chunk(const Array& array, const Shape& chunk, const std::string& stored,
                              std::size_t step = 0) {
  return read_chunk(array, chunk, MemorySource(stored), step);
}

}  // namespace hfshard::format::orbax::zarr
