#include "plan/layout/band.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "plan/layout/piece_window.h"

namespace hfshard {
namespace {

// Enumerates every (source, target) pair of a map.
std::set<std::pair<std::uint64_t, std::uint64_t>> pairs_of(const IndexMap& map) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> out;
  std::vector<std::uint64_t> at(map.digits.size(), 0);
  for (std::uint64_t n = map.count(); n > 0; --n) {
    std::uint64_t src = map.src_base;
    std::uint64_t dst = map.dst_base;
    for (std::size_t k = 0; k < at.size(); ++k) {
      src += at[k] * static_cast<std::uint64_t>(map.digits[k].src_step);
      dst += at[k] * static_cast<std::uint64_t>(map.digits[k].dst_step);
    }
    out.emplace(src, dst);
    for (std::size_t k = at.size(); k-- > 0;) {
      if (++at[k] < map.digits[k].extent) break;
      at[k] = 0;
    }
  }
  return out;
}

// Returns the map [(H h) D] -> [D H h] of one layer.
IndexMap heads_map(std::uint64_t heads, std::uint64_t width, std::uint64_t d) {
  IndexMap map;
  map.digits = {{d, 1, static_cast<std::int64_t>(heads * width)},
                {heads, static_cast<std::int64_t>(width * d), static_cast<std::int64_t>(width)},
                {width, static_cast<std::int64_t>(d), 1}};
  return map;
}

TEST(Bands, CoverEveryPairOnceAndHoldWholeRows) {
  for (const std::uint64_t most : {1U, 5U, 26U, 53U, 200U, 4000U}) {
    const IndexMap map = heads_map(4, 10, 26);
    const std::uint64_t row = row_length(Shape{40, 26});
    std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
    std::uint64_t count = 0;
    std::uint64_t last = 0;
    BandCursor bands(split_at_rows(map, {40, 26}), row, most, 0);
    while (const Band* band = bands.next()) {
      EXPECT_GE(band->begin, last);
      last = band->begin;
      EXPECT_EQ(band->begin % row, 0U);
      EXPECT_EQ(band->length % row, 0U);
      EXPECT_LE(band->length, std::min<std::uint64_t>(40 * 26, std::max(row, most)));
      for (const auto& pair : pairs_of(band->map)) {
        EXPECT_GE(pair.first, band->begin);
        EXPECT_LT(pair.first, band->begin + band->length);
        seen.insert(pair);
      }
      count += band->map.count();
    }
    EXPECT_EQ(count, map.count()) << most;
    EXPECT_EQ(seen, pairs_of(map)) << most;
  }
}

TEST(Bands, TheirElementsAreCountedWithoutMakingThem) {
  IndexMap holes;  // of [5, 7, 9, 8], with holes
  holes.digits = {{5, 504, 1}, {3, 144, 5}, {4, 16, 15}, {8, 1, 60}};
  const std::pair<IndexMap, std::uint64_t> cases[] = {
      {split_at_rows(heads_map(4, 10, 26), {40, 26}), 26}, {holes, 8}, {IndexMap(), 1}};
  for (const auto& [split, row] : cases) {
    for (const std::uint64_t most : {1U, 8U, 26U, 30U, 53U, 100U, 200U, 600U, 4000U}) {
      for (const std::uint64_t gap : {0U, 8U, 100U, 1000U}) {
        std::uint64_t elements = 0;
        BandCursor bands(split, row, most, gap);
        while (const Band* band = bands.next()) elements += band->length;
        EXPECT_EQ(bands.elements(), elements) << most << " " << gap;
      }
    }
  }
}

TEST(Bands, AHoleWiderThanTheGapEndsABand) {
  IndexMap map;  // rows 0, 10 and 20 of [30, 8]
  map.digits = {{3, 80, 8}, {8, 1, 1}};
  std::vector<std::uint64_t> begins;
  BandCursor apart(map, 8, 1000, 16);
  while (const Band* band = apart.next()) {
    begins.push_back(band->begin);
    EXPECT_EQ(band->length, 8U);
  }
  EXPECT_EQ(begins, (std::vector<std::uint64_t>{0, 80, 160}));
  begins.clear();
  BandCursor together(map, 8, 1000, 100);
  while (const Band* band = together.next()) begins.push_back(band->begin);
  EXPECT_EQ(begins, (std::vector<std::uint64_t>{0}));
}

TEST(Rows, AreVisitedInSourceOrderAndPartitionTheMap) {
  const IndexMap map = heads_map(3, 4, 7);
  std::uint64_t next = 0;
  std::uint64_t count = 0;
  RowCursor rows(split_at_rows(map, {12, 7}), 7);
  while (const IndexMap* part = rows.next()) {
    EXPECT_EQ(part->src_base, next);
    next += 7;
    count += part->count();
  }
  EXPECT_EQ(next, 84U);
  EXPECT_EQ(count, 84U);
}

// One layer of a stack of three that is stored transposed: rows of 7 at distances of 21.
TEST(Rows, WithoutHolesTheyFollowEachOtherAndGoWhereTheyWent) {
  const IndexMap layer{7, 3, {{12, 21, 1}, {7, 1, 12}}};
  const IndexMap heads{7, 0, {{7, 1, 12}, {4, 63, 3}, {3, 21, 1}}};
  for (const IndexMap& map : {layer, heads}) {
    const IndexMap dense = without_holes(map, 7);
    EXPECT_EQ(dense.src_base, 0U);
    for (const std::uint64_t most : {7U, 20U, 1000U}) {
      RowCursor stored(map, 7);
      BandCursor bands(dense, 7, most, 0);
      std::uint64_t row = 0;
      while (const Band* band = bands.next()) {
        EXPECT_EQ(band->begin, row * 7);
        RowCursor rows(band->map, 7);
        while (const IndexMap* part = rows.next()) {
          const IndexMap* there = stored.next();
          ASSERT_NE(there, nullptr);
          EXPECT_EQ(part->src_base, row++ * 7);
          EXPECT_EQ(part->dst_base, there->dst_base);
          EXPECT_EQ(normalize(*part).digits, normalize(*there).digits);
        }
      }
      EXPECT_EQ(row, 12U);
      EXPECT_EQ(stored.next(), nullptr);
    }
  }
}

TEST(Rows, ScalarsAndVectorsAreOneRow) {
  EXPECT_EQ(row_length(Shape{}), 1U);
  EXPECT_EQ(row_length(Shape{9}), 9U);
  EXPECT_EQ(row_length(Shape{3, 5}), 5U);
}

TEST(Rows, AreGatheredWithTheirRepeats) {
  Transfer transfer;
  transfer.source_dtype = DType::u8;
  transfer.source_shape = {8};
  transfer.map.digits = {{100, 0, 8}, {8, 1, 1}};
  EXPECT_EQ(gathered_row(transfer), 800U);
  EXPECT_EQ(band_form(transfer, DType::u8, {}).row_bytes, 832U) << "a multiple of 64";
  EXPECT_EQ(piece_bands(transfer, DType::u8, {{100, 8}, {1, 8}, {}}, 0, {}).row_bytes, 832U);
  transfer.source_shape = {2, 8};
  transfer.map.digits = {{100, 0, 16}, {2, 8, 8}, {8, 1, 1}};
  EXPECT_EQ(gathered_row(transfer), 800U);
  transfer.map.digits = {{2, 8, 4}, {4, 2, 1}};
  EXPECT_EQ(gathered_row(transfer), 8U) << "a row of which a rule takes a part";
}

TEST(Rows, AMapWithoutElementsHasNone) {
  const IndexMap none{0, 0, {{0, 7, 1}, {7, 1, 12}}};
  RowCursor rows(none, 7);
  EXPECT_EQ(rows.next(), nullptr);
  EXPECT_EQ(without_holes(none, 7).count(), 0U);
}

}  // namespace
}  // namespace hfshard
