#include "run/engine/row_hasher.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "plan/layout/limits.h"

namespace hfshard {
namespace {

std::string random_bytes(std::size_t size) {
  std::mt19937 random(20250101);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

// Returns the digest of elements [begin, begin + count) of a tensor with this shape.
Digest128 digest_of(const std::string& bytes, const Shape& shape, DType dtype,
                    std::uint64_t begin = 0) {
  Transfer transfer;
  transfer.source_shape = shape;
  transfer.source_dtype = dtype;
  const std::uint64_t count = bytes.size() * 8 / size_bits(dtype);
  const std::uint64_t row = shape.rank() < 2 ? count : shape[shape.rank() - 1];
  IndexMap map;
  map.src_base = begin;
  map.digits = {{count / row, static_cast<std::int64_t>(row), static_cast<std::int64_t>(row)},
                {row, 1, 1}};
  std::vector<std::byte> scratch(bytes.size());
  Digest128 sum;
  RowHasher(transfer, dtype).add(map, begin, as_bytes(bytes), scratch, sum);
  return sum;
}

Digest128 sum_of(const std::vector<std::pair<std::uint64_t, std::string>>& blocks) {
  Digest128 sum;
  for (const auto& [at, bytes] : blocks) sum += hash_block(at, as_bytes(bytes));
  return sum;
}

// The blocks are part of the format: docs/design.md, Digests.
TEST(RowHasher, BlocksOfA1dTensorAre64KiBAndNumberedByTheirFirstElement) {
  const std::string data = random_bytes(2 * kDigestRunBytes + 12);
  const std::vector<std::string> runs{data.substr(0, kDigestRunBytes),
                                      data.substr(kDigestRunBytes, kDigestRunBytes),
                                      data.substr(2 * kDigestRunBytes)};
  ASSERT_EQ(kDigestRunBytes, 65536U);
  EXPECT_EQ(digest_of(data, {65542}, DType::bf16),
            sum_of({{0, runs[0]}, {32768, runs[1]}, {65536, runs[2]}}));
  EXPECT_EQ(digest_of(data, {32771}, DType::f32),
            sum_of({{0, runs[0]}, {16384, runs[1]}, {32768, runs[2]}}));
  // The second half of a longer tensor.
  EXPECT_EQ(digest_of(data, {131084}, DType::bf16, 65542),
            sum_of({{65542, runs[0]}, {98310, runs[1]}, {131078, runs[2]}}));
}

TEST(RowHasher, BlocksOrRowsThatChangePlacesChangeTheDigest) {
  const std::string data = random_bytes(3 * kDigestRunBytes);
  std::string swapped = data;
  std::swap_ranges(swapped.begin(), swapped.begin() + kDigestRunBytes,
                   swapped.begin() + 2 * kDigestRunBytes);
  EXPECT_NE(digest_of(data, {98304}, DType::bf16), digest_of(swapped, {98304}, DType::bf16));
  EXPECT_NE(digest_of(data, {3, 32768}, DType::bf16), digest_of(swapped, {3, 32768}, DType::bf16));
}

TEST(RowHasher, ABlockOfAMatrixIsARowNumberedByItsFirstElement) {
  const std::string data = random_bytes(60);
  EXPECT_EQ(digest_of(data, {3, 10}, DType::bf16),
            sum_of({{0, data.substr(0, 20)}, {10, data.substr(20, 20)}, {20, data.substr(40)}}));
  EXPECT_EQ(digest_of(data.substr(20), {3, 5, 2}, DType::bf16, 10), sum_of([&] {
              std::vector<std::pair<std::uint64_t, std::string>> rows;
              for (std::uint64_t k = 0; k < 10; ++k)
                rows.emplace_back(10 + 2 * k, data.substr(20 + 4 * k, 4));
              return rows;
            }()));
}

// A rule can take only some columns of every row: half of a fused tensor, heads without their
// rotary part.
TEST(RowHasher, APartOfARowIsHashedInSourceOrderWhereItBegins) {
  const std::string data = random_bytes(40);  // [2, 10] of bf16
  Transfer transfer;
  transfer.source_shape = {2, 10};
  IndexMap map;  // 8, 6, 4 of both rows: reversed
  map.src_base = 4;
  map.dst_base = 2;
  map.digits = {{2, 10, 3}, {3, 2, 1}};
  std::vector<std::byte> scratch(64);
  Digest128 sum;
  RowHasher(transfer, DType::bf16).add(map, 0, as_bytes(data), scratch, sum);
  const auto picked = [&](std::size_t row) {
    std::string out;
    for (const std::size_t k : {4U, 6U, 8U}) out += data.substr((row * 10 + k) * 2, 2);
    return out;
  };
  EXPECT_EQ(sum, sum_of({{4, picked(0)}, {14, picked(1)}}));
}

// A leaf can have an element of a row as often as the row has elements.
TEST(RowHasher, AnElementThatIsRepeatedIsHashedAsOften) {
  const std::string data = random_bytes(16);  // [2, 4] of bf16
  Transfer transfer;
  transfer.source_shape = {2, 4};
  IndexMap map;  // the first of each row
  map.digits = {{2, 4, 4}, {4, 0, 1}};
  const RowHasher hasher(transfer, DType::bf16);
  EXPECT_FALSE(hasher.takes_whole_rows(map));
  std::vector<std::byte> scratch(8);
  Digest128 sum;
  hasher.add(map, 0, as_bytes(data), scratch, sum);
  const auto four = [&](std::size_t at) {
    std::string out;
    for (int i = 0; i < 4; ++i) out += data.substr(at, 2);
    return out;
  };
  EXPECT_EQ(sum, sum_of({{0, four(0)}, {4, four(8)}}));
}

TEST(RowHasher, OnlyRowsWithAllTheirElementsInOrderAreWhole) {
  Transfer transfer;
  transfer.source_shape = {2, 4};
  const RowHasher hasher(transfer, DType::bf16);
  const auto whole = [&](const DigitList& digits) {
    IndexMap map;
    map.digits = digits;
    return hasher.takes_whole_rows(map);
  };
  EXPECT_TRUE(whole({{2, 4, 4}, {4, 1, 1}}));
  EXPECT_TRUE(whole({{2, 4, 4}, {2, 2, 2}, {2, 1, 1}}));
  EXPECT_TRUE(whole({{2, 4, 1}, {4, 1, 2}})) << "wherever they go";
  EXPECT_FALSE(whole({{2, 4, 3}, {3, 1, 1}}));
  EXPECT_FALSE(whole({{2, 4, 2}, {2, 2, 1}}));
  EXPECT_FALSE(whole({{2, 4, 4}, {2, 1, 2}, {2, 2, 1}}));
  EXPECT_FALSE(whole({{0, 4, 4}, {4, 1, 1}})) << "no rows";
  transfer.row = 2;
  EXPECT_TRUE(RowHasher(transfer, DType::bf16).takes_whole_rows({0, 0, {{2, 1, 1}}}));
}

// Two digits within a row, in the order of the leaf or another one.
TEST(RowHasher, ThePairsOfARowAreHashedInSourceOrderToo) {
  const std::string data = random_bytes(12);
  IndexMap map;  // elements 1, 3, 5, 7, 9, 11 of one row of u8
  map.src_base = 1;
  map.digits = {{3, 4, 1}, {2, 2, 3}};
  Transfer transfer;
  transfer.source_shape = {1, 12};
  std::string odd;
  for (std::size_t i = 1; i < 12; i += 2) odd += data[i];
  for (int order = 0; order < 2; ++order) {
    std::vector<std::byte> scratch(16);
    Digest128 sum;
    RowHasher(transfer, DType::u8).add(map, 0, as_bytes(data), scratch, sum);
    EXPECT_EQ(sum, sum_of({{1, odd}}));
    std::swap(map.digits[0], map.digits[1]);
  }
}

}  // namespace
}  // namespace hfshard
