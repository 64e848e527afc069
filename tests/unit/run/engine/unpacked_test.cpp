// Random stacks in pieces of every shape and order, whose layers are leaves, unchanged or
// transposed. Unpacked values must equal a slow reference, for any cut of units. So must the
// digests, which depend only on values and rows.

#include "run/engine/unpacked.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ops/source_rows.h"
#include "plan/layout/split_arrays.h"
#include "run/engine/pipeline.h"
#include "run/engine/unit_filler.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "support/temp_dir.h"
#include "unit/ops/reference.h"
#include "unit/run/engine/stacks.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;
using stacks::cut_leaves;
using stacks::rows_of;
using stacks::Stack;
using stacks::value_of;

std::int64_t step(std::uint64_t value) { return static_cast<std::int64_t>(value); }

Grid random_grid(Random& random, const Shape& shape) {
  Grid out;
  for (std::size_t d = 0; d < 3; ++d) {
    out.inner.push_back(pick(random, 1, shape[d] + 1));
    out.chunk.push_back(out.inner[d] * pick(random, 1, 2));
  }
  if (random() % 2 == 0) out.inner = out.chunk;
  out.shard = out.chunk;
  if (random() % 2 == 0) {
    out.order = {0, 1, 2};
    std::shuffle(out.order.begin(), out.order.end(), random);
  }
  return out;
}

// Rows may be shorter than the array's.
CompiledModel layers_of(const Shape& shape, bool turned, Random& random) {
  CompiledModel out = stacks::layers_of(shape, turned);
  if (random() % 2 == 0) shorten_rows(out, 64);
  return out;
}

// How often the stacks were read in each way.
struct Ways {
  std::uint64_t in_place = 0;
  std::uint64_t parted = 0;
  std::uint64_t spanned = 0;
};

// If every run can be read alone, layers are parts, or nothing is unpacked. Coded pieces are
// unpacked whole.
void expect_ways(const Layout& layout, const Shape& shape, const Grid& grid, bool turned,
                 Ways& ways) {
  const bool addressable =
      layout.catalog().cuts[0].addressable && layout.limits().unpack_bytes == 0;
  const bool any_run = addressable && layout.limits().part_run_bytes == 0;
  const bool in_order = !turned || shape[0] == 1;
  if (any_run || !addressable) {
    EXPECT_EQ(layout.unpacked().empty(), any_run && in_order && grid.order.empty());
  }
  if (layout.unpacked().empty()) {
    ++ways.in_place;
    return;
  }
  const UnpackedForm& form = layout.unpacked()[0];
  if (any_run || !addressable) {
    EXPECT_EQ(form.parts(shape), any_run ? shape[1] : 1);
  }
  if (form.parts(shape) > 1) ++(form.span == 1 ? ways.parted : ways.spanned);
}

TEST(UnpackedArrays, AreReadAsASlowReferenceSays) {
  Random random(20261123);
  std::uint64_t slices = 0;
  std::uint64_t short_rows = 0;
  Ways ways;
  for (int round = 0; round < cases(150); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Shape shape{pick(random, 1, 7), pick(random, 1, 5), pick(random, 2, 9)};
    const bool turned = random() % 2 == 0;
    const bool addressable = random() % 2 == 0;
    const Grid grid = random_grid(random, shape);
    const auto model = make_model(std::make_shared<Stack>(shape, std::vector{grid}, addressable),
                                  layers_of(shape, turned, random));
    Limits limits;
    if (random() % 4 != 0) {
      limits.unpack_bytes = 0;
      limits.part_run_bytes = random() % 2 == 0 ? 0 : pick(random, 2, 60);
    }
    limits.segment_bytes = 2 * pick(random, 1, 40);
    limits.merge_bytes = pick(random, 1, 200);
    const Layout layout(model, cut_leaves(model, limits), limits, false);
    expect_ways(layout, shape, grid, turned, ways);
    const TempDir dir;
    OpenSources sources;
    const RunOptions options;
    // In memory, in files, or in both.
    const std::uint64_t memory = round % 3 == 0 ? 0 : pick(random, 1, 3) * 4096;
    UnpackedArrays unpacked(layout, dir / "", memory, sources, options);
    const UnitFiller filler(layout, sources);
    Arena arena(kMiB);
    std::vector<std::uint16_t> space(layout.end_address() / 2, 0xbeef);
    std::vector<Digest128> sums(model->digest_slots());
    for (UnitRef at; at.group < layout.groups().size(); at = layout.next(at)) {
      unpacked.make_ready(at, arena);
      std::vector<std::byte> scratch(filler.scratch_bytes(at));
      std::vector<SlotDigest> digests;
      filler.fill(at,
                  std::as_writable_bytes(std::span(space))
                      .subspan(layout.address_of(at), layout.region_bytes(at)),
                  scratch, digests);
      for (const SlotDigest& digest : digests) sums[digest.slot] += digest.sum;
    }
    for (const Group& group : layout.groups()) {
      slices += layout.units()[group.leaf].units_per_group > 1 ? 1U : 0U;
      const Transfer& transfer = model->transfers[group.leaf];
      short_rows += transfer.row != 0 ? 1U : 0U;
      for (std::uint64_t i = 0; i < shape[0]; ++i) {
        for (std::uint64_t j = 0; j < shape[2]; ++j) {
          const std::uint64_t to = turned ? j * shape[0] + i : i * shape[2] + j;
          ASSERT_EQ(space[group.address / 2 + to],
                    value_of((i * shape[1] + group.leaf) * shape[2] + j));
        }
      }
      EXPECT_EQ(sums[model->digest_slot(group.leaf, 0)],
                rows_of(transfer, model->leaves[group.leaf]));
    }
  }
  EXPECT_GT(slices, 3U);  // all happen, even in a third of the cases
  EXPECT_GT(short_rows, 0U);
  EXPECT_GT(ways.in_place, 0U);
  EXPECT_GT(ways.parted, 0U);
  EXPECT_GT(ways.spanned, 0U);
}

// Makes a leaf for every layer of several stacks.
CompiledModel layers_of_stacks(const Shape& shape, std::uint32_t stacks, bool turned,
                               Random& random) {
  CompiledModel out;
  out.rules = {"rule"};
  for (std::uint32_t stack = 0; stack < stacks; ++stack) {
    CompiledModel more = layers_of(shape, turned, random);
    for (std::size_t i = 0; i < more.leaves.size(); ++i) {
      more.leaves[i].name += static_cast<char>('a' + stack);
      more.transfers[i].target += static_cast<std::uint32_t>(out.leaves.size());
      more.transfers[i].sources = {stack};
    }
    std::ranges::move(more.leaves, std::back_inserter(out.leaves));
    std::ranges::move(more.transfers, std::back_inserter(out.transfers));
  }
  return out;
}

// Keeps the output in memory.
class InMemory final : public TileSink {
 public:
  explicit InMemory(std::uint64_t bytes) : values(bytes / 2, 0xbeef) {}
  void store(const Tile& tile, std::span<const std::byte> region) override {
    std::ranges::copy(region,
                      std::as_writable_bytes(std::span(values)).begin() + step(tile.begin_address));
  }
  void commit(Tile&) override {}
  std::vector<std::uint16_t> values;
};

// Arrays with unlike pieces are unpacked while the threads of a run read others.
TEST(UnpackedArrays, AreReadByManyThreads) {
  constexpr std::uint32_t kStacks = 3;
  constexpr std::uint64_t kPage = 4096;
  Random random(20261129);
  for (int round = 0; round < cases(20); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Shape shape{pick(random, 2, 7), pick(random, 2, 7), pick(random, 2, 30)};
    const bool turned = random() % 2 == 0;
    std::vector<Grid> grids;
    for (std::uint32_t i = 0; i < kStacks; ++i) grids.push_back(random_grid(random, shape));
    const auto model = make_model(std::make_shared<Stack>(shape, grids),
                                  layers_of_stacks(shape, kStacks, turned, random));
    Limits limits;
    limits.unpack_bytes = random() % 2 == 0 ? 0 : limits.unpack_bytes;
    limits.segment_bytes = 2 * pick(random, 1, 40);
    limits.merge_bytes = pick(random, 1, 200);
    const Layout layout(model, cut_leaves(model, limits), limits, false);
    const TempDir dir;
    OpenSources sources;
    const RunOptions options;
    UnpackedArrays unpacked(layout, dir / "", pick(random, 0, 3) * kPage, sources, options);
    const UnitFiller filler(layout, sources);
    Arena arena(pick(random, 16, 64) * kPage);  // for few tiles at once, or many
    InMemory sink(layout.end_address());
    TileCursor cursor(layout, 0, layout.end_address(), nullptr, arena.size_bytes());
    EXPECT_TRUE(run_pipeline(
        cursor, arena,
        [&](Tile& tile) { tile.uses = unpacked.make_ready(tile.units.front(), arena); },
        [&](Tile& tile) {
          auto region = tile.region();
          for (const UnitRef& unit : tile.units) {
            const auto part = region.first(layout.region_bytes(unit));
            filler.fill(unit, part, tile.scratch(), tile.digests);
            region = region.subspan(part.size());
          }
        },
        sink, {8, nullptr, {}, nullptr}));
    for (const Group& group : layout.groups()) {
      const auto stack = static_cast<std::uint32_t>(group.leaf / shape[1]);
      const std::uint64_t layer = group.leaf % shape[1];
      for (std::uint64_t i = 0; i < shape[0]; ++i) {
        for (std::uint64_t j = 0; j < shape[2]; ++j) {
          const std::uint64_t to = turned ? j * shape[0] + i : i * shape[2] + j;
          ASSERT_EQ(sink.values[group.address / 2 + to],
                    value_of((i * shape[1] + layer) * shape[2] + j, stack));
        }
      }
    }
  }
}

// Two stacks. Each layer is a leaf and a unit.
class TwoStacks : public testing::Test {
 protected:
  // Returns the first unit of an array's last layer.
  UnitRef unit_of(std::uint32_t array) const {
    for (UnitRef at; at.group < layout_.groups().size(); at = layout_.next(at)) {
      if (layout_.group_of(at).leaf == (array + 1) * shape_[1] - 1) return at;
    }
    throw std::logic_error("no such unit");
  }
  // The ready bytes of an array are its own.
  void expect_read(std::uint32_t array, const OpenSources& sources) const {
    const UnitRef at = unit_of(array);
    const UnitFiller filler(layout_, sources);
    std::vector<std::uint16_t> values(layout_.region_bytes(at) / 2);
    std::vector<std::byte> scratch(filler.scratch_bytes(at));
    filler.fill_only(at, std::as_writable_bytes(std::span(values)), scratch);
    const std::uint64_t layer = shape_[1] - 1;
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const std::uint64_t j = i / shape_[0];
      const std::uint64_t element = (i % shape_[0] * shape_[1] + layer) * shape_[2] + j;
      ASSERT_EQ(values[i], value_of(element, array)) << array << " " << i;
    }
  }

  static constexpr std::uint64_t kPage = 4096;
  Random random_{1};  // these first, since other members need them
  const Shape shape_{6, 4, 10};
  TempDir dir_;
  Limits limits_;
  std::shared_ptr<const Model> model_ = make_model(
      std::make_shared<Stack>(shape_, std::vector(2, Grid{{3, 4, 5}, {3, 4, 5}, {3, 4, 5}})),
      layers_of_stacks(shape_, 2, true, random_));
  Layout layout_{model_, cut_leaves(model_, limits_), limits_, false};
  RunOptions options_;
  Arena arena_{kMiB};
  OpenSources sources_;
};

// A run unpacks the next array while tiles still read the last one.
TEST_F(TwoStacks, TheNextIsUnpackedBesideTheOneThatTilesRead) {
  UnpackedArrays unpacked(layout_, dir_ / "", 2 * kPage, sources_, options_);
  const Arena::Block tile = arena_.take(kPage);
  const auto first = unpacked.make_ready(unit_of(0), arena_);
  const auto second = unpacked.make_ready(unit_of(1), arena_);  // doesn't wait for the tile
  ASSERT_EQ(first.size(), 1U);
  expect_read(0, sources_);
  expect_read(1, sources_);
  EXPECT_EQ(unpacked.make_ready(unit_of(0), arena_), first);  // nothing is unpacked again
}

// With memory for one array or none, the next waits until the last one isn't used.
TEST_F(TwoStacks, TheNextWaitsForItsPlace) {
  for (const std::uint64_t memory : {kPage, std::uint64_t{0}}) {
    OpenSources sources;
    UnpackedArrays unpacked(layout_, dir_ / "", memory, sources, options_);
    auto first = unpacked.make_ready(unit_of(0), arena_);
    Arena::Block tile = arena_.take(kPage);
    std::atomic<bool> is_ready = false;
    std::thread next([&] {
      unpacked.make_ready(unit_of(1), arena_);
      is_ready = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(is_ready);
    expect_read(0, sources);
    first.clear();
    tile.release();
    next.join();
    expect_read(1, sources);
  }
}

// Its first array must stay when the second one goes to a file too.
TEST_F(TwoStacks, AUnitReadsBothFromFiles) {
  CompiledModel joined;
  joined.rules = {"rule"};
  for (const std::uint32_t stack : {0U, 1U}) stacks::add_layer(shape_, stack, 0, true, joined);
  joined.leaves.pop_back();
  const std::uint64_t half = joined.leaves[0].shape.numel();
  joined.leaves[0].shape.insert(0, 2);
  joined.transfers[1].target = 0;
  joined.transfers[1].map.dst_base = half;
  const auto model = make_model(
      std::make_shared<Stack>(shape_, std::vector(2, Grid{{3, 4, 5}, {3, 4, 5}, {3, 4, 5}})),
      joined);
  const Layout layout(model, cut_leaves(model, limits_), limits_, false);
  UnpackedArrays unpacked(layout, dir_ / "", 0, sources_, options_);
  const auto ready = unpacked.make_ready({}, arena_);
  EXPECT_EQ(ready.size(), 2U);
  std::vector<std::uint16_t> values(layout.region_bytes({}) / 2);
  ASSERT_GE(values.size(), 2 * half);
  const UnitFiller filler(layout, sources_);
  std::vector<std::byte> scratch(filler.scratch_bytes({}));
  filler.fill_only({}, std::as_writable_bytes(std::span(values)), scratch);
  for (std::uint64_t i = 0; i < 2 * half; ++i) {
    const std::uint64_t j = i % half / shape_[0];
    const std::uint64_t element = i % shape_[0] * shape_[1] * shape_[2] + j;
    ASSERT_EQ(values[i], value_of(element, i < half ? 0 : 1)) << i;
  }
}

// A failed run closes the tiles' memory, and a thread that waits for a place in it ends.
TEST_F(TwoStacks, AClosedArenaEndsTheWait) {
  UnpackedArrays unpacked(layout_, dir_ / "", kPage, sources_, options_);
  const auto first = unpacked.make_ready(unit_of(0), arena_);
  const Arena::Block tile = arena_.take(kPage);
  std::thread closing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    arena_.close();
  });
  EXPECT_EQ(catch_error([&] { unpacked.make_ready(unit_of(1), arena_); }).code(),
            ErrorCode::cancelled);
  closing.join();
}

TEST_F(TwoStacks, ARowMajorFileHasTheRowsOfTheArray) {
  const Grid grid{{6, 4, 16}, {6, 4, 16}, {6, 4, 16}, {2, 0, 1}};  // reaches beyond the array
  const auto model = make_model(std::make_shared<Stack>(shape_, std::vector{grid}),
                                layers_of(shape_, false, random_));
  CutLeaves cut = cut_leaves(model, limits_);
  cut.split.unpacked.at(0).row_major = true;
  const Layout layout(model, cut, limits_, false);
  UnpackedArrays unpacked(layout, dir_ / "", 0, sources_, options_);
  unpacked.make_ready({}, arena_);
  std::vector<std::uint16_t> values(shape_.numel());
  sources_.at(0)->read_at(0, std::as_writable_bytes(std::span(values)));
  for (std::uint64_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], value_of(i)) << i;
}

// Each layer is in one place, after the layers before it.
TEST(UnpackedForm, AnAxisThatEveryRulePicksIsTheSlowest) {
  Random random(1);
  const Shape shape{6, 4, 10};
  const Grid grid{{3, 4, 5}, {3, 4, 5}, {3, 4, 5}};
  const std::vector<std::uint32_t> arrays{0};
  CompiledModel layers = layers_of(shape, true, random);
  const auto model = make_model(std::make_shared<Stack>(shape, std::vector{grid}), layers);
  const UnpackedForm form = split_arrays(*model, arrays, Limits{}).unpacked[0];
  EXPECT_EQ(form.grid.chunk, (Shape{3, 1, 5}));
  EXPECT_EQ(form.file_order, (std::vector<std::uint8_t>{1, 0, 2}));
  EXPECT_FALSE(form.row_major);
  EXPECT_EQ(form.piece_begin(shape, {0, 1, 0}), 60U);
  EXPECT_EQ(form.piece_begin(shape, {1, 1, 1}), 60U + 45U);
  EXPECT_EQ(form.elements(shape), 240U);
  layers.transfers[0].map.digits.push_back({2, 10, 60});  // two layers become one leaf
  layers.leaves[0].shape = {20, 6};
  const auto joined = make_model(std::make_shared<Stack>(shape, std::vector{grid}), layers);
  EXPECT_EQ(split_arrays(*joined, arrays, Limits{}).unpacked[0].grid.chunk, (Shape{3, 4, 5}));
}

// A decoder reads rows at any place.
TEST(UnpackedForm, WhatIsDecodedIsOneTensor) {
  Random random(1);
  const Shape shape{6, 4, 10};
  const Grid grid{{3, 4, 5}, {3, 4, 5}, {3, 4, 5}};
  CompiledModel layers = layers_of(shape, false, random);
  layers.transfers[1].decode = std::make_shared<const Decode>();
  const auto model = make_model(std::make_shared<Stack>(shape, std::vector{grid}), layers);
  const std::vector<std::uint32_t> arrays{0};
  EXPECT_TRUE(split_arrays(*model, arrays, Limits{}).unpacked[0].row_major);
}

}  // namespace
}  // namespace hfshard
