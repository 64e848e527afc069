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

}  // namespace
}  // namespace hfshard
