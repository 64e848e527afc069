#include <gtest/gtest.h>

#include "hfshard/mapping.h"

namespace hfshard {
namespace {

TEST(Casts, AreReadAsTheyAreWritten) {
  const std::optional<Cast> cast = parse_cast("a=*.kernel=f32");
  ASSERT_TRUE(cast);
  EXPECT_EQ(cast->glob, "a=*.kernel");
  EXPECT_EQ(cast->dtype, DType::f32);
  EXPECT_EQ(to_string(*cast), "a=*.kernel=f32");
}

TEST(Casts, OtherTextsAreNone) {
  for (const char* text : {"", "f32", "=f32", "*.kernel=", "*.kernel=f31", "*.kernel"})
    EXPECT_FALSE(parse_cast(text)) << text;
}

}  // namespace
}  // namespace hfshard
