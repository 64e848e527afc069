#include "base/digest.h"

#include <random>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Known answers of xxHash's own `xxhsum -H128` (empty input) and of FIPS 180-2.
TEST(Digest, KnownAnswers) {
  EXPECT_EQ(to_hex(hash_block(0, {})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(Sha1().update("abc").finish()), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(Digest, ShaInPiecesIsShaOfTheWhole) {
  Sha256 sha;
  sha.update("a").update("").update("bc");
  Sha256 moved = std::move(sha);
  EXPECT_EQ(to_hex(moved.finish()), sha256_hex("abc"));
}

TEST(Digest, TheBlockIndexCounts) {
  EXPECT_NE(hash_block(0, as_bytes("row")), hash_block(1, as_bytes("row")));
}

TEST(Digest, SumsCarryAndDoNotDependOnOrder) {
  Digest128 sum{UINT64_MAX, 1};
  sum += Digest128{1, 2};
  EXPECT_EQ(sum, (Digest128{0, 4}));
  Digest128 forward;
  Digest128 backward;
  for (std::uint64_t i = 0; i < 100; ++i) forward += hash_block(i, as_bytes("x"));
  for (std::uint64_t i = 100; i-- > 0;) backward += hash_block(i, as_bytes("x"));
  EXPECT_EQ(forward, backward);
}

TEST(Digest, HexGoesBothWays) {
  const Digest128 digest{0x0123456789abcdefU, 0xfedcba9876543210U};
  EXPECT_EQ(to_hex(digest), "fedcba98765432100123456789abcdef");
  EXPECT_EQ(digest_from_hex(to_hex(digest)), digest);
  for (const char* text :
       {"", "fedc", "FEDCBA98765432100123456789ABCDEF", "fedcba98765432100123456789abcdeg",
        "fedcba98765432100123456789abcdef0"}) {
    EXPECT_EQ(catch_error([&] { digest_from_hex(text); }).code(), ErrorCode::bad_input) << text;
  }
}

}  // namespace
}  // namespace hfshard
