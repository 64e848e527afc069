// Compressed chunks follow each other in each data file, after any earlier work.

#include "run/engine/packing.h"

#include <gtest/gtest.h>

#include "base/checked.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A tile of the plan with made-up lengths that no formula of the program gives.
struct Piece {
  std::uint32_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::uint32_t> lengths;
};

class PackingTest : public testing::Test {
 protected:
  PackingTest() : plan_(make()) {
    TileCursor cursor(plan_, 0, plan_.end_address(), nullptr, UINT64_MAX);
    Tile tile;
    std::uint32_t length = 1;
    while (cursor.next(tile)) {
      Piece piece{tile.file, tile.begin_address, tile.end_address, {}};
      for (const UnitRef& unit : tile.units) {
        for (std::uint64_t k = 0; k < plan_.units()[plan_.group_of(unit).leaf].chunks_per_unit; ++k)
          piece.lengths.push_back(length = (length * 37 + 11) % 9001 + 1);
      }
      pieces_.push_back(std::move(piece));
    }
  }

  Plan make() {
    PlanOptions options = small_options();
    options.encoding.zstd_level = 1;
    return small_plan(copy_fixture("mixtral", dir_ / "source"), options);
  }

  // Returns the offset of each piece, counted by hand.
  std::vector<std::uint64_t> wanted() const {
    std::vector<std::uint64_t> out;
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (i > 0 && pieces_[i].file != pieces_[i - 1].file) offset = 0;
      out.push_back(offset);
      for (const std::uint32_t length : pieces_[i].lengths)
        offset += (length + 4095U) / 4096U * 4096U;
    }
    return out;
  }

  JournalState done(const std::vector<std::size_t>& which) const {
    JournalState out;
    for (const std::size_t i : which)
      out.done.push_back({pieces_[i].begin, pieces_[i].end, {}, 0, pieces_[i].lengths});
    return out;
  }

  TempDir dir_;
  Plan plan_;
  std::vector<Piece> pieces_;
};

TEST_F(PackingTest, TilesFollowEachOtherAndEveryFileStartsAnew) {
  ASSERT_GT(plan_.file_count(), 3U);
  ASSERT_GT(pieces_.size(), 20U);
  const auto offsets = wanted();
  Packing packing(plan_, {});
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    EXPECT_EQ(packing.place(pieces_[i].begin, pieces_[i].lengths), offsets[i]) << i;
}

// Holes in the middle of files, and files that are all done or not begun.
TEST_F(PackingTest, HolesBetweenFinishedRunsAreWhereTheyWouldHaveBeen) {
  const auto offsets = wanted();
  for (const std::size_t every : {2U, 3U, 7U}) {
    std::vector<std::size_t> finished;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (i % every != 0 || pieces_[i].file == 1) finished.push_back(i);
    }
    Packing packing(plan_, done(finished));
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (std::ranges::find(finished, i) != finished.end()) continue;
      EXPECT_EQ(packing.place(pieces_[i].begin, pieces_[i].lengths), offsets[i]) << i;
    }
  }
}

// Lengths of other chunks than the record's would shift all later chunks.
TEST_F(PackingTest, ARecordWithoutALengthForEachChunkIsRefused) {
  JournalState state = done({3});
  state.done[0].lengths.pop_back();
  EXPECT_EQ(catch_error([&] { Packing(plan_, state); }).code(), ErrorCode::internal);
  EXPECT_EQ(catch_error([&] { PackedPlacements(plan_, state); }).code(), ErrorCode::internal);
}

// A tile after a hole has no place, since the hole's length isn't known.
TEST_F(PackingTest, ATileBehindAHoleOfItsFileIsRefused) {
  ASSERT_EQ(pieces_[0].file, pieces_[2].file);
  Packing packing(plan_, done({0}));
  const auto place = [&] { packing.place(pieces_[2].begin, pieces_[2].lengths); };
  EXPECT_EQ(catch_error(place).code(), ErrorCode::internal);
}

TEST_F(PackingTest, FinishedWorkCountsWithItsStoredBytesAndGaps) {
  EXPECT_EQ(stored_bytes(plan_, {}), 0U);
  std::uint64_t wanted = 0;
  for (const std::size_t i : {0U, 2U, 5U}) {
    for (const std::uint32_t length : pieces_[i].lengths)
      wanted += (length + 4095U) / 4096U * 4096U;
  }
  const JournalState state = done({0, 2, 5});
  ASSERT_NE(wanted, state.done_bytes());
  EXPECT_EQ(stored_bytes(plan_, state), wanted);
  const Plan plain = small_plan(copy_fixture("mixtral", dir_ / "other"));
  EXPECT_EQ(stored_bytes(plain, state), state.done_bytes()) << "of an output that isn't compressed";
}

TEST_F(PackingTest, AWorkersShareStartsWithItsOwnFile) {
  const auto offsets = wanted();
  Packing packing(plan_, {});
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].file < 2) continue;
    EXPECT_EQ(packing.place(pieces_[i].begin, pieces_[i].lengths), offsets[i]) << i;
  }
}

TEST_F(PackingTest, EveryChunkIsFoundWhereItsTileWasPlaced) {
  std::vector<std::size_t> all(pieces_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const PackedPlacements placed(plan_, done(all));
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> chunks;
  std::map<std::uint32_t, std::uint64_t> ends;
  const auto offsets = wanted();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    std::uint64_t offset = offsets[i];
    for (const std::uint32_t length : pieces_[i].lengths) {
      chunks[{pieces_[i].file, offset}] = length;
      offset += round_up(std::uint64_t{length}, 4096);
      ends[pieces_[i].file] = offset;
    }
  }
  std::uint64_t total = 0;
  for (const auto& [file, end] : ends) total += end;
  EXPECT_EQ(placed.total_bytes(), total);
  std::size_t found = 0;
  for (std::uint32_t leaf = 0; leaf < plan_.model().leaves.size(); ++leaf) {
    const Shape counts = chunk_counts(plan_.model().leaves[leaf].shape, plan_.grids()[leaf].chunk);
    for_each_chunk(counts, [&](const Shape& chunk) {
      const Place place = placed.place(leaf, chunk);
      const Place before = plan_.place(leaf, chunk);
      EXPECT_EQ(place.file, before.file);
      const auto at = chunks.find({place.file, place.offset_bytes});
      EXPECT_TRUE(at != chunks.end() && at->second == place.length_bytes);
      if (at != chunks.end()) chunks.erase(at);
      return ++found > 0;
    });
  }
  EXPECT_EQ(found, plan_.totals().chunks);
  EXPECT_TRUE(chunks.empty());
}

}  // namespace
}  // namespace hfshard
