#include "base/base64.h"

#include <string>

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

TEST(Base64, EveryCharacterHasItsBits) {
  const std::string all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bytes = decode_base64(all);
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), 48U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    unsigned value = 0;
    for (std::size_t bit = 6 * i; bit < 6 * i + 6; ++bit) {
      const auto byte = static_cast<unsigned char>((*bytes)[bit / 8]);
      value = value * 2 + (byte >> (7 - bit % 8) & 1U);
    }
    EXPECT_EQ(value, i) << all[i];
  }
}

}  // namespace
}  // namespace hfshard
