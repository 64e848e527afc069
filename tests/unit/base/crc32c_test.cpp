#include "base/crc32c.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"

namespace hfshard {
namespace {

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(size);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

// Source: RFC 3720 B.4, and the usual check value.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43U);
  EXPECT_EQ(crc32c_extend_portable(0, as_bytes("123456789")), 0xE3069283U);
}

TEST(Crc32c, TheInstructionAndTheTableAgreeForEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = random_bytes(40000, 7);
  const std::span<const std::byte> all(bytes);
  std::mt19937_64 random(11);
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t begin = random() % 64;
    const std::size_t size = i < 1000 ? i : random() % (bytes.size() - begin);
    const auto initial = static_cast<std::uint32_t>(random());
    const auto part = all.subspan(begin, size);
    ASSERT_EQ(crc32c_extend(initial, part), crc32c_extend_portable(initial, part))
        << begin << " + " << size;
  }
}

TEST(Crc32c, ExtendingEqualsTheWhole) {
  const std::vector<std::byte> bytes = random_bytes(30000, 13);
  const std::span<const std::byte> all(bytes);
  for (std::size_t cut = 0; cut < bytes.size(); cut += 997) {
    ASSERT_EQ(crc32c_extend(crc32c(all.first(cut)), all.subspan(cut)), crc32c(all)) << cut;
  }
}

}  // namespace
}  // namespace hfshard
