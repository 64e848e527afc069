#include "tool/plan_flags.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

TEST(PlanFlags, ASizeThatIsNoneIsRefusedByItsName) {
  const TempDir dir;
  for (const std::string flag : {"--chunk-bytes", "--shard-bytes", "--max-memory"}) {
    const std::string target = flag == "--shard-bytes" ? "safetensors" : "dcp";
    for (const char* size : {"0", "0MiB", "x", "-1", "1 furlong"}) {
      const ToolRun run =
          run_tool({"convert", dir.path(), dir / "out", "--to", target, flag + "=" + size});
      EXPECT_EQ(run.status, 2) << flag << size;
      EXPECT_NE(run.err.find(flag + " \"" + size + "\" is not a size"), std::string::npos)
          << run.err;
    }
  }
}

TEST(HelpCommand, OfHelpIsThatOfTheProgram) {
  const std::string program = run_tool({"--help"}).out;
  EXPECT_NE(program.find("convert"), std::string::npos);
  EXPECT_EQ(run_tool({"help"}).out, program);
  EXPECT_EQ(run_tool({"help", "help"}).out, program);
  EXPECT_EQ(run_tool({"help", "help", "plan"}).out, run_tool({"plan", "--help"}).out);
}

TEST(PlanFlags, LevelsOfZstdAreFrom1To22) {
  const TempDir dir;
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", dir / "in"}).status, 0);
  const auto status = [&](const std::string& level) {
    return run_tool({"plan", dir / "in", "--compress", level, "--quiet"}).status;
  };
  for (const char* level : {"none", "zstd", "zstd:1", "zstd:22"})
    EXPECT_EQ(status(level), 0) << level;
  for (const char* level : {"zstd:0", "zstd:23", "zstd:", "zstd:1x", "zstd:-1"})
    EXPECT_EQ(status(level), 2) << level;
}

TEST(PlanFlags, TheSchemeThatIsAskedForReplacesTheOneOfTheFormat) {
  const TempDir dir;
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", dir / "in"}).status, 0);
  EXPECT_EQ(run_tool({"plan", dir / "in", "--to", "dcp", "--layers", "separate"}).status, 2);
  const ToolRun run =
      run_tool({"plan", dir / "in", "--to", "dcp", "--scheme", "maxtext", "--layers", "separate"});
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST(PlanFlags, AnEmptyPrefixAddsNothing) {
  const TempDir dir;
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", dir / "in"}).status, 0);
  const auto plan_id = [&](const std::string& prefix) {
    const ToolRun run =
        run_tool({"plan", dir / "in", "--scheme", "hf", "--prefix", prefix, "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.json().at("plan_id");
  };
  const Json without = run_tool({"plan", dir / "in", "--scheme", "hf", "--json"}).json();
  EXPECT_EQ(plan_id(""), without.at("plan_id"));
  EXPECT_NE(plan_id("model."), without.at("plan_id"));
}

TEST(PlanFlags, AWorkerHasAShareOfSeveral) {
  RunFlags flags;
  flags.worker = "3/4";
  const RunOptions run = run_options(Session{}, flags);
  EXPECT_EQ(run.worker, 3U);
  EXPECT_EQ(run.workers, 4U);
  for (const char* share : {"4/4", "0/0", "3", "3/", "/4", "/", "x/4", "3/4x", "3x/4", "-1/4"}) {
    flags.worker = share;
    EXPECT_EQ(catch_error([&] { run_options(Session{}, flags); }).code(), ErrorCode::usage)
        << share;
  }
}

TEST(PlanFlags, EveryFlagReachesTheRunAndThePlan) {
  RunFlags flags;
  flags.out = "out";
  flags.max_memory = "3MiB";
  flags.jobs = 7;
  flags.io_threads = 5;
  flags.resume = true;
  const RunOptions run = run_options(Session{}, flags);
  EXPECT_EQ(run.out, "out");
  EXPECT_EQ(run.max_memory_bytes, 3U << 20);
  EXPECT_EQ(run.jobs, 7U);
  EXPECT_EQ(run.io_threads, 5U);
  EXPECT_TRUE(run.resume);
  EXPECT_FALSE(run.overwrite);
  flags.overwrite = true;
  EXPECT_EQ(catch_error([&] { run_options(Session{}, flags); }).code(), ErrorCode::usage);
  flags.resume = false;
  EXPECT_TRUE(run_options(Session{}, flags).overwrite);

  PlanFlags plan;
  plan.to = "dcp";
  plan.meshes = {"fsdp=2"};
  plan.chunk_bytes = "2MiB";
  plan.shard_bytes = "3MB";
  plan.compress = "zstd:3";
  plan.checksum = "none";
  plan.output_step = 9;
  plan.ignore_index = true;
  plan.mapping.include = {"a*", "*.safetensors", "b.bin"};
  plan.mapping.exclude = {"x.pth", "y.pt", "z.part"};
  const PlanOptions options = plan_options(plan);
  EXPECT_EQ(options.target, "dcp");
  EXPECT_EQ(options.meshes, std::vector<std::string>{"fsdp=2"});
  EXPECT_EQ(options.chunk_bytes, 2U << 20);
  EXPECT_EQ(options.shard_bytes, 3'000'000U);
  EXPECT_EQ(options.encoding.zstd_level, 3);
  EXPECT_FALSE(options.encoding.checksum);
  EXPECT_EQ(options.step, 9U);
  EXPECT_TRUE(options.files.ignore_index);
  EXPECT_EQ(options.mapping.include, std::vector<std::string>{"a*"});
  EXPECT_EQ(options.files.take, (std::vector<std::string>{"*.safetensors", "b.bin"}));
  EXPECT_EQ(options.mapping.exclude, std::vector<std::string>{"z.part"});
  EXPECT_EQ(options.files.leave, (std::vector<std::string>{"x.pth", "y.pt"}));
}

TEST(TreeFlagsOf, AConfigIsADirectoryOrItsConfigJson) {
  const TempDir dir;
  write_text(dir / "model/config.json", "{}");
  write_text(dir / "model/other.json", "{}");
  write_text(dir / "odd/config.json/config.json", "[]");
  TreeFlags flags;
  flags.axes = {"a=b"};
  flags.step = 4;
  flags.root = "key";
  flags.items = "state";
  EXPECT_EQ(tree_options(flags).config_text, std::nullopt);
  for (const char* config : {"model", "model/config.json"}) {
    flags.config = dir / config;
    const TreeOptions tree = tree_options(flags);
    EXPECT_EQ(tree.config_name, dir / "model/config.json");
    EXPECT_EQ(tree.config_text, "{}");
    EXPECT_EQ(tree.axes, std::vector<std::string>{"a=b"});
    EXPECT_EQ(tree.step, 4U);
    EXPECT_EQ(tree.root, "key");
    EXPECT_EQ(tree.items, "state");
    EXPECT_FALSE(tree.all_items);
  }
  flags.config = dir / "odd/config.json";
  EXPECT_EQ(tree_options(flags).config_text, "[]") << "a directory of that name";
  flags.config = dir / "model/other.json";
  EXPECT_EQ(catch_error([&] { tree_options(flags); }).code(), ErrorCode::usage);
  flags.config = dir / "nowhere";
  const Error nowhere = catch_error([&] { tree_options(flags); });
  EXPECT_EQ(nowhere.code(), ErrorCode::not_found);
  EXPECT_EQ(nowhere.hint_text(), "pass --config DIR, a directory with the model's config.json");
  flags.config = dir / "odd";  // its config.json is a directory
  const Error odd = catch_error([&] { tree_options(flags); });
  EXPECT_NE(odd.code(), ErrorCode::not_found);
  EXPECT_EQ(odd.hint_text(), "");
  flags.config.clear();
  flags.items = "all";
  EXPECT_TRUE(tree_options(flags).all_items);
  EXPECT_EQ(tree_options(flags).items, "");
}

}  // namespace
}  // namespace hfshard
