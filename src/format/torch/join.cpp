#include "format/torch/join.h"

#include <algorithm>
#include <array>
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
constexpr std::string_view kEmbeddings = "tok_embeddings.weight";

AssembledBox box_of(const StoredView& view, std::uint32_t file, Shape begin) {
  return {file, view.begin_bytes, std::move(begin), view.units, view.strides};
}

Shape origin(const Shape& shape) {
  Shape out = shape;
  for (std::size_t d = 0; d < out.rank(); ++d) out[d] = 0;
  return out;
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

}  // namespace

Joined join_ranks(const Parts& parts, const RankMeshes& meshes) {
  const auto& shard = parts[0]->shard;
  if (!shard) return same_in_all(parts);
  const DeviceMesh& mesh = meshes.of(parts);
  Joined out{shard->shape, {}};
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    RankPart part = part_of(*shard, mesh, rank);
    if (parts[rank]->size_bytes() > 0 && part.first == rank)
      out.boxes.push_back(
          box_of(*parts[rank], static_cast<std::uint32_t>(rank), std::move(part.begin)));
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
