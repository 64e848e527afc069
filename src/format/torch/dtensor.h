#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "format/pickle.h"

#include "hfshard/dtype.h"

namespace hfshard::format::torch {

/// How one axis of a mesh splits a tensor: along this dim, or kReplicated.
using Placement = std::uint8_t;
inline constexpr Placement kReplicated = 255;

/// The sizes of a mesh of devices, by axis.
using DeviceMesh = std::vector<std::uint64_t>;

/// The mesh that a pickle states.
struct StatedMesh {
  DeviceMesh sizes;         ///< empty if the pickle doesn't state them in a known way
  bool is_in_order = true;  ///< rank 0 is the first of the mesh, and so on
};

/// A DTensor in a pickle: one rank's part of a tensor.
struct DTensorPickle {
  Pickle::Id local = 0;               ///< the part, a tensor
  Shape shape;                        ///< of the whole tensor, in units
  std::vector<Placement> placements;  ///< by axis of the mesh
  StatedMesh mesh;
};

/// Empty if a value isn't a DTensor. Throws: unsupported (a placement that is neither a shard nor a
/// replica), corrupt. Source: pytorch/pytorch torch/_tensor.py _rebuild_from_type_v2,
/// torch/_utils.py _rebuild_wrapper_subclass, torch/distributed/tensor/_dtensor_spec.py,
/// placement_types.py, torch/distributed/device_mesh.py, _mesh_layout.py.
std::optional<DTensorPickle> find_dtensor(const Pickle& pickle, Pickle::Id id);

}  // namespace hfshard::format::torch
