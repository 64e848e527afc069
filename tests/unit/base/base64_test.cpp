#include "base/base64.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

// RFC 4648, section 10.
TEST(Base64, DecodesWithPadding) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
}

TEST(Base64, TakesBothAlphabets) {
  EXPECT_EQ(decode_base64("_-8="), "\xff\xef");
  EXPECT_EQ(decode_base64("/+8="), "\xff\xef");
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zm 9", "Zm9v\n", "Z=9v", "Zm9v!bcd"})
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace hfshard
