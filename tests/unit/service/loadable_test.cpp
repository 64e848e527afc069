#include "service/loadable.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
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

TEST(IsOptimizerState, TheFirstKeyIsTheWholeNameOfAState) {
  for (const char* name : {"optimizer.a", "optimizers.a.b", "optim.a", "opt_state.mu",
                           "optimizer_state.a", "optimizer_state_dict.a", "optimizer"})
    EXPECT_TRUE(is_optimizer_state(name)) << name;
  for (const char* name : {"model.optimizer", "optimizer_2.a", "opt.a", "a.opt_state", ""})
    EXPECT_FALSE(is_optimizer_state(name)) << name;
}

TEST(IsStateAnywhere, MomentsAreTheLastKeyAndStatesAnyKey) {
  for (const char* name : {"model.optimizer.a", "a.optim", "w.exp_avg", "w.exp_avg_sq",
                           "w.max_exp_avg_sq", "w.momentum_buffer", "exp_avg"})
    EXPECT_TRUE(is_state_anywhere(name)) << name;
  for (const char* name : {"exp_avg.w", "w.exp_avg_2", "model.optimizers_2.a", "w"})
    EXPECT_FALSE(is_state_anywhere(name)) << name;
}

TEST(ParametersLeftOut, OnlyParametersThatTheUserLeavesOutCount) {
  for (const char* name : {"a.b", "ema.w", "model.step"}) EXPECT_TRUE(may_be_parameter(name));
  for (const char* name : {"number", "step.a", "optimizer.a", "rng.a", "opt_state.a", "optim_2.a"})
    EXPECT_FALSE(may_be_parameter(name)) << name;
  Catalog tree;
  for (const char* name : {"a.w", "b.w", "c.w", "number", "optimizer.a"})
    tree.tensors.emplace_back().name = name;
  CompiledModel model;
  model.rules = {"mappings/x.json#/drop/0", "--include", "--exclude"};
  for (const auto& [source, rule] : {std::pair{0U, 0U}, {1U, 1U}, {2U, 2U}, {3U, 1U}, {4U, 2U}}) {
    Drop& drop = model.drops.emplace_back();
    drop.source = source;
    drop.rule = rule;
  }
  EXPECT_EQ(parameters_left_out(model, tree), 2U);
}

// Returns the last warning of a reshard to a model's files.
std::string last_warning(const std::string& tree, const TreeOptions& asked) {
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  options.tree = asked;
  options.tree.same = true;
  const std::vector<std::string> warnings = plan(tree, options, to_output({})).summary.warnings;
  return warnings.empty() ? std::string() : warnings.back();
}

// The record knows the model unless --config names another one.
TEST(LoadDoubts, AReshardOfAnotherSchemesNamesNamesTheExport) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions titan;
  titan.target = "dcp";
  titan.mapping.scheme = "torchtitan";
  convert(source, titan, to_output(dir / "tree"), quiet);
  const std::string keeps =
      "reshard keeps the names of torchtitan, so no config.json is written and transformers can't "
      "load the output; for the model's own names, run hfshard convert SOURCE OUT --to safetensors";
  EXPECT_EQ(last_warning(dir / "tree", {}), keeps);
  TreeOptions asked;
  asked.config_name = source + "/config.json";
  asked.config_text = read_file(asked.config_name);
  EXPECT_EQ(last_warning(dir / "tree", asked), keeps + " --config DIR");
}

TEST(LoadDoubts, NamesOfALoaderAreADoubtOnlyNextToAConfig) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions titan;
  titan.target = "safetensors";
  titan.mapping.scheme = "torchtitan";
  using Warnings = std::vector<std::string>;
  EXPECT_EQ(plan(source, titan, to_output({})).summary.warnings,
            Warnings{"the output has the names of torchtitan next to the model's config.json: "
                     "transformers fills such a model with random values; for the model's own "
                     "names, pass --scheme hf"});
  titan.target = "dcp";
  convert(source, titan, to_output(dir / "tree"), quiet);
  titan.target = "safetensors";
  titan.tree.same = true;
  EXPECT_EQ(plan(dir / "tree", titan, to_output({})).summary.warnings, Warnings())
      << "a reshard with a scheme writes no config";
}

// A state below other keys, and next to a model with only a head.
TEST(RefuseUnloadable, TheHintReadsTheModelAlone) {
  const TempDir dir;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  options.tree.config_name = dir / "meta/config.json";
  options.tree.config_text = R"({"model_type": "nobody"})";
  write_text(options.tree.config_name, *options.tree.config_text);
  const auto hint = [&](const std::vector<std::string>& names) {
    TorchCheckpoint torch;
    for (const std::string& name : names)
      torch.tensor(name, DType::u8, {2}).part({0}, {2}, "ab", false);
    torch.write(dir / "tree");
    const Error error = catch_error([&] { plan(dir / "tree", options, to_output({})); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    const std::string end = "; pass --include '*' to write them anyway";
    EXPECT_TRUE(error.hint_text().ends_with(end)) << error.hint_text();
    return error.sentence().substr(0, error.sentence().find(',')) + "; " + error.tensor() + "; " +
           error.hint_text().substr(0, error.hint_text().size() - end.size());
  };
  EXPECT_EQ(hint({"m.lm_head.weight", "m.x", "optim.a", "optim.b"}),
            "2 of 4 tensors are optimizer states; optim.a; pass --root m to read only the model");
  EXPECT_EQ(hint({"m.x", "m.y", "optim.a"}),
            "1 of 3 tensors are optimizer states; optim.a; pass --exclude 'optim.*' to leave them "
            "out");
  EXPECT_EQ(hint({"ema.model.x", "m.model.x", "optim.a"}),
            "1 of 3 tensors are optimizer states; optim.a; pass --exclude 'optim.*' to leave them "
            "out");
  options.mapping.include = {"*"};
  EXPECT_EQ(plan(dir / "tree", options, to_output({})).summary.leaves, 3U);
}

}  // namespace
}  // namespace hfshard
