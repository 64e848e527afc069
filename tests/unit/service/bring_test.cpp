#include "service/bring.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/sizes.h"

namespace hfshard {
namespace {

TEST(Bring, ACacheWithJustEnoughSpaceIsEnough) {
  EXPECT_NO_THROW(check_cache_space("cache", 3 * kMiB, 3 * kMiB));
  EXPECT_NO_THROW(check_cache_space("cache", 3 * kMiB, UINT64_MAX));
  EXPECT_NO_THROW(check_cache_space("cache", 0, 0));
}

TEST(Bring, OneByteTooFewIsRefusedWithBothNumbers) {
  const Error error = catch_error([] { check_cache_space("cache", 1025, 1024); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.file(), "cache");
  EXPECT_NE(error.hint_text().find("HF_HUB_CACHE"), std::string::npos) << error.hint_text();
  EXPECT_THROW(check_cache_space("cache", 1, 0), Error);
  EXPECT_THROW(check_cache_space("cache", UINT64_MAX, UINT64_MAX - 1), Error);
}

}  // namespace
}  // namespace hfshard
