#include "service/diff_compile.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// No scheme has all leaves of such a tree, and each layout has some of them.
TEST(DiffCompile, ATreeThatLacksALeafIsComparedInItsOwnLayout) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  for (const bool stacked : {true, false}) {
    PlanOptions options;
    options.target = "dcp";
    options.mapping.stacked = stacked;
    options.mapping.exclude = {"model.norm.weight"};
    const std::string tree = dir / (stacked ? "stacked" : "separate");
    hfshard::convert(source, options, to_output(tree), quiet);
    for (const char* name : {"hfshard.json", "config.json"})
      std::filesystem::remove(join_path(tree, name));
    const DiffResult found = diff(source, tree, {}, to_output(""), quiet);
    EXPECT_EQ(found.differing_tensors, 1U) << stacked;
    EXPECT_EQ(found.compared_tensors + 1, found.tensors.size()) << stacked;
    ASSERT_FALSE(found.tensors.empty());
    EXPECT_EQ(found.tensors[0].kind, TensorDiff::Kind::only_a) << stacked;
    EXPECT_NE(found.tensors[0].name.find("decoder_norm"), std::string::npos)
        << found.tensors[0].name;
  }
}

}  // namespace
}  // namespace hfshard
