// Tests the notes and warnings about a model's files, which are copied with --scheme hf, and the
// config of an export.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

using CopyNotes = std::vector<std::string>;

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
  // Returns the notes for a config with other members.
  CopyNotes notes_with(const std::map<std::string, const char*>& members) {
    Json config = config_;
    for (const auto& [key, value] : members) config[key] = parse_json(value, key);
    write_config(config);
    return copied().notes;
  }

  TempDir dir_;
  Reporter quiet_;
  Json config_;
};

TEST_F(CopiedModel, FilesThatNoOtherSchemeHasNeedNoNote) {
  EXPECT_EQ(copied().notes, CopyNotes{});
  EXPECT_EQ(notes_with({{"partial_rotary_factor", "0.5"}}), CopyNotes{});
  EXPECT_EQ(copied().warnings, CopyNotes{});
}

// The class in `architectures` names a family too.
TEST_F(CopiedModel, FilesOfAnUnknownModelAreNotChecked) {
  const char* falcon = R"(["FalconForCausalLM"])";
  EXPECT_EQ(notes_with({{"model_type", "\"falcon\""}, {"architectures", falcon}}),
            CopyNotes{"nothing was checked: no family has model_type \"falcon\""});
  EXPECT_EQ(notes_with({{"model_type", "5"}, {"architectures", falcon}}),
            CopyNotes{"nothing was checked: config.json has no model_type"});
  EXPECT_EQ(notes_with({{"model_type", "\"falcon\""}}), CopyNotes{}) << "the class is phi3's";
}

TEST_F(CopiedModel, TensorsThatNoRuleHasAreNamed) {
  ASSERT_EQ(dump_json(config_.at("num_hidden_layers")), "5");
  const CopyNotes notes = notes_with({{"num_hidden_layers", "4"}});
  const std::string layer = "model.layers.4.";
  EXPECT_EQ(
      notes,
      CopyNotes{"converted without a check, since no rule of family \"phi3\" has them: \"" + layer +
                "input_layernorm.weight\", \"" + layer + "mlp.down_proj.weight\", \"" + layer +
                "mlp.gate_up_proj.weight\" and 3 more"});
}

// Its tables of tokens are integers, as some codes are.
TEST(ExportedModel, AConfigOfCodesIsWrittenWithoutThemIfTheTreeHasValues) {
  const TempDir dir;
  Reporter quiet;
  const std::string source = copy_fixture("deepseek4-f4", dir / "source");
  const Json config = parse_json(read_file(source + "/config.json"), "config.json");
  ASSERT_NE(config.find("quantization_config"), nullptr);
  convert(source, {}, to_output(dir / "tree"), quiet);
  std::filesystem::remove(dir / "tree/0/hfshard.json");
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  back.tree.config_name = source + "/config.json";
  back.tree.config_text = read_file(back.tree.config_name);
  convert(dir / "tree", back, to_output(dir / "back"), quiet);
  Json wanted = config;
  wanted.object().erase("quantization_config");
  wanted["num_nextn_predict_layers"] = std::int64_t{0};  // the tree has no such layers
  EXPECT_EQ(dump_json(parse_json(read_file(dir / "back/config.json"), "config.json")),
            dump_json(wanted));
}

}  // namespace
}  // namespace hfshard
