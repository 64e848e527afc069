// Tests the notes and warnings about a model's files, which are copied with --scheme hf.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

using Said = std::vector<std::string>;

class CopiedModel : public testing::Test {
 protected:
  void SetUp() override {
    ExampleOptions example;
    example.family = "phi3";
    example.out = dir_ / "in";
    write_example(example, quiet_);
    config_ = parse_json(read_file(dir_ / "in/config.json"), "config.json");
  }
  void write_config(const Json& config) const {
    write_text(dir_ / "in/config.json", dump_json(config));
  }
  PlanSummary copied(const std::string& from = "in") {
    PlanOptions options;
    options.target = "safetensors";
    options.mapping.scheme = "hf";
    return hfshard::plan(dir_ / from, options, to_output({})).summary;
  }
  // Returns the notes for a config with one other member.
  Said notes_with(const std::string& key, const std::string& value) {
    Json config = config_;
    config[key] = parse_json(value, "");
    write_config(config);
    return copied().notes;
  }

  TempDir dir_;
  Reporter quiet_;
  Json config_;
};

TEST_F(CopiedModel, FilesThatNoOtherSchemeHasNeedNoNote) {
  EXPECT_EQ(copied().notes, Said{});
  EXPECT_EQ(notes_with("partial_rotary_factor", "0.5"), Said{});
  EXPECT_EQ(copied().warnings, Said{});
}

TEST_F(CopiedModel, FilesOfAnUnknownModelAreNotChecked) {
  EXPECT_EQ(notes_with("model_type", R"("falcon")"),
            Said{"nothing was checked: no family has model_type \"falcon\""});
  Json config = config_;
  config.object().erase("model_type");
  write_config(config);
  EXPECT_EQ(copied().notes, Said{"nothing was checked: config.json has no model_type"});
}

TEST_F(CopiedModel, TensorsThatNoRuleHasAreNamed) {
  const Json fewer = parse_json("1", "");
  Json config = config_;
  ASSERT_NE(config.at("num_hidden_layers"), fewer);
  config["num_hidden_layers"] = fewer;
  write_config(config);
  const PlanSummary report = copied();
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0], "");
}

}  // namespace
}  // namespace hfshard
