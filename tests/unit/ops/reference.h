#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "ops/index_map.h"

namespace hfshard::reference {

using Pair = std::pair<std::uint64_t, std::uint64_t>;

/// Returns all (source, target) offsets of a map, sorted. Slow on purpose.
inline std::vector<Pair> pairs(const IndexMap& map) {
  std::vector<Pair> out{{map.src_base, map.dst_base}};
  for (const Digit& digit : map.digits) {
    std::vector<Pair> next;
    for (const Pair& pair : out) {
      for (std::uint64_t i = 0; i < digit.extent; ++i) {
        next.emplace_back(pair.first + i * static_cast<std::uint64_t>(digit.src_step),
                          pair.second + i * static_cast<std::uint64_t>(digit.dst_step));
      }
    }
    out = std::move(next);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns those of several maps, sorted.
inline std::vector<Pair> pairs(const std::vector<IndexMap>& maps) {
  std::vector<Pair> out;
  for (const IndexMap& map : maps) {
    const std::vector<Pair> part = pairs(map);
    out.insert(out.end(), part.begin(), part.end());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns how often each element of [0, numel) is covered on one side. All offsets must be in
/// range.
inline std::vector<std::uint64_t> times_covered(std::uint64_t numel,
                                                const std::vector<IndexMap>& maps, Side side) {
  std::vector<std::uint64_t> out(numel, 0);
  for (const IndexMap& map : maps) {
    for (const Pair& pair : pairs(map)) ++out.at(side == Side::target ? pair.second : pair.first);
  }
  return out;
}

inline void move_elements(const IndexMap& map, std::size_t element_bytes, const std::byte* src,
                          std::byte* dst) {
  for (const Pair& pair : pairs(map)) {
    std::memcpy(dst + pair.second * element_bytes, src + pair.first * element_bytes, element_bytes);
  }
}

using Random = std::mt19937_64;

/// Returns a uniform number in [low, high].
inline std::uint64_t pick(Random& random, std::uint64_t low, std::uint64_t high) {
  return low + random() % (high - low + 1);
}

inline std::vector<std::byte> random_bytes(Random& random, std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random() & 0xffU);
  return out;
}

inline constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32};

/// A compiled rule of the mapping language: both shapes over the same dims.
struct Rule {
  Shape src_shape;
  Shape dst_shape;
  IndexMap map;
};

/// One side of a random rule: dims in a random order, grouped into axes, with windows and fixed
/// indices.
struct RandomSide {
  Shape shape;
  std::uint64_t base = 0;
  std::vector<std::int64_t> steps;  ///< of each dim

  RandomSide(Random& random, const std::vector<std::uint64_t>& dims) : steps(dims.size()) {
    std::vector<std::size_t> order(dims.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::uint64_t> axes;  // fast to slow
    std::uint64_t step = 1;
    for (std::size_t i = 0; i < order.size();) {
      if (random() % 8 == 0) {
        const std::uint64_t extent = pick(random, 1, 3);
        base += pick(random, 0, extent - 1) * step;
        step *= extent;
        axes.push_back(extent);
      }
      const std::size_t end = std::min<std::size_t>(order.size(), i + pick(random, 1, 3));
      const std::size_t window_end = random() % 3 == 0 ? pick(random, i + 1, end) : i;
      const std::uint64_t axis_step = step;
      for (; i < end; ++i) {
        steps[order[i]] = static_cast<std::int64_t>(step);
        step *= dims[order[i]];
        if (i + 1 == window_end) {
          const std::uint64_t product = step / axis_step;
          const std::uint64_t total = product + pick(random, 0, 5);
          base += pick(random, 0, total - product) * axis_step;
          step = axis_step * total;
        }
      }
      axes.push_back(step / axis_step);
    }
    for (std::size_t i = axes.size(); i-- > 0;) shape.push_back(axes[i]);
  }
};

/// Its dims are pairwise different.
inline Rule random_rule(Random& random, std::size_t max_dims = 5, std::uint64_t max_extent = 7) {
  std::vector<std::uint64_t> extents;
  for (std::uint64_t i = 1; i <= max_extent; ++i) extents.push_back(i);
  std::shuffle(extents.begin(), extents.end(), random);
  extents.resize(pick(random, 0, std::min<std::uint64_t>(max_dims, extents.size())));
  const RandomSide src(random, extents);
  const RandomSide dst(random, extents);
  Rule rule{.src_shape = src.shape, .dst_shape = dst.shape, .map = {}};
  rule.map.src_base = src.base;
  rule.map.dst_base = dst.base;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    rule.map.digits.push_back({extents[i], src.steps[i], dst.steps[i]});
  }
  return rule;
}

}  // namespace hfshard::reference
