#include "tool/habits.h"

#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "tool/mesh_words.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

// Returns the hint of a command that is an error.
std::string hint_of(std::initializer_list<std::string> arguments) {
  const ToolRun run = run_tool(arguments);
  EXPECT_NE(run.status, 0);
  const std::string label = "  hint    ";
  const std::size_t at = run.err.find(label);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + label.size();
  return run.err.substr(begin, run.err.find('\n', begin) - begin);
}

TEST(Habits, AnOptionWithoutItsValueAtTheEnd) {
  EXPECT_EQ(hint_of({"convert", "in", "out", "--scan-layers"}),
            "did you mean: hfshard convert in out --layers stacked");
  for (const char* option : {"--fsdp", "--source", "--mesh"}) {
    EXPECT_EQ(hint_of({"convert", "in", "out", option}).find("did you mean"), std::string::npos)
        << option;
  }
  EXPECT_EQ(hint_of({"convert", "in", "out", "--fsdp", "8", "--mesh"}).find("did you mean"),
            std::string::npos);
}

// The hint of the parser stays.
TEST(Habits, OnlyALineThatWorksIsOffered) {
  const std::string hint = "did you mean --max-memory? see hfshard convert --help";
  for (const char* wrong : {"fsdp", "fsdp=x", "fsdp=", "fsdp=8,tp=", "=8"}) {
    EXPECT_EQ(hint_of({"convert", "in", "out", "--max_memory", "1GiB", "--mesh", wrong}), hint)
        << wrong;
  }
  EXPECT_EQ(hint_of({"convert", "in", "out", "scan_layers=maybe", "--max_memory", "1GiB"}), hint);
  EXPECT_EQ(hint_of({"convert", "in", "out", "--max_memory", "1GiB", "--mesh"}), hint);
}

TEST(Habits, AnOptionThatTheCommandLacksIsNotOffered) {
  EXPECT_EQ(hint_of({"inspect", "in", "--scan-layers", "true"}), "see hfshard inspect --help");
  EXPECT_EQ(hint_of({"inspect", "--scan-layers", "true"}), "see hfshard inspect --help");
  EXPECT_EQ(hint_of({"inspect", "in", "--continue"}), "see hfshard inspect --help");
}

TEST(Habits, OnlyAFileIsAPatternOfFetch) {
  EXPECT_EQ(hint_of({"fetch", "a/b", "c.json"}), "for only some files, pass --include c.json");
  EXPECT_TRUE(hint_of({"fetch", "a/b", "c"}).starts_with("usage: hfshard fetch "));
}

TEST(Habits, VerboseAloneMeansTheVersion) {
  for (const char* word : {"-v", "--verbose"})
    EXPECT_EQ(hint_of({word}), "did you mean: hfshard --version") << word;
}

TEST(Habits, ArgumentsThatACommandCanDoWithoutAreNotShown) {
  EXPECT_EQ(hint_of({"manual"}), "did you mean: hfshard man");
}

TEST(Habits, AStepIsAnOutputToo) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", source}).status, 0);
  ASSERT_EQ(run_tool({"convert", source, out, "--quiet"}).status, 0);
  for (const std::string& place : {out, out + "/0"}) {
    EXPECT_EQ(hint_of({"verify", source, place}),
              "write OUT before SOURCE: hfshard verify " + place + " " + source);
  }
}

TEST(Habits, AWordAfterAnAxisIsItsSizeOnlyIfItIsANumber) {
  EXPECT_EQ(hint_of({"inspect", "--load-mesh", "fsdp", "16", "in", "--ignore_index"}),
            "did you mean: hfshard inspect --load-mesh fsdp=16 in --ignore-index");
  EXPECT_EQ(hint_of({"inspect", "--load-mesh", "fsdp", "in", "--ignore_index"}),
            "did you mean --ignore-index? see hfshard inspect --help")
      << "fsdp alone is no mesh";
}

TEST(Habits, ALineThatWouldDropAWordIsNotShown) {
  for (const char* axis : {"--fsdp=eight", "--fsdp"}) {
    EXPECT_EQ(hint_of({"convert", "in", "out", axis, "eight", "--max_memory", "1GiB"}),
              "see hfshard convert --help");
  }
}

TEST(Habits, AMeshForAnUnknownCommandIsStillAnErrorOfTheCommand) {
  const ToolRun run = run_tool({"nonsense", "--mesh", "fsdp=8", "tp=2"});
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(
      run.err.starts_with("hfshard: error [usage]: hfshard has no command \"nonsense\"\n"
                          "  hint    the commands are "))
      << run.err;
}

TEST(Habits, AGroupOfCommandsIsNamedWithoutOneOfThem) {
  EXPECT_EQ(hint_of({"hfshard", "mappings"}), "did you mean: hfshard mappings");
}

TEST(Habits, AnOptionAtTheEndLacksItsValue) {
  const ToolRun run = run_tool({"inspect", "in", "--color"});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err,
            "hfshard: error [usage]: --color needs a value, WHEN\n"
            "  hint    see hfshard inspect --help\n");
  EXPECT_EQ(run_tool({"convert", "in", "out", "--max_memory", "1GiB", "--mesh"}).status, 2);
}

TEST(MeshWords, AnAxisIsANameWithASize) {
  for (const char* axis : {"fsdp=8", "fsdp_transpose=16", "x=0"})
    EXPECT_TRUE(is_axis(axis)) << axis;
  for (const char* other : {"fsdp=", "=8", "=", "fsdp", "8", "", "FSDP=8", "fsdp=8x", "fsdp=-8"})
    EXPECT_FALSE(is_axis(other)) << other;
  EXPECT_TRUE(is_mesh("fsdp=8,tp=2"));
  for (const char* other : {"fsdp=8,tp=", "fsdp=8,", ",tp=2", "fsdp=8 tp=2"})
    EXPECT_FALSE(is_mesh(other)) << other;
}

TEST(MeshWords, AnAxisOfMaxTextHasBothEnds) {
  EXPECT_EQ(axis_of("ici-fsdp-parallelism"), "fsdp");
  EXPECT_EQ(axis_of("ici-fsdp-parallelisn"), "");
  EXPECT_EQ(axis_of("dcn-fsdp-parallelism"), "");
}

}  // namespace
}  // namespace hfshard
