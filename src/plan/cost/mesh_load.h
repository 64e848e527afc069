#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/layout/mesh.h"

namespace hfshard {

/// The bytes that one host reads to load a checkpoint.
struct HostLoad {
  std::uint64_t needed_bytes = 0;  ///< its devices' distinct shards
  std::uint64_t read_bytes = 0;    ///< distinct stored chunks
  std::uint64_t requests = 0;      ///< byte ranges
};

/// The cost of loading a checkpoint on a mesh.
struct LoadCost {
  Mesh mesh;
  std::vector<HostLoad> hosts;
  std::uint64_t largest_request_bytes = 0;  ///< cells for one shard of a leaf
  std::vector<std::uint32_t> refused;       ///< leaves that the loader refuses
  std::uint64_t needed_bytes() const;
  std::uint64_t read_bytes() const;
};

/// Returns the cost of loading. Devices are in the order of the mesh's axes, row-major, and
/// `devices_per_host` neighbors are one host. Each distinct chunk of a host is one request. With
/// inner chunks, each of those is, and the index of each outer one. TensorStore fetches whole
/// chunks, and merges concurrent requests for the same chunk. Throws: bad_input (a dimension does
/// not divide, or hosts do not).
LoadCost load_cost(const Layout& layout, const AxisRules& rules, const Mesh& mesh,
                   std::uint64_t devices_per_host);

}  // namespace hfshard
