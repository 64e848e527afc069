#include "base/bools.h"

#include <string>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/threads.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(Bools, AreZeroOrOne) {
  EXPECT_NO_THROW(check_bools(as_bytes(std::string("\0\1\1\0", 4))));
  EXPECT_NO_THROW(check_bools({}));
  const Error error = catch_error([] { check_bools(as_bytes(std::string("\1\0\2\377", 4))); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "a bool element is the byte 2, which is neither 0 nor 1");
  EXPECT_EQ(error.hint_text(), "pass --exclude to leave the array out");
}

TEST(DigestFromHex, NamesTheTextThatIsNone) {
  const Error error = catch_error([] { digest_from_hex("abc\n"); });
  EXPECT_EQ(error.sentence(), "a digest must be 32 lower-case hex digits, not \"abc\\x0a\"");
  EXPECT_EQ(digest_from_hex("00000000000000010000000000000002"), (Digest128{2, 1}));
}

TEST(RefusedThread, SaysHowManyThereShouldBe) {
  const Error error = refused_thread(2, 5, 11, "use fewer");
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.sentence(), "the system refuses thread 2 of 5: Resource temporarily unavailable");
  EXPECT_EQ(error.hint_text(), "use fewer");
}

}  // namespace
}  // namespace hfshard
