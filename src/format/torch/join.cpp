#include "format/torch/join.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

// The dim along which the shards of a weight follow each other.
struct MetaRule {
  std::string_view name;
  std::uint8_t dim = 0;
};
constexpr std::array<MetaRule, 8> kMetaRules{{
    {"*attention.wq.weight", 0},
    {"*attention.wk.weight", 0},
    {"*attention.wv.weight", 0},
    {"*attention.wo.weight", 1},
    {"*feed_forward.w1.weight", 0},
    {"*feed_forward.w2.weight", 1},
    {"*feed_forward.w3.weight", 0},
    {"output.weight", 0},
}};
constexpr std::size_t kMostMeshAxes = 4;
constexpr std::string_view kEmbeddings = "tok_embeddings.weight";

AssembledBox box_of(const StoredView& view, std::uint32_t file, Shape begin) {
  return {file, view.begin_bytes, std::move(begin), view.units, view.strides};
}

Shape origin(const Shape& shape) {
  Shape out = shape;
  for (std::size_t d = 0; d < out.rank(); ++d) out[d] = 0;
  return out;
}

void check_alike(const Parts& parts) {
  for (const StoredView* part : parts) {
    if (part->dtype == parts[0]->dtype && part->units.rank() == parts[0]->units.rank()) continue;
    throw Error(ErrorCode::corrupt,
                fmt::format("the tensor is {} of {} in one file and {} of {} in another",
                            to_string(parts[0]->dtype), to_string(parts[0]->units),
                            to_string(part->dtype), to_string(part->units)));
  }
}

// Compares a part that several ranks have, as far as the CRCs of the files tell.
void check_replica(const StoredView& one, const StoredView& other) {
  const bool comparable = one.crc && other.crc && one.strides == other.strides &&
                          one.offset_bytes == other.offset_bytes;
  if (!comparable || *one.crc == *other.crc) return;
  throw Error(ErrorCode::corrupt, "ranks have different values of the same part of the tensor")
      .hint("pass --exclude with its name, or check which rank's file is right");
}

// Takes a tensor that is the same in all files from the first one.
Joined same_in_all(const Parts& parts) {
  const StoredView& first = *parts[0];
  for (const StoredView* part : parts) {
    if (part->units == first.units && part->strides == first.strides &&
        part->offset_bytes == first.offset_bytes && part->crc == first.crc &&
        (part->crc || parts.size() == 1))
      continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("hfshard can't tell how to join the tensor's {} parts", parts.size()))
        .hint("merge the files with the program that wrote them, and save as safetensors");
  }
  return {first.units, {box_of(first, 0, origin(first.units))}};
}

// Joins parts that follow each other along one dim.
Joined joined_along(const Parts& parts, std::size_t dim) {
  Joined out;
  out.units = parts[0]->units;
  if (dim >= out.units.rank()) throw Error(ErrorCode::corrupt, "the tensor has too few dims");
  out.units[dim] = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& units = parts[i]->units;
    for (std::size_t d = 0; d < units.rank(); ++d) {
      if (d != dim && units[d] != out.units[d]) {
        throw Error(ErrorCode::corrupt, fmt::format("shards of {} and {} don't fit each other",
                                                    to_string(parts[0]->units), to_string(units)));
      }
    }
    Shape begin = origin(units);
    begin[dim] = out.units[dim];
    const auto end = checked_add(out.units[dim], units[dim]);
    if (!end) throw Error(ErrorCode::corrupt, "the shards of the tensor end beyond all sizes");
    out.units[dim] = *end;
    if (parts[i]->size_bytes() > 0)
      out.boxes.push_back(box_of(*parts[i], static_cast<std::uint32_t>(i), std::move(begin)));
  }
  return out;
}

// The part of a rank on a mesh. Each axis that splits a dim splits the rest of the axes before it,
// with ceiling division. Source: pytorch/pytorch torch/distributed/tensor/_utils.py
// compute_local_shape_and_global_offset.
struct RankPart {
  Shape begin;
  Shape extent;
  bool is_first = true;  // among ranks with the same part
};
RankPart part_of(const Shard& shard, const std::vector<std::uint64_t>& mesh, std::uint64_t rank) {
  RankPart out{origin(shard.shape), shard.shape, true};
  std::uint64_t below = 1;
  for (const std::uint64_t size : mesh) below *= size;
  for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
    below /= mesh[axis];
    const std::uint64_t at = rank / below % mesh[axis];
    const Placement dim = shard.placements[axis];
    if (dim == kReplicated) {
      out.is_first = out.is_first && at == 0;
      continue;
    }
    const std::uint64_t each = ceil_div(out.extent[dim], mesh[axis]);
    const std::uint64_t from = std::min(out.extent[dim], at * each);
    out.begin[dim] += from;
    out.extent[dim] = std::min(each, out.extent[dim] - from);
  }
  return out;
}

bool fits(const Parts& parts, const std::vector<std::uint64_t>& mesh) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (!(part_of(*parts[rank]->shard, mesh, rank).extent == parts[rank]->units)) return false;
  }
  return true;
}

// Finds sizes for a mesh with so many axes on which the parts have their actual shapes.
std::optional<std::vector<std::uint64_t>> mesh_of(const Parts& parts, std::size_t axes) {
  std::vector<std::uint64_t> mesh(axes, 1);
  const std::function<bool(std::size_t, std::uint64_t)> choose = [&](std::size_t axis,
                                                                     std::uint64_t ranks) {
    if (axis + 1 == axes) {
      mesh[axis] = ranks;
      return fits(parts, mesh);
    }
    for (std::uint64_t size = 1; size <= ranks; ++size) {
      if (ranks % size != 0) continue;
      mesh[axis] = size;
      if (choose(axis + 1, ranks / size)) return true;
    }
    return false;
  };
  if (axes == 0 || axes > kMostMeshAxes || !choose(0, parts.size())) return std::nullopt;
  return mesh;
}

}  // namespace

Joined join_ranks(const Parts& parts) {
  check_alike(parts);
  const auto& first = parts[0]->shard;
  for (const StoredView* part : parts) {
    if (part->shard != first) {
      throw Error(ErrorCode::corrupt,
                  "ranks have different shapes or placements of the same tensor");
    }
  }
  if (!first) return same_in_all(parts);
  const auto mesh = mesh_of(parts, first->placements.size());
  if (!mesh) {
    throw Error(ErrorCode::corrupt, fmt::format("the parts of {} ranks don't form the tensor of {}",
                                                parts.size(), to_string(first->shape)));
  }
  Joined out{first->shape, {}};
  std::vector<const StoredView*> taken;  // of each box
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    RankPart part = part_of(*first, *mesh, rank);
    if (parts[rank]->size_bytes() == 0) continue;
    if (part.is_first) {
      taken.push_back(parts[rank]);
      out.boxes.push_back(
          box_of(*parts[rank], static_cast<std::uint32_t>(rank), std::move(part.begin)));
      continue;
    }
    const auto same = std::ranges::find(out.boxes, part.begin, &AssembledBox::begin);
    if (same != out.boxes.end())
      check_replica(*taken[static_cast<std::size_t>(same - out.boxes.begin())], *parts[rank]);
  }
  return out;
}

Joined join_shards(const Parts& parts, std::uint64_t width) {
  check_alike(parts);
  if (parts.size() == 1) return same_in_all(parts);
  const std::string& name = parts[0]->name;
  for (const MetaRule& rule : kMetaRules) {
    if (glob_match(rule.name, name)) return joined_along(parts, rule.dim);
  }
  // Llama 2 splits the model's width, Llama 3 the vocabulary.
  if (name == kEmbeddings && parts[0]->units.rank() == 2)
    return joined_along(parts, parts[0]->units[1] == width ? 0 : 1);
  return same_in_all(parts);
}

}  // namespace hfshard::format::torch
