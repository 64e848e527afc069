#include "service/diff_trees.h"

#include <string>

#include <gtest/gtest.h>

#include "service/source.h"
#include "unit/run/run_support.h"
#include "unit/service/as_stored.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Converts a fixture to a tree with separate layers, which isn't the main scheme's usual layout.
DiffSide separate_tree(const TempDir& dir, const std::string& fixture) {
  Reporter quiet;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.stacked = false;
  const std::string tree = dir / (fixture + "-tree");
  convert(copy_fixture(fixture, dir / fixture), options, to_output(tree), quiet);
  DiffSide out;
  out.text = tree;
  out.place = StorePath(tree);
  out.checkpoint = open_source_model(out.place, as_stored("safetensors")).checkpoint;
  return out;
}

// One model has biases, and the other has norms of queries and keys.
TEST(InMainScheme, ModelsThatEachHaveOwnLeavesArentCompared) {
  const TempDir dir;
  const DiffSide a = separate_tree(dir, "qwen3");
  const DiffSide b = separate_tree(dir, "qwen2.5");
  EXPECT_FALSE(in_main_scheme(a, {}, b, {}));
  const auto same = in_main_scheme(a, {}, a, {});
  ASSERT_TRUE(same);
  EXPECT_EQ(same->through, "both are converted to scheme maxtext");
  EXPECT_EQ(same->a.model.leaves.size(), same->b.model.leaves.size());
  EXPECT_TRUE(same->a.model.stacked);
}

}  // namespace
}  // namespace hfshard
