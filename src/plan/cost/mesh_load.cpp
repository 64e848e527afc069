#include "plan/cost/mesh_load.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/checked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// How one leaf is spread over the mesh.
struct Spread {
  std::vector<std::vector<std::size_t>> axes;  // per dim: mesh axes, slow to fast
  Shape shard;                                 // extents
};

Spread spread_of(const Leaf& leaf, const AxisRules& rules, const Mesh& mesh, bool uneven) {
  Spread out;
  const Shape counts = shard_counts(leaf, rules, mesh, uneven);
  const auto names = logical_to_mesh_axes(leaf.axes, rules);
  for (std::size_t dim = 0; dim < leaf.shape.rank(); ++dim) {
    out.shard.push_back(ceil_div(leaf.shape[dim], std::max<std::uint64_t>(counts[dim], 1)));
    std::vector<std::size_t> axes;
    if (dim < names.size()) {
      for (const std::string& name : names[dim]) {
        const auto at = std::ranges::find(mesh.axes, name, &Mesh::Axis::name);
        if (at != mesh.axes.end()) axes.push_back(static_cast<std::size_t>(at - mesh.axes.begin()));
      }
    }
    out.axes.push_back(std::move(axes));
  }
  return out;
}

// Coordinates of a device on the mesh.
std::vector<std::uint64_t> coordinates(const Mesh& mesh, std::uint64_t device) {
  std::vector<std::uint64_t> out(mesh.axes.size());
  for (std::size_t axis = mesh.axes.size(); axis-- > 0;) {
    out[axis] = device % mesh.axes[axis].size;
    device /= mesh.axes[axis].size;
  }
  return out;
}

// Which shard of a leaf a device holds, per dim.
std::vector<std::uint64_t> shard_of(const Spread& spread, const Mesh& mesh,
                                    const std::vector<std::uint64_t>& device) {
  std::vector<std::uint64_t> out;
  for (const std::vector<std::size_t>& axes : spread.axes) {
    std::uint64_t index = 0;
    for (const std::size_t axis : axes) index = index * mesh.axes[axis].size + device[axis];
    out.push_back(index);
  }
  return out;
}

// Returns a shard's part of a leaf. The last shards can be smaller than others, or empty.
Box box_of_shard(const std::vector<std::uint64_t>& shard, const Shape& extent, const Shape& shape) {
  Box out;
  for (std::size_t dim = 0; dim < shard.size(); ++dim) {
    const std::uint64_t begin = std::min(shard[dim] * extent[dim], shape[dim]);
    out.begin.push_back(begin);
    out.extent.push_back(std::min(extent[dim], shape[dim] - begin));
  }
  return out;
}

// The cells of `extent` that a box touches.
Box cells_of(const Box& box, const Shape& extent) {
  Box out;
  for (std::size_t dim = 0; dim < extent.rank(); ++dim) {
    const std::uint64_t begin = box.begin[dim] / extent[dim];
    out.begin.push_back(begin);
    out.extent.push_back(ceil_div(box.begin[dim] + box.extent[dim], extent[dim]) - begin);
  }
  return out;
}

// Number of cells in a union of boxes, by cutting space at all of their sides.
std::uint64_t count_union(const std::vector<Box>& boxes) {
  if (boxes.size() == 1) return boxes.front().extent.numel();
  const std::size_t rank = boxes.front().extent.rank();
  std::vector<std::vector<std::uint64_t>> sides(rank);
  Shape counts;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    for (const Box& box : boxes) {
      sides[dim].push_back(box.begin[dim]);
      sides[dim].push_back(box.begin[dim] + box.extent[dim]);
    }
    std::ranges::sort(sides[dim]);
    sides[dim].erase(std::unique(sides[dim].begin(), sides[dim].end()), sides[dim].end());
    counts.push_back(sides[dim].size() - 1);
  }
  std::uint64_t total = 0;
  for_each_chunk(counts, [&](const Shape& at) {
    const bool covered = std::ranges::any_of(boxes, [&](const Box& box) {
      for (std::size_t dim = 0; dim < rank; ++dim) {
        const std::uint64_t side = sides[dim][at[dim]];
        if (side < box.begin[dim] || side >= box.begin[dim] + box.extent[dim]) return false;
      }
      return true;
    });
    std::uint64_t cells = covered ? 1 : 0;
    for (std::size_t dim = 0; dim < rank; ++dim)
      cells *= sides[dim][at[dim] + 1] - sides[dim][at[dim]];
    total += cells;
    return true;
  });
  return total;
}

// Bytes of a stored cell, its checksum included, and of an outer chunk's index; compressed, at
// most.
struct CellBytes {
  std::uint64_t cell = 0;
  std::uint64_t index = 0;
};

CellBytes cell_bytes(const Layout& layout, std::uint32_t leaf) {
  const Grid& grid = layout.grids()[leaf];
  if (grid.linked) return {packed_bytes(layout.model().leaves[leaf].dtype, grid.chunk.numel()), 0};
  const PieceForm& form = layout.units()[leaf].form;
  // A chunk without inner chunks is read with its head and tail, in one request.
  if (!grid.has_inner()) return {form.stored_bytes(), 0};
  return {form.cell_step_bytes(), std::uint64_t{form.head_bytes} + form.tail_bytes};
}

// Adds what the devices of one host need of one leaf. Returns the bytes of the largest request of a
// shard.
std::uint64_t add_leaf(const Layout& layout, std::uint32_t index, const Spread& spread,
                       const Mesh& mesh, std::uint64_t first_device, std::uint64_t devices,
                       HostLoad& host) {
  const Leaf& leaf = layout.model().leaves[index];
  const Grid& grid = layout.grids()[index];
  if (leaf.shape.numel() == 0) return 0;
  std::set<std::vector<std::uint64_t>> shards;
  for (std::uint64_t d = 0; d < devices; ++d)
    shards.insert(shard_of(spread, mesh, coordinates(mesh, first_device + d)));
  std::vector<Box> cells;
  std::vector<Box> chunks;
  std::uint64_t request = 0;
  for (const auto& shard : shards) {
    const Box box = box_of_shard(shard, spread.shard, leaf.shape);
    if (box.extent.numel() == 0) continue;
    host.needed_bytes += packed_bytes(leaf.dtype, box.extent.numel());
    cells.push_back(cells_of(box, grid.inner));
    chunks.push_back(cells_of(box, grid.chunk));
    const std::uint64_t wanted = cells.back().extent.numel() * grid.inner.numel();
    request = std::max(request, packed_bytes(leaf.dtype, wanted));
  }
  if (cells.empty()) return 0;
  const CellBytes bytes = cell_bytes(layout, index);
  const std::uint64_t touched = count_union(cells);
  const std::uint64_t indices = bytes.index > 0 ? count_union(chunks) : 0;
  host.read_bytes += touched * bytes.cell + indices * bytes.index;
  host.requests += touched + indices;
  return request;
}

}  // namespace

std::uint64_t LoadCost::needed_bytes() const {
  std::uint64_t out = 0;
  for (const HostLoad& host : hosts) out += host.needed_bytes;
  return out;
}

std::uint64_t LoadCost::read_bytes() const {
  std::uint64_t out = 0;
  for (const HostLoad& host : hosts) out += host.read_bytes;
  return out;
}

namespace {

std::uint64_t devices_of(const Mesh& mesh, std::uint64_t devices_per_host) {
  constexpr std::uint64_t kMaxDevices = std::uint64_t{1} << 16;
  constexpr std::uint64_t kMaxDevicesPerHost = 256;
  if (devices_per_host > kMaxDevicesPerHost) {
    throw Error(ErrorCode::limit, fmt::format("{} devices on one host; hfshard counts at most {}",
                                              devices_per_host, kMaxDevicesPerHost));
  }
  std::uint64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.size > kMaxDevices / devices) {
      throw Error(ErrorCode::limit, fmt::format("the mesh {} has more than {} devices",
                                                to_string(mesh), kMaxDevices));
    }
    devices *= axis.size;
  }
  return devices;
}

}  // namespace

LoadCost load_cost(const Layout& layout, const AxisRules& rules, const Mesh& mesh,
                   std::uint64_t devices_per_host) {
  LoadCost out;
  out.mesh = mesh;
  const std::uint64_t devices = devices_of(mesh, devices_per_host);
  if (devices % devices_per_host != 0) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{} devices of the mesh {} don't divide into hosts of {}", devices,
                            to_string(mesh), devices_per_host));
  }
  out.hosts.resize(devices / devices_per_host);
  for (std::uint32_t leaf = 0; leaf < layout.model().leaves.size(); ++leaf) {
    const Spread spread =
        spread_of(layout.model().leaves[leaf], rules, mesh, layout.files().ceil_shards);
    std::uint64_t largest = 0;
    for (std::uint64_t host = 0; host < out.hosts.size(); ++host) {
      largest = std::max(largest, add_leaf(layout, leaf, spread, mesh, host * devices_per_host,
                                           devices_per_host, out.hosts[host]));
    }
    out.largest_request_bytes = std::max(out.largest_request_bytes, largest);
    if (largest >= layout.files().refused_request_bytes) out.refused.push_back(leaf);
  }
  return out;
}

}  // namespace hfshard
