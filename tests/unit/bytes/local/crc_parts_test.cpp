#include "bytes/local/crc_parts.h"

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/crc32.h"

namespace hfshard {
namespace {

TEST(CrcParts, OfPartsInAnyOrderTheWholeIsToldWithTheLast) {
  std::mt19937 random(3);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 50; ++i) {
    CrcParts parts;
    std::vector<ByteRange> ranges;
    for (std::uint64_t at = 0; at < bytes.size();) {
      const std::uint64_t end = std::min<std::uint64_t>(bytes.size(), at + 1 + random() % 900);
      ranges.push_back({at, end});
      at = end;
    }
    std::ranges::shuffle(ranges, random);
    const auto add = [&](const ByteRange& range) {
      const auto part = std::span(bytes).subspan(range.begin, range.end - range.begin);
      return parts.add(7, range, crc32(part), bytes.size());
    };
    for (std::size_t k = 0; k + 1 < ranges.size(); ++k) {
      EXPECT_FALSE(add(ranges[k]).has_value());
      EXPECT_FALSE(add(ranges[k]).has_value());  // again
    }
    EXPECT_FALSE(parts.add(8, {0, 10}, 0, 20).has_value());  // of another whole
    EXPECT_EQ(add(ranges.back()), crc32(bytes));
    // Again from the start.
    EXPECT_EQ(add({0, bytes.size()}), crc32(bytes));
  }
}

// Two reads can overlap. The one that comes second doesn't count.
TEST(CrcParts, APartThatOverlapsAnotherIsLeftOut) {
  std::vector<std::byte> bytes(40);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  CrcParts parts;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    return parts.add(1, {begin, end}, crc32(std::span(bytes).subspan(begin, end - begin)), 40);
  };
  EXPECT_FALSE(add(10, 20));
  EXPECT_FALSE(add(5, 11));
  EXPECT_FALSE(add(19, 30));
  EXPECT_FALSE(add(12, 15));
  EXPECT_FALSE(add(0, 40));
  EXPECT_FALSE(add(30, 40));
  EXPECT_FALSE(add(0, 10));
  EXPECT_EQ(add(20, 30), crc32(bytes));
  EXPECT_FALSE(add(0, 20)) << "a whole that is told begins anew";
  EXPECT_EQ(add(20, 40), crc32(bytes));
}

TEST(CrcParts, WholesAreApart) {
  CrcParts parts;
  EXPECT_FALSE(parts.add(1, {0, 10}, 5, 20));
  EXPECT_FALSE(parts.add(2, {10, 20}, 6, 20));
  EXPECT_EQ(parts.add(3, {0, 20}, 7, 20), 7U);
  EXPECT_EQ(parts.add(1, {10, 20}, 6, 20), crc32_joined(5, 6, 10));
  EXPECT_EQ(parts.add(2, {0, 10}, 5, 20), crc32_joined(5, 6, 10));
}

}  // namespace
}  // namespace hfshard
