#include "tool/plan_flags.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hfshard
