// Cuts leaves with random extents (primes among them), shards, dtypes, orders and limits.

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/checked.h"
#include "format/orbax/zarr/array.h"
#include "plan/layout/cut_grid.h"
#include "unit/ops/reference.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;

constexpr std::uint64_t kSeed = 20240;
constexpr int kRounds = 20000;
constexpr std::uint64_t kPrimes[] = {2,   3,    5,    7,     11,    13,     31,      61,      127,
                                     509, 1009, 4093, 32749, 75853, 151673, 1000003, 15485863};
constexpr DType kDTypes[] = {DType::bf16, DType::f32, DType::u8, DType::i64, DType::f4};

struct Case {
  Leaf leaf;
  Shape shard;
  std::vector<std::size_t> order;
  std::vector<bool> in_row;
  std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
  Limits limits;

  std::uint64_t bits() const { return size_bits(leaf.dtype); }
  bool is_sharded(std::size_t d) const { return shard[d] != leaf.shape[d]; }
  std::string text() const {
    std::string out = fmt::format("seed {}: {} {} shard {} order {} chunk_bytes {} floor {}", kSeed,
                                  to_string(leaf.dtype), to_string(leaf.shape), to_string(shard),
                                  fmt::join(order, " "), chunk_bytes, limits.floor_bytes);
    for (std::size_t d = 0; d < order.size(); ++d)
      out += fmt::format(" {}{}", leaf.is_stacked(d) ? "s" : "-", in_row[d] ? "r" : "-");
    return out;
  }
  Grid cut() const { return cut_grid(leaf, shard, order, chunk_bytes, limits, in_row); }
};

std::uint64_t random_extent(Random& random, std::uint64_t most) {
  std::uint64_t out = 0;
  do {
    switch (pick(random, 0, 3)) {
      case 0:
        out = kPrimes[pick(random, 0, std::size(kPrimes) - 1)];
        break;
      case 1:
        out = kPrimes[pick(random, 0, 8)] << pick(random, 0, 12);
        break;
      case 2:
        out = pick(random, 1, 300000);
        break;
      default:
        out = std::uint64_t{1} << pick(random, 0, 18);
    }
  } while (out > most);
  return out;
}

// At most 2^38 elements. Every axis can be stacked, or split by some mesh.
Case random_case(Random& random, bool default_limits) {
  Case out;
  out.leaf.name = "x";
  out.leaf.dtype = kDTypes[pick(random, 0, std::size(kDTypes) - 1)];
  std::uint64_t room = std::uint64_t{1} << 38;
  const std::uint64_t rank = pick(random, 1, 4);
  std::uint64_t stacked = 0;
  for (std::uint64_t d = 0; d < rank; ++d) {
    const std::uint64_t extent = random_extent(random, room);
    const bool stack = rank > 1 && pick(random, 0, 4) == 0 && stacked++ == 0;
    const std::uint64_t shards = !stack && pick(random, 0, 2) == 0 ? pick(random, 1, 64) : 1;
    out.leaf.shape.push_back(extent * shards <= room ? extent * shards : extent);
    out.shard.push_back(extent);
    out.leaf.stacked.push_back(stack);
    room /= out.leaf.shape[d];
  }
  out.order.resize(rank);
  std::iota(out.order.begin(), out.order.end(), std::size_t{0});
  for (std::size_t d = rank; d > 1; --d)
    std::swap(out.order[d - 1], out.order[pick(random, 0, d - 1)]);
  out.in_row.assign(rank, false);
  if (!out.leaf.is_stacked(out.order.back())) out.in_row[out.order.back()] = true;
  if (default_limits) return out;
  out.chunk_bytes = std::uint64_t{1} << pick(random, 16, 26);
  out.limits.floor_bytes = std::uint64_t{1} << pick(random, 14, 20);
  out.limits.fan_bytes = std::uint64_t{1} << pick(random, 22, 27);
  out.limits.fan_small_bytes = out.limits.fan_bytes * 2;
  out.limits.slab_bytes = out.limits.fan_bytes * 2;
  out.limits.outer_shards = pick(random, 1, 64);
  return out;
}

// Returns the bytes of elements in all chunks. Edge chunks are stored in full.
std::uint64_t stored_bytes(const Case& one, const Grid& grid) {
  const std::uint64_t chunks = chunk_counts(one.leaf.shape, grid.chunk).numel();
  return chunks * ceil_div(grid.chunk.numel() * one.bits(), 8);
}

std::uint64_t data_bytes(const Case& one) {
  return ceil_div(one.leaf.shape.numel() * one.bits(), 8);
}

std::uint64_t unit_bytes(const Case& one, const Grid& grid) {
  std::uint64_t out = one.bits();
  for (std::size_t d = 0; d < grid.chunk.rank(); ++d)
    out *= one.in_row[d] ? round_up(one.leaf.shape[d], grid.chunk[d]) : grid.chunk[d];
  return out / 8;
}

// Returns whether an inner chunk ends at every end of the axis's shards.
bool follows_shards(const Case& one, const Grid& grid, std::size_t d) {
  return one.leaf.is_stacked(d) || !one.is_sharded(d) || one.shard[d] % grid.inner[d] == 0;
}

// Returns whether inner chunks that follow the mesh would be too small for their index.
bool tiny_cells(const Case& one, const Grid& grid) {
  std::uint64_t bits = one.bits();
  for (std::size_t d = 0; d < grid.chunk.rank(); ++d)
    bits *= one.is_sharded(d) ? std::gcd(grid.chunk[d], one.shard[d]) : grid.chunk[d];
  return grid.inner == grid.chunk && bits / 8 < one.limits.floor_bytes / 4096;
}

template <typename Check>
void for_random_cases(bool default_limits, const Check& check) {
  Random random(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Case one = random_case(random, default_limits);
    SCOPED_TRACE(one.text());
    const Grid grid = one.cut();
    check(one, grid);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(GridProperty, EdgeChunksAddLessThanATenth) {
  for (const bool default_limits : {true, false}) {
    for_random_cases(default_limits, [](const Case& one, const Grid& grid) {
      const std::uint64_t stored = stored_bytes(one, grid);
      EXPECT_GE(stored, data_bytes(one));
      // A chunk of packed codes can end within a byte if the leaf's own extents do.
      const std::uint64_t chunks = chunk_counts(one.leaf.shape, grid.chunk).numel();
      EXPECT_LE(stored, data_bytes(one) + data_bytes(one) / 16 + (one.bits() < 8 ? chunks : 0))
          << to_string(grid.chunk);
      for (std::size_t d = 0; d < grid.chunk.rank(); ++d)
        EXPECT_EQ(grid.chunk[d] % grid.inner[d], 0U);
    });
  }
}

TEST(GridProperty, WithChecksumsIndexAndAlignmentLeavesTakeATenthMoreAndAnAlignmentAChunk) {
  for_random_cases(true, [](const Case& one, const Grid& grid) {
    if (one.bits() < 8) return;  // zarr doesn't have such types
    const PieceForm form =
        format::orbax::zarr::make_array(one.leaf.dtype, one.leaf.shape, grid, {}).form();
    const std::uint64_t chunks = chunk_counts(one.leaf.shape, grid.chunk).numel();
    const std::uint64_t alignment = one.limits.alignment_bytes;
    const std::uint64_t data = data_bytes(one);
    EXPECT_LE(chunks * round_up(form.stored_bytes(), alignment),
              data + data / 10 + chunks * (alignment + 4))
        << to_string(grid.chunk) << " inner " << to_string(grid.inner);
  });
}

TEST(GridProperty, ChunksAreNotTiny) {
  for (const bool default_limits : {true, false}) {
    for_random_cases(default_limits, [](const Case& one, const Grid& grid) {
      const std::uint64_t chunks = chunk_counts(one.leaf.shape, grid.chunk).numel();
      std::uint64_t shards = 1;
      for (std::size_t d = 0; d < one.shard.rank(); ++d) {
        if (!one.leaf.is_stacked(d)) shards *= one.leaf.shape[d] / one.shard[d];
      }
      // As many as the sizes need, times four, or as a part of the floor needs.
      const std::uint64_t floor = std::min(one.chunk_bytes, one.limits.floor_bytes);
      const std::uint64_t least = data_bytes(one) * 32 / floor + 1;
      std::uint64_t layers = 1;
      for (std::size_t d = 0; d < one.shard.rank(); ++d)
        layers *= one.leaf.is_stacked(d) ? one.leaf.shape[d] : 1;
      EXPECT_LE(chunks, std::max(least, 4 * std::min(shards, one.limits.outer_shards) * layers))
          << to_string(grid.chunk);
    });
  }
}

TEST(GridProperty, UnitsFitInTheSlabAndChunksFollowShards) {
  for (const bool default_limits : {true, false}) {
    std::uint64_t across = 0;
    for_random_cases(default_limits, [&](const Case& one, const Grid& grid) {
      std::uint64_t row = one.bits();
      for (std::size_t d = 0; d < one.shard.rank(); ++d)
        row *= one.in_row[d] ? one.leaf.shape[d] : 1;
      // A unit has at least one row of the source.
      if (row / 8 <= one.limits.slab_bytes / 2) {
        EXPECT_LE(unit_bytes(one, grid), one.limits.slab_bytes) << to_string(grid.chunk);
      }
      for (std::size_t d = 0; d < grid.chunk.rank(); ++d) {
        if (follows_shards(one, grid, d) || tiny_cells(one, grid)) continue;
        if (grid.chunk == one.leaf.shape) continue;  // not above the floor
        ++across;
        EXPECT_LE(grid.chunk[d], one.shard[d] / 32) << to_string(grid.chunk);
      }
    });
    EXPECT_GT(across, 0U);
    EXPECT_LT(across, kRounds / 50U);
  }
}

// A search that tried every divisor of such an extent wouldn't end.
TEST(GridProperty, AnyExtentsAreCut) {
  Random random(kSeed + 1);
  for (int i = 0; i < 200; ++i) {
    Case one = random_case(random, true);
    for (std::size_t d = 0; d < one.shard.rank(); ++d) one.leaf.shape[d] = one.shard[d] = 1;
    const std::size_t long_axis = pick(random, 0, one.shard.rank() - 1);
    // Includes the largest primes below powers of two, and their neighbors.
    const std::uint64_t extent = ((std::uint64_t{1} << pick(random, 30, 49)) - pick(random, 1, 99));
    one.leaf.shape[long_axis] = one.shard[long_axis] = extent;
    const Grid grid = one.cut();
    EXPECT_LE(stored_bytes(one, grid), data_bytes(one) / 16 * 17 + 64) << one.text();
  }
}

}  // namespace
}  // namespace hfshard
