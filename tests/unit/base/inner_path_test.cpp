#include "base/inner_path.h"

#include <string_view>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(InnerPath, StaysBelowWhereItStarts) {
  for (const std::string_view path : {"a", "a/b", "..a", "a../b", "...", "a b", "-"})
    EXPECT_TRUE(is_inner_path(path)) << path;
  for (const std::string_view path :
       {"", ".", "..", "/", "/a", "a/", "a//b", "./a", "../a", "a/..", "a/../b", "a/./b"})
    EXPECT_FALSE(is_inner_path(path)) << path;
  EXPECT_FALSE(is_inner_path(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace hfshard
