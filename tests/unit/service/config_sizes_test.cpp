#include "service/config_sizes.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "service/described.h"
#include "support/catch_error.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

// More heads and wider heads both give the queries more rows, and only one fits the norms too.
TEST(CheckSizes, TheKeyThatGivesAllSizesIsNamed) {
  const Catalog files = files_of("qwen3", {{"num_attention_heads", Json(8)}});
  const CompiledModel model = compile_model(files, {});
  const Catalog tree =
      tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  const std::string config = files_of("qwen3").config_text;  // 4 heads
  const Described described = describe_model(tree, config, "config.json", {});
  const Error error = catch_error([&] { check_sizes(tree, described, config, "config.json", {}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.hint_text(), "set \"num_attention_heads\": 8 in config.json");
}

}  // namespace
}  // namespace hfshard
