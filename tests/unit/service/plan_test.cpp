// The answers of `plan` beside the plan itself.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "service/example.h"
#include "support/catch_error.h"
#include "unit/mapping/families.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class PlanQuestionsTest : public testing::Test {
 protected:
  PlanReport planned(const PlanOptions& options, const RunOptions& run,
                     const PlanQuestions& questions = {}) const {
    RunOptions small = run;
    small.limits = &limits_;
    return hfshard::plan(source_, options, small, questions);
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

TEST_F(PlanQuestionsTest, AsManyLeavesAsAreAskedForAreListed) {
  const PlanReport all = planned(small_options(), {});
  EXPECT_EQ(all.leaves.size(), all.summary.leaves);
  ASSERT_GT(all.leaves.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(all.leaves, {}, &PlannedLeaf::path));
  PlanQuestions questions;
  questions.most_leaves = 3;
  const PlanReport some = planned(small_options(), {}, questions);
  ASSERT_EQ(some.leaves.size(), 3U);
  EXPECT_EQ(some.leaves[2].path, all.leaves[2].path);
  EXPECT_EQ(some.summary.leaves, all.summary.leaves);
  questions.most_leaves = 0;
  EXPECT_TRUE(planned(small_options(), {}, questions).leaves.empty());
}

TEST_F(PlanQuestionsTest, ALeafHasTheLayoutOfItsArray) {
  const PlanReport report = planned(small_options(), {});
  const auto leaf = std::ranges::find(report.leaves, "params.params.decoder.layers.mlp.wo.kernel",
                                      &PlannedLeaf::path);
  ASSERT_NE(leaf, report.leaves.end());
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"mlp", "layers", "embed"}));
  EXPECT_EQ(leaf->bytes, packed_bytes(leaf->dtype, leaf->shape.numel()));
  EXPECT_EQ(leaf->chunks, chunk_counts(leaf->shape, leaf->chunk).numel());
  EXPECT_GT(leaf->chunks, 1U);
  EXPECT_FALSE(leaf->linked);
}

TEST_F(PlanQuestionsTest, DiskAndTimeAreToldOnlyIfTheyAreAskedFor) {
  const PlanReport alone = planned(small_options(), {});
  EXPECT_FALSE(alone.free_bytes);
  EXPECT_FALSE(alone.time);
  EXPECT_EQ(alone.why_no_time, "");
  const PlanReport with_out = planned(small_options(), to_output(dir_ / "out"));
  EXPECT_TRUE(with_out.free_bytes);
  EXPECT_EQ(with_out.why_no_time, "");
  EXPECT_EQ(with_out.summary.id, alone.summary.id);
  write_text(dir_ / "out/0/items/x", "");
  EXPECT_EQ(catch_error([&] { planned(small_options(), to_output(dir_ / "out")); }).code(),
            ErrorCode::conflict);
}

TEST_F(PlanQuestionsTest, ThreadsAreThoseOfTheRun) {
  RunOptions run;
  run.jobs = 3;
  run.io_threads = 5;
  const MemoryNeed found = planned(small_options(), run).memory;
  EXPECT_EQ(found.kernel_threads, 3U);
  EXPECT_EQ(found.threads, 8U);
}

TEST_F(PlanQuestionsTest, TheMemoryThatIsEnoughIsTheLeastThatARunTakes) {
  RunOptions run;
  run.jobs = 2;
  const PlanReport report = planned(small_options(), run);
  EXPECT_FALSE(report.refusal);
  EXPECT_LT(report.memory.control_bytes, report.memory.need_bytes);
  EXPECT_LE(report.memory.peak_bytes, run.max_memory_bytes);
  EXPECT_GT(report.memory.peak_bytes, report.memory.control_bytes);
  run.max_memory_bytes = report.memory.need_bytes;
  EXPECT_FALSE(planned(small_options(), run).refusal);
  --run.max_memory_bytes;
  const PlanReport refused = planned(small_options(), run);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->code(), ErrorCode::limit);
  EXPECT_EQ(refused.leaves.size(), report.leaves.size()) << "the plan is shown all the same";
}

// An export compares padding that it leaves out with what it writes, chunk by chunk, which takes
// more memory than the export.
TEST_F(PlanQuestionsTest, TheMemoryThatIsEnoughIsEnoughForTheCheckOfWhatIsLeftOut) {
  Json config = family_info("qwen3").example;
  config["vocab_size"] = 40000;
  config["hidden_size"] = 64;
  ExampleOptions example;
  example.family = "qwen3";
  example.out = dir_ / "example";
  example.config_text = dump_json(config);
  Reporter quiet;
  write_example(example, quiet);
  PlanOptions padded;
  padded.mapping.options["vocab"] = "40004";
  hfshard::convert(example.out, padded, to_output(dir_ / "tree"), quiet);
  source_ = dir_ / "tree";
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  RunOptions run;
  run.jobs = 2;
  run.max_memory_bytes = planned(back, run).memory.need_bytes;
  const PlanReport enough = planned(back, run);
  EXPECT_FALSE(enough.refusal) << enough.refusal->format();
  EXPECT_EQ(enough.memory.need_bytes, run.max_memory_bytes);
}

TEST_F(PlanQuestionsTest, ALinkIsLoadedOnItsOwnMeshesAndByTheHostsThatAreAskedFor) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.meshes = {"fsdp=4"};
  options.link = true;
  PlanQuestions questions;
  const auto hosts = [&] {
    std::vector<std::string> out;
    for (const LoadReport& load : planned(options, {}, questions).loads)
      out.push_back(load.mesh + " " + std::to_string(load.hosts.size()));
    return out;
  };
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(hosts(), Hosts{"fsdp=4 4"});
  questions.devices_per_host = 2;
  EXPECT_EQ(hosts(), Hosts{"fsdp=4 2"});
  questions.load_meshes = {"fsdp=8", "fsdp=2"};
  EXPECT_EQ(hosts(), (Hosts{"fsdp=8 4", "fsdp=2 1"}));
  options.link = false;
  EXPECT_EQ(hosts(), (Hosts{"fsdp=8 4", "fsdp=2 1"}));
  questions.load_meshes.clear();
  EXPECT_EQ(hosts(), Hosts());
}

TEST_F(PlanQuestionsTest, TheStepsOfATreeAreNamed) {
  Reporter quiet;
  PlanOptions options = small_options();
  for (const std::uint64_t step : {3U, 12U}) {
    options.step = step;
    hfshard::convert(source_, options, to_output(dir_ / "run"), quiet);
  }
  options.step.reset();
  options.mapping.stacked = false;
  const PlanSummary highest = hfshard::plan(dir_ / "run", options, {}, {}).summary;
  EXPECT_EQ(highest.step, 12U);
  EXPECT_EQ(highest.other_steps, std::vector<std::uint64_t>{3});
  options.tree.step = 3;
  const PlanSummary lower = hfshard::plan(dir_ / "run", options, {}, {}).summary;
  EXPECT_EQ(lower.step, 3U);
  EXPECT_EQ(lower.other_steps, std::vector<std::uint64_t>{12});
  EXPECT_FALSE(planned(small_options(), {}).summary.step);
}

TEST(MeshAxes, AreThoseOfTheDefaultRules) {
  const std::vector<std::string> axes = mesh_axes();
  EXPECT_TRUE(std::ranges::is_sorted(axes));
  for (const char* axis : {"fsdp", "tensor", "expert"})
    EXPECT_EQ(std::ranges::count(axes, axis), 1) << axis;
}

// Rules of the user name dimensions of arrays that have no other names.
TEST_F(PlanQuestionsTest, RulesNameTheDimensionsOfTensorsAsStored) {
  using AxisNames = std::vector<std::string>;
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.rules_text = R"([["dim_1", ["fsdp"]]])";
  options.meshes = {"fsdp=2"};
  options.chunk_bytes = 64;
  const auto leaf = [&](const std::string& source) {
    RunOptions small;
    small.limits = &limits_;
    const std::vector<PlannedLeaf> leaves = hfshard::plan(source, options, small, {}).leaves;
    return *std::ranges::find(leaves, "model.layers.0.mlp.down_proj.weight", &PlannedLeaf::path);
  };
  const PlannedLeaf named = leaf(source_);
  EXPECT_EQ(named.axes, (AxisNames{"dim_0", "dim_1"}));
  EXPECT_EQ(named.shard[0], named.shape[0]);
  EXPECT_EQ(named.shard[1], named.shape[1] / 2);
  options.rules_text.reset();
  options.target = "dcp";
  const PlannedLeaf torch = leaf(source_);
  EXPECT_EQ(torch.axes, (AxisNames{"dim_0", "dim_1"}));
  EXPECT_EQ(torch.shard[0], torch.shape[0] / 2);
  Reporter quiet;
  PlanOptions plain;
  plain.target = "dcp";
  plain.mapping.scheme = "hf";
  hfshard::convert(source_, plain, to_output(dir_ / "tree"), quiet);
  for (const char* file : {"hfshard.json", "config.json"})
    std::filesystem::remove(dir_ / ("tree/" + std::string(file)));
  options.tree.same = true;
  EXPECT_EQ(leaf(dir_ / "tree").axes, (AxisNames{"dim_0", "dim_1"}));
}

TEST_F(PlanQuestionsTest, ARunTakesTheMemoryThatItIsGiven) {
  RunOptions run;
  run.jobs = 2;
  const MemoryNeed free = planned(small_options(), run).memory;
  run.max_memory_bytes = free.need_bytes;
  const MemoryNeed tight = planned(small_options(), run).memory;
  EXPECT_EQ(tight.need_bytes, free.need_bytes);
  EXPECT_EQ(tight.control_bytes, free.control_bytes);
  EXPECT_LE(tight.peak_bytes, free.need_bytes);
  EXPECT_LE(tight.peak_bytes, free.peak_bytes);
}

}  // namespace
}  // namespace hfshard
