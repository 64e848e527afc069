#include <filesystem>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

class Verify : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_tool({"mappings", "example", "qwen3", source_}).status, 0);
  }
  void convert(const std::string& step) const {
    const ToolRun run = run_tool(
        {"convert", source_, out_, "--output-step", step, "--checksum", "none", "--quiet"});
    ASSERT_EQ(run.status, 0) << run.err;
  }
  void damage(const std::string& step) const {
    const std::string file = out_ + "/" + step + "/items/d/00000";
    std::string bytes = read_text(file);
    bytes[2] = static_cast<char>(bytes[2] ^ 1);
    write_text(file, bytes);
  }

  TempDir dir_;
  std::string source_ = dir_ / "source";
  std::string out_ = dir_ / "out";
};

TEST_F(Verify, ADifferenceIsStatus5AndIsNamedInTextAndJson) {
  convert("0");
  EXPECT_EQ(run_tool({"verify", out_, "--quiet"}).status, 0);
  EXPECT_EQ(run_tool({"verify", out_, source_, "--quiet"}).status, 0);
  damage("0");
  for (const bool with_source : {false, true}) {
    const ToolRun text = with_source ? run_tool({"verify", out_, source_, "--quiet"})
                                     : run_tool({"verify", out_, "--quiet"});
    EXPECT_EQ(text.status, 5);
    EXPECT_NE(text.out.find("differs "), std::string::npos);
    EXPECT_NE(text.out.find(" 1 difference"), std::string::npos) << text.out;
    const ToolRun run = with_source ? run_tool({"verify", out_, source_, "--json", "--quiet"})
                                    : run_tool({"verify", out_, "--json", "--quiet"});
    EXPECT_EQ(run.status, 5);
    const Json json = run.json();
    ASSERT_EQ(json.at("differences").as_array().size(), 1U);
    const Json& difference = json.at("differences").as_array()[0];
    EXPECT_FALSE(difference.at("leaf").as_string().empty());
    EXPECT_EQ(difference.at("chunk").as_string().empty(), !with_source);
    EXPECT_FALSE(difference.at("tensor").as_string().empty());
    EXPECT_EQ(difference.find("source") != nullptr, with_source);
    EXPECT_GT(json.at("checked_bytes").as_uint(), 0U);
    EXPECT_EQ(json.at("unrecorded_bytes").as_uint(), 0U);
  }
}

// As text, 10 comes before 9.
TEST_F(Verify, OfARootTheHighestStepIsTaken) {
  convert("9");
  convert("10");
  damage("9");
  EXPECT_EQ(run_tool({"verify", out_, "--quiet"}).status, 0);
  EXPECT_EQ(run_tool({"verify", out_ + "/9", "--quiet"}).status, 5);
  EXPECT_EQ(run_tool({"verify", out_ + "/9/items/", "--quiet"}).status, 5);
  EXPECT_EQ(run_tool({"verify", out_, "--json", "--quiet"}).json().at("path").as_string(),
            out_ + "/10");
  damage("10");
  EXPECT_EQ(run_tool({"verify", out_, "--quiet"}).status, 5);
}

TEST_F(Verify, WhatWeDidNotWriteIsNotFound) {
  EXPECT_EQ(run_tool({"verify", source_}).status, 3);
  EXPECT_EQ(run_tool({"verify", dir_ / "nothing"}).status, 3);
}

// A linked file has no checksum and perhaps no digest. Size and time show that it changed.
TEST_F(Verify, ALinkedFileWithAnotherTimeIsADifferenceAndDamage) {
  const ToolRun run =
      run_tool({"link", source_, out_, "--scheme", "hf", "--shards", "hard", "--quiet"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run_tool({"verify", out_, "--quiet"}).status, 0);
  EXPECT_EQ(run_tool({"inspect", out_, "--data", "--quiet"}).status, 0);
  const std::string file = source_ + "/model.safetensors";
  set_later(file);
  const ToolRun verified = run_tool({"verify", out_, "--json", "--quiet"});
  EXPECT_EQ(verified.status, 5);
  EXPECT_EQ(verified.json().at("differences").as_array().size(), 1U);
  EXPECT_EQ(run_tool({"inspect", out_, "--data", "--quiet"}).status, 3);
}

}  // namespace
}  // namespace hfshard
