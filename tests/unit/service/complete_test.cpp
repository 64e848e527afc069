#include "service/complete.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

TEST(Complete, AnArrayThatTheModelLacksIsNamedAndCanBeLeftOut) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  EXPECT_EQ(check_complete_tree(tree, config, {}).unchecked, "");
  for (const char* name : {"zebra.a", "zebra.b"}) {
    tree.tensors.push_back(tree.tensors.back());
    tree.tensors.back().name = name;
  }
  MappingOptions options;
  const Error error = catch_error([&] { check_complete_tree(tree, config, options); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "zebra.a");
  options.exclude = {"zebra.*"};
  EXPECT_EQ(check_complete_tree(tree, config, options).left_out_others,
            (Names{"zebra.a", "zebra.b"}));
}

// Such codes have other names and shapes than the model's tensors.
TEST(Complete, ATreeOfCodesThatCantBeDecodedIsNotChecked) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  const std::string weight = "model.layers.0.self_attn.q_proj.weight";
  const auto codes = std::ranges::find(tree.tensors, weight, &TensorInfo::name);
  ASSERT_NE(codes, tree.tensors.end());
  codes->name = "model.layers.0.self_attn.q_proj.qweight";
  std::ranges::sort(tree.tensors, {}, &TensorInfo::name);
  const Completeness found = check_complete_tree(tree, config, {});
  EXPECT_EQ(found.unchecked, "it is quantized with GPTQ or AWQ");
  EXPECT_EQ(found.others, Names{});
}

}  // namespace
}  // namespace hfshard
