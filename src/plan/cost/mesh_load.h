#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/layout/mesh.h"

namespace hfshard {

/// What one host reads of a checkpoint that it loads.
struct HostLoad {
  std::uint64_t needed_bytes = 0;  ///< its devices' shards, equal ones once
  std::uint64_t read_bytes = 0;    ///< the stored chunks that those touch, each once
  std::uint64_t requests = 0;      ///< byte ranges that are fetched
};

/// What loading a checkpoint on a mesh costs.
struct LoadCost {
  Mesh mesh;
  std::vector<HostLoad> hosts;
  std::uint64_t largest_request_bytes = 0;  ///< of one shard of one leaf: the cells that it touches
  std::vector<std::uint32_t> refused;       ///< leaves whose requests the format's loader refuses
  std::uint64_t needed_bytes() const;
  std::uint64_t read_bytes() const;
};

/// Devices of the mesh in the order of its axes, row-major; `devices_per_host` neighbours are one
/// host. A chunk (of inner chunks: each one, and the index of each outer one) is a request, however
/// many shards of the host touch it: TensorStore fetches whole chunks, and a chunk that is wanted
/// several times at once, once. Throws: bad_input (a dimension does not divide, or hosts do not).
LoadCost load_cost(const Layout& layout, const AxisRules& rules, const Mesh& mesh,
                   std::uint64_t devices_per_host);

}  // namespace hfshard
