// Several workers and `finalize` make one output while something changes between them.

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/temp_dir.h"
#include "unit/tool/run_tool.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string replaced(std::string text, const std::string& old_text, const std::string& new_text) {
  const std::size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return at == std::string::npos ? text : text.replace(at, old_text.size(), new_text);
}

// config.json affects the order of rotary rows but no shape. So two shares that read it before and
// after an edit don't form a checkpoint.
TEST(WorkerShares, AnEditOfTheConfigBetweenThemIsAConflictAndNothingIsPublished) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  const std::string config = source + "/config.json";
  ASSERT_EQ(run_tool({"mappings", "example", "llama", source}).status, 0);
  const std::string before = read_file(config);
  ASSERT_EQ(run_tool({"convert", source, out, "--worker", "0/2", "--quiet"}).status, 0);
  write_text(config, replaced(before, "\"llama3\"", "\"default\""));
  const int conflict = exit_status(ErrorCode::conflict);
  const ToolRun share = run_tool({"convert", source, out, "--worker", "1/2", "--quiet"});
  EXPECT_EQ(share.status, conflict);
  EXPECT_NE(share.err.find("source.config"), std::string::npos) << share.err;
  EXPECT_EQ(run_tool({"finalize", out, "--quiet"}).status, conflict);
  EXPECT_FALSE(exists(out));
  write_text(config, before);
  EXPECT_EQ(run_tool({"convert", source, out, "--worker", "1/2", "--quiet"}).status, 0);
  EXPECT_EQ(run_tool({"finalize", out, "--quiet"}).status, 0);
  EXPECT_EQ(run_tool({"verify", out, source, "--quiet"}).status, 0);
}

// `finalize` and `verify` take the options from plan.json and from the manifest, since they have no
// such flags.
TEST(WorkerShares, FinalizeAndVerifyKnowEveryOptionOfTheRun) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  const std::string rules = dir / "rules.json";
  ASSERT_EQ(run_tool({"mappings", "example", "llama", source}).status, 0);
  write_text(rules, R"([["embed", ["fsdp"]], ["mlp", ["tensor"]]])");
  for (const char* worker : {"0/2", "1/2"}) {
    const ToolRun run = run_tool({"convert",
                                  source,
                                  out,
                                  "--worker",
                                  worker,
                                  "--quiet",
                                  "--checksum",
                                  "none",
                                  "--exclude",
                                  "model.norm.weight",
                                  "--cast",
                                  "*query.kernel=f32",
                                  "--rules",
                                  rules,
                                  "--mesh",
                                  "fsdp=2",
                                  "--mesh",
                                  "tensor=2",
                                  "--layers",
                                  "separate",
                                  "--dtype",
                                  "f16",
                                  "--option",
                                  "rope=halves",
                                  "--output-step",
                                  "3"});
    ASSERT_EQ(run.status, 0) << run.err;
  }
  const ToolRun finalized = run_tool({"finalize", out, "--quiet"});
  ASSERT_EQ(finalized.status, 0) << finalized.err;
  const ToolRun verified = run_tool({"verify", out, source, "--quiet"});
  EXPECT_EQ(verified.status, 0) << verified.err;
}

}  // namespace
}  // namespace hfshard
