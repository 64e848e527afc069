#include "service/prepare.h"

#include <gtest/gtest.h>

#include "format/formats.h"

namespace hfshard {
namespace {

TEST(LayoutOf, AReshardKeepsTheFormOfTheStep) {
  const Format& orbax = format_of("orbax");
  const FileLayout usual = orbax.layout();
  ASSERT_FALSE(usual.item.empty());
  EXPECT_EQ(layout_of(orbax, {}).item, usual.item);
  EXPECT_EQ(layout_of(orbax, {}).step_prefix, usual.step_prefix);
  TreeOptions tree;
  tree.direct = true;
  tree.step_prefix = "checkpoint_";
  tree.step_digits = 6;
  EXPECT_EQ(layout_of(orbax, tree).item, "");
  EXPECT_EQ(layout_of(orbax, tree).step_directory(7), "checkpoint_000007");
  tree = {};
  tree.item_name = "params";
  EXPECT_EQ(layout_of(orbax, tree).item, "params");
}

}  // namespace
}  // namespace hfshard
