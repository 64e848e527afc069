// hfshard_testtool: the product with sizes that users cannot set, so that tiny fixtures have many
// chunks, tiles, files and journal records. Same command line, and anywhere in it one `--limits
// name=value,...` (fields of plan/limits.h). And one command more, since the product never writes
// out what it reads: `dump ORBAX LEAF FILE` writes a leaf's elements to a file, packed, row-major.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "base/text.h"
#include "plan/grid.h"
#include "plan/limits.h"
#include "run/target.h"
#include "target/orbax/orbax.h"
#include "tool/tool.h"

#include "hfshard/error.h"

namespace {

// The next place of a grid, row-major; false behind the last one.
bool advance(hfshard::Shape& at, const hfshard::Shape& counts) {
  std::size_t axis = at.rank();
  while (axis > 0 && ++at[axis - 1] == counts[axis - 1]) at[--axis] = 0;
  return axis > 0;
}

hfshard::Shape origin_of(std::size_t rank) {
  hfshard::Shape out;
  while (out.rank() < rank) out.push_back(0);
  return out;
}

// Copies the part of a packed chunk that lies in the packed array, element by element.
void copy_chunk(const hfshard::OpenedLeaf& leaf, const hfshard::Shape& chunk,
                std::span<const std::byte> from, std::span<std::byte> array) {
  const std::size_t element = hfshard::size_bits(leaf.dtype) / 8;
  const hfshard::Shape strides = leaf.shape.strides();
  hfshard::Shape at = origin_of(chunk.rank());
  std::size_t read = 0;
  do {
    std::uint64_t to = 0;
    bool inside = true;
    for (std::size_t axis = 0; axis < at.rank(); ++axis) {
      const std::uint64_t index = chunk[axis] * leaf.chunk_shape[axis] + at[axis];
      inside = inside && index < leaf.shape[axis];
      to += index * strides[axis];
    }
    if (inside) std::memcpy(array.data() + to * element, from.data() + read, element);
    read += element;
  } while (advance(at, leaf.chunk_shape));
}

int dump(const std::string& checkpoint, const std::string& path, const std::string& to) {
  const auto opened = hfshard::target::orbax::make_orbax_target()->open(checkpoint);
  const auto& leaves = opened->leaves();
  const auto found = std::ranges::find(leaves, path, &hfshard::OpenedLeaf::path);
  if (found == leaves.end()) {
    throw hfshard::Error(hfshard::ErrorCode::not_found, "no such leaf").in_tensor(path);
  }
  const auto index = static_cast<std::uint32_t>(found - leaves.begin());
  std::vector<std::byte> array(hfshard::packed_bytes(found->dtype, found->shape.numel()));
  std::vector<std::byte> chunk(hfshard::packed_bytes(found->dtype, found->chunk_shape.numel()));
  std::vector<std::byte> scratch(opened->scratch_bytes(index));
  const hfshard::Shape counts = hfshard::chunk_counts(found->shape, found->chunk_shape);
  hfshard::Shape at = origin_of(counts.rank());
  bool more = counts.numel() > 0;
  while (more) {
    opened->read_chunk(index, at, chunk, scratch);
    copy_chunk(*found, at, chunk, array);
    more = advance(at, counts);
  }
  std::ofstream file(to, std::ios::binary);
  file << hfshard::as_text(array);
  return file.flush() ? 0 : 4;
}

int dump_main(const std::vector<const char*>& words) {
  if (words.size() != 5) {
    std::fputs("hfshard_testtool: dump ORBAX LEAF FILE\n", stderr);
    return 2;
  }
  try {
    return dump(words[2], words[3], words[4]);
  } catch (const hfshard::Error& error) {
    std::fprintf(stderr, "hfshard_testtool: %s\n", error.format().c_str());
    return hfshard::exit_status(error.code());
  }
}

bool set_limits(hfshard::Limits& limits, std::string_view text) {
  using L = hfshard::Limits;
  const std::map<std::string, std::uint64_t L::*> fields = {
      {"floor_bytes", &L::floor_bytes},
      {"fan_bytes", &L::fan_bytes},
      {"fan_small_bytes", &L::fan_small_bytes},
      {"slab_bytes", &L::slab_bytes},
      {"run_bytes", &L::run_bytes},
      {"link_piece_bytes", &L::link_piece_bytes},
      {"file_min_bytes", &L::file_min_bytes},
      {"file_max_bytes", &L::file_max_bytes},
      {"file_share", &L::file_share},
      {"outer_shards", &L::outer_shards},
      {"alignment_bytes", &L::alignment_bytes},
      {"merge_bytes", &L::merge_bytes},
      {"segment_bytes", &L::segment_bytes},
      {"commit_bytes", &L::commit_bytes},
      {"commit_ms", &L::commit_ms},
      {"cached_bytes", &L::cached_bytes}};
  for (const std::string& part : hfshard::split(text, ',')) {
    const std::size_t equals = part.find('=');
    const auto field = fields.find(part.substr(0, equals));
    if (equals == std::string::npos || field == fields.end()) return false;
    limits.*(field->second) = std::strtoull(part.c_str() + equals + 1, nullptr, 10);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  hfshard::Limits limits;
  std::vector<const char*> rest(argv, argv + argc);
  if (rest.size() > 1 && std::string_view(rest[1]) == "dump") return dump_main(rest);
  for (std::size_t i = 1; i + 1 < rest.size(); ++i) {
    if (std::string_view(rest[i]) != "--limits") continue;
    if (!set_limits(limits, rest[i + 1])) {
      std::fputs("hfshard_testtool: unknown limit\n", stderr);
      return 2;
    }
    const auto at = rest.begin() + static_cast<std::ptrdiff_t>(i);
    rest.erase(at, at + 2);
    break;
  }
  return hfshard::tool_main(static_cast<int>(rest.size()), rest.data(), limits);
}
