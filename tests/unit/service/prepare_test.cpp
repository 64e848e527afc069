#include "service/prepare.h"

#include <gtest/gtest.h>

#include "format/formats.h"
#include "support/temp_dir.h"
#include "support/torch_file_builder.h"

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

TEST(WithTarget, AReshardOfAFormatThatIsOnlyReadBecomesTheDefaultFormat) {
  const TempDir dir;
  PlanOptions options;
  options.tree.same = true;
  TorchFileBuilder().tensor("a", DType::f32, {1}, "1234").write(dir / "state.pt");
  EXPECT_EQ(with_target(StorePath(dir / "state.pt"), options).target, "orbax");
}

}  // namespace
}  // namespace hfshard
