#include "base/crc32.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"

namespace hfshard {
namespace {

std::vector<std::byte> random_text(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(size);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

TEST(Crc32, KnownAnswers) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32(std::vector<std::byte>(32)), 0x190A55ADU);
  EXPECT_EQ(crc32_extend_portable(0, as_bytes("123456789")), 0xCBF43926U);
}

TEST(Crc32, TheInstructionAndZlibAgreeForEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = random_text(40000, 7);
  const std::span<const std::byte> all(bytes);
  std::mt19937_64 random(11);
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t begin = random() % 64;
    const std::size_t size = i < 1000 ? i : random() % (bytes.size() - begin);
    const auto initial = static_cast<std::uint32_t>(random());
    const auto part = all.subspan(begin, size);
    ASSERT_EQ(crc32_extend(initial, part), crc32_extend_portable(initial, part))
        << begin << " + " << size;
  }
}

TEST(Crc32, ExtendingAndJoiningEqualTheWhole) {
  const std::vector<std::byte> bytes = random_text(30000, 13);
  const std::span<const std::byte> all(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 997) {
    const auto rest = all.subspan(cut);
    ASSERT_EQ(crc32_extend(crc32(all.first(cut)), rest), crc32(all)) << cut;
    ASSERT_EQ(crc32_joined(crc32(all.first(cut)), crc32(rest), rest.size()), crc32(all)) << cut;
  }
}

}  // namespace
}  // namespace hfshard
