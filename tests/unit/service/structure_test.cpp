#include "service/structure.h"

#include <gtest/gtest.h>

#include "support/catch_error.h"

namespace hfshard {
namespace {

TEST(CheckBeside, OnlyAnItemWithTheWholeNameOfTheTreeIsRefused) {
  Catalog tree;
  tree.beside.files = {"items_old/a", "metrics/metrics"};
  check_beside(tree, "items");
  check_beside(tree, "");
  const Error error = catch_error([&] { check_beside(tree, "metrics"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
}

}  // namespace
}  // namespace hfshard
