#include "run/engine/handover.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "run/engine/pipeline.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// Plain memory that travels with the tiles. The thread sanitizer is silent only because every
// filter hands over its writes (planted_race.cpp shows that it reports other races).
TEST(HandOver, WhatAFilterWritesIsSeenByTheNext) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  Arena arena(std::uint64_t{4} << 20);
  struct Sink final : TileSink {
    void store(const Tile& tile, std::span<const std::byte> region) override {
      for (const std::byte byte : region) wrong += byte != std::byte(tile.begin_address >> 12);
    }
    void commit(Tile& tile) override { sums.push_back(tile.digests.at(0).sum.low); }
    std::atomic<std::uint64_t> wrong = 0;
    std::vector<std::uint64_t> sums;
  } sink;
  const auto fill = [](Tile& tile) {
    for (std::byte& byte : tile.block.bytes().first(tile.region_bytes()))
      byte = std::byte(tile.begin_address >> 12);
    tile.digests.push_back({0, {tile.begin_address, 0}});
  };
  TileCursor cursor(plan, 0, plan.end_address(), nullptr, arena.size_bytes());
  PipelineOptions options;
  options.threads = 4;
  EXPECT_TRUE(run_pipeline(
      cursor, arena, [](Tile&) {}, fill, sink, options));
  EXPECT_EQ(sink.wrong.load(), 0U);
  EXPECT_GT(sink.sums.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(sink.sums)) << "commits are not in plan order";
}

}  // namespace
}  // namespace hfshard
