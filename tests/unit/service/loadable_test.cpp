#include "service/loadable.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(LoadDoubts, OnlyTensorsThatTheModelMayNeedAreMissedByLoaders) {
  const TempDir dir;
  const Catalog files = files_of("qwen3");
  SafetensorsBuilder builder;
  for (const TensorInfo& info : files.tensors) builder.tensor(info.name, info.dtype, info.shape);
  builder.tensor("zebra.weight", DType::bf16, {2}).tensor("number", DType::bf16, {2});
  write_text(dir / "model/model.safetensors", builder.build());
  write_text(dir / "model/config.json", files.config_text);
  const auto warnings = [&](const std::vector<std::string>& exclude,
                            const std::vector<std::string>& include = {}) {
    PlanOptions options;
    options.target = "safetensors";
    options.mapping.scheme = "hf";
    options.mapping.exclude = exclude;
    options.mapping.include = include;
    return plan(dir / "model", options, to_output({})).summary.warnings;
  };
  using Warnings = std::vector<std::string>;
  EXPECT_EQ(warnings({"zebra.weight", "number"}), Warnings());
  const std::string all = std::to_string(files.tensors.size() + 2);
  const Warnings one{"--include and --exclude leave out 1 of " + all +
                     " tensors: transformers fills those that the model needs with random values"};
  EXPECT_EQ(warnings({"zebra.weight", "number", "lm_head.weight"}), one);
  EXPECT_EQ(warnings({}, {"model.*", "zebra.*"}), one);
}

}  // namespace
}  // namespace hfshard
