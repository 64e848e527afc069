#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "format/torch/torch_file.h"

#include "hfshard/dtype.h"

namespace hfshard::format::torch {

/// The parts of one tensor, one from each file, in the order of ranks.
using Parts = std::vector<const StoredView*>;

/// Checks that parts have one dtype and number of dims. Throws: corrupt.
void check_alike(const Parts& parts);

/// The elements that a rank has.
struct RankPart {
  Shape begin;
  Shape extent;
  std::uint64_t first = 0;  ///< the first rank with the same part
};

/// Returns the part of a rank on a mesh. Each axis that splits a dim splits the rest of the axes
/// before it, with ceiling division. Source: pytorch/pytorch torch/distributed/tensor/_utils.py
/// compute_local_shape_and_global_offset.
RankPart part_of(const Shard& shard, const DeviceMesh& mesh, std::uint64_t rank);

/// The meshes that the DTensors of a directory can be on. Call `narrow` with all tensors before
/// `of`.
class RankMeshes {
 public:
  /// Keeps the meshes on which the parts have their actual shapes and replicas have equal CRCs.
  /// Parts that aren't DTensors change nothing. Throws: corrupt (no mesh is left, or ranks describe
  /// the tensor differently), unsupported (a mesh in another order).
  void narrow(const Parts& parts);
  /// Returns a mesh for a tensor. Throws: unsupported (several are left, which place the parts
  /// differently).
  const DeviceMesh& of(const Parts& parts) const;

 private:
  // By the mesh that the files state, or by as many zeros as it has axes.
  std::map<DeviceMesh, std::vector<DeviceMesh>> left_;
};

}  // namespace hfshard::format::torch
