#include "format/torch/mesh.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

constexpr std::size_t kMostMeshAxes = 4;
constexpr const char* kSaveFull =
    "save the full state (torch.distributed.checkpoint.state_dict, full_state_dict)";

std::string text_of(const DeviceMesh& mesh) {
  return fmt::format("({})", fmt::join(mesh.begin(), mesh.end(), ", "));
}

std::uint64_t ranks_of(const DeviceMesh& mesh) {
  std::uint64_t out = 1;
  for (const std::uint64_t size : mesh) {
    const auto product = checked_mul(out, size);
    if (!product) return 0;
    out = *product;
  }
  return out;
}

// Returns all meshes of so many ranks.
std::vector<DeviceMesh> meshes_of(std::uint64_t ranks, std::size_t axes) {
  std::vector<DeviceMesh> out;
  DeviceMesh mesh(axes, 1);
  const std::function<void(std::size_t, std::uint64_t)> choose = [&](std::size_t axis,
                                                                     std::uint64_t left) {
    if (axis + 1 == axes) {
      mesh[axis] = left;
      out.push_back(mesh);
      return;
    }
    for (std::uint64_t size = 1; size <= left; ++size) {
      if (left % size != 0) continue;
      mesh[axis] = size;
      choose(axis + 1, left / size);
    }
  };
  if (axes > 0 && axes <= kMostMeshAxes) choose(0, ranks);
  return out;
}

bool has_shapes(const Parts& parts, const DeviceMesh& mesh) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (!(part_of(*parts[rank]->shard, mesh, rank).extent == parts[rank]->units)) return false;
  }
  return true;
}

// Compares a part that several ranks have, as far as the CRCs of the files tell.
bool may_be_equal(const StoredView& one, const StoredView& other) {
  const bool comparable = one.crc && other.crc && one.strides == other.strides &&
                          one.offset_bytes == other.offset_bytes;
  return !comparable || *one.crc == *other.crc;
}

bool has_equal_replicas(const Parts& parts, const DeviceMesh& mesh) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank]->size_bytes() == 0) continue;
    const std::uint64_t first = part_of(*parts[rank]->shard, mesh, rank).first;
    if (!may_be_equal(*parts[first], *parts[rank])) return false;
  }
  return true;
}

bool places_alike(const Parts& parts, const DeviceMesh& one, const DeviceMesh& other) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank]->size_bytes() == 0) continue;
    const Shard& shard = *parts[rank]->shard;
    if (!(part_of(shard, one, rank).begin == part_of(shard, other, rank).begin)) return false;
  }
  return true;
}

void check_same_shard(const Parts& parts) {
  for (const StoredView* part : parts) {
    if (part->shard && !part->shard->is_in_order) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the ranks of the tensor's mesh {} aren't 0, 1, 2, ... in this order",
                              text_of(part->shard->mesh)))
          .hint(kSaveFull);
    }
    if (part->shard == parts[0]->shard) continue;
    throw Error(ErrorCode::corrupt,
                "ranks have different shapes, placements or meshes of the same tensor");
  }
}

DeviceMesh key_of(const Shard& shard) {
  return shard.mesh.empty() ? DeviceMesh(shard.placements.size(), 0) : shard.mesh;
}

std::vector<DeviceMesh> possible_meshes(const Parts& parts) {
  const Shard& shard = *parts[0]->shard;
  if (shard.mesh.empty()) return meshes_of(parts.size(), shard.placements.size());
  if (ranks_of(shard.mesh) != parts.size()) return {};
  return {shard.mesh};
}

[[noreturn]] void throw_ambiguous(std::size_t ranks, const std::vector<DeviceMesh>& meshes) {
  std::vector<std::string> texts;
  texts.reserve(meshes.size());
  for (const DeviceMesh& mesh : meshes) texts.push_back(text_of(mesh));
  throw Error(ErrorCode::unsupported,
              fmt::format("the files don't state the device mesh of their {} ranks; the meshes {} "
                          "fit, but join the tensor differently",
                          ranks, fmt::join(texts.begin(), texts.end(), " and ")))
      .hint(kSaveFull);
}

}  // namespace

void check_alike(const Parts& parts) {
  for (const StoredView* part : parts) {
    if (part->dtype == parts[0]->dtype && part->units.rank() == parts[0]->units.rank()) continue;
    throw Error(ErrorCode::corrupt,
                fmt::format("the tensor is {} of {} in one file and {} of {} in another",
                            to_string(parts[0]->dtype), to_string(parts[0]->units),
                            to_string(part->dtype), to_string(part->units)));
  }
}

RankPart part_of(const Shard& shard, const DeviceMesh& mesh, std::uint64_t rank) {
  RankPart out{shard.shape, shard.shape, 0};
  for (std::size_t d = 0; d < out.begin.rank(); ++d) out.begin[d] = 0;
  std::uint64_t below = 1;
  for (const std::uint64_t size : mesh) below *= size;
  for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
    below /= mesh[axis];
    const std::uint64_t at = rank / below % mesh[axis];
    const Placement dim = shard.placements[axis];
    if (dim == kReplicated) continue;
    const std::uint64_t each = ceil_div(out.extent[dim], mesh[axis]);
    const std::uint64_t from = std::min(out.extent[dim], at * each);
    out.begin[dim] += from;
    out.extent[dim] = std::min(each, out.extent[dim] - from);
    out.first += at * below;
  }
  return out;
}

void RankMeshes::narrow(const Parts& parts) {
  check_alike(parts);
  check_same_shard(parts);
  const auto& shard = parts[0]->shard;
  if (!shard) return;
  auto [known, fresh] = left_.try_emplace(key_of(*shard));
  if (fresh) known->second = possible_meshes(parts);
  std::vector<DeviceMesh>& left = known->second;
  std::erase_if(left, [&](const DeviceMesh& mesh) { return !has_shapes(parts, mesh); });
  if (left.empty()) {
    throw Error(ErrorCode::corrupt,
                fmt::format("the parts of {} ranks don't form the tensor of {}{}", parts.size(),
                            to_string(shard->shape),
                            shard->mesh.empty() ? "" : " on the mesh " + text_of(shard->mesh)));
  }
  std::erase_if(left, [&](const DeviceMesh& mesh) { return !has_equal_replicas(parts, mesh); });
  if (!left.empty()) return;
  throw Error(ErrorCode::corrupt, "ranks have different values of the same part of the tensor")
      .hint("pass --exclude with its name, or check which rank's file is right");
}

const DeviceMesh& RankMeshes::of(const Parts& parts) const {
  const auto known = left_.find(key_of(*parts[0]->shard));
  HFSHARD_CHECK(known != left_.end() && !known->second.empty());
  const std::vector<DeviceMesh>& left = known->second;
  for (const DeviceMesh& mesh : left) {
    if (!places_alike(parts, left[0], mesh)) throw_ambiguous(parts.size(), left);
  }
  return left[0];
}

}  // namespace hfshard::format::torch
