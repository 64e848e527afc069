// The output of `mappings check` and `mappings list`, and flags of runs.

#include <initializer_list>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/variables.h"
#include "tool/family_table.h"
#include "tool/plan_flags.h"
#include "unit/mapping/tiny_family.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

// A model of the tiny family with one layer.
class CheckText : public testing::Test {
 protected:
  void SetUp() override {
    write_text(mapping_, std::string(kTinyFamily));
    write_text(
        model_ + "/config.json",
        R"({"model_type": "tiny", "hidden_size": 1, "num_hidden_layers": 1, "num_experts": 2})");
  }
  static SafetensorsBuilder tensors() {
    SafetensorsBuilder out;
    out.tensor("norm.weight", DType::u8, {1}, "a");
    out.tensor("layers.0.up.weight", DType::u8, {5, 1}, "abcde");
    out.tensor("layers.0.experts.0.weight", DType::u8, {5, 1}, "abcde");
    return out;
  }
  std::string text(const SafetensorsBuilder& tensors, int status) const {
    write_text(model_ + "/model.safetensors", tensors.build());
    const ToolRun run = run_tool({"mappings", "check", model_, "--mapping", mapping_});
    EXPECT_EQ(run.status, status);
    return std::regex_replace(run.out + run.err, std::regex(dir_.path()), "DIR");
  }

  TempDir dir_;
  std::string mapping_ = dir_ / "tiny.json";
  std::string model_ = dir_ / "model";
};

TEST_F(CheckText, DroppedTensorsAreGroupedByReason) {
  SafetensorsBuilder model = tensors();
  model.tensor("layers.0.experts.1.weight", DType::u8, {5, 1}, "abcde");
  model.tensor("old.a", DType::u8, {1}, "a");
  EXPECT_EQ(text(model, 0),
            "family tiny, scheme maxtext, layers stacked\n"
            "rules    4\n"
            "tensors  5\n"
            "leaves   3\n"
            "dropped  \"old.a\": unused\n"
            "complete: every element of the leaves has one origin, and every element of the "
            "tensors is used once\n");
  model.tensor("old.b", DType::u8, {1}, "a");
  EXPECT_EQ(text(model, 0),
            "family tiny, scheme maxtext, layers stacked\n"
            "rules    4\n"
            "tensors  6\n"
            "leaves   3\n"
            "dropped  2 regions, first \"old.a\": unused\n"
            "complete: every element of the leaves has one origin, and every element of the "
            "tensors is used once\n");
}

TEST_F(CheckText, ProblemsNameTheTensorAndTheRule) {
  SafetensorsBuilder model = tensors();
  model.tensor("unknown.0.x", DType::u8, {1}, "a");
  model.tensor("unknown.1.x", DType::u8, {1}, "a");
  EXPECT_EQ(text(model, 3),
            "family tiny, scheme maxtext, layers stacked\n"
            "problem  neither a rule nor a drop matches the name\n"
            "  2 times  \"unknown.{0-1}.x\"\n"
            "  first   \"unknown.0.x\"\n"
            "  hint    a tensor that a rule needs is missing: \"layers.0.experts.1.weight\"; pass "
            "--exclude to leave tensors out, or --scheme hf to keep names and shapes\n"
            "problem  the index lacks a tensor that the rule needs\n"
            "  tensor  \"layers.0.experts.1.weight\"\n"
            "  rule    DIR/tiny.json#/schemes/maxtext/layer/rules/0\n");
}

TEST(FamilyTable, EveryProofHasItsCount) {
  FamilySummary family;
  family.name = "usual";
  family.schemes = {"maxtext"};
  family.layers = {"stacked", "separate"};
  family.model_types = {"a_type"};
  family.proof.accounted = 1;
  family.proof.executed = 2;
  const auto row = [&] {
    const Variables variables("COLUMNS", "200");
    testing::internal::CaptureStdout();
    print_families({family});
    const std::string out = testing::internal::GetCapturedStdout();
    const std::size_t begin = out.find('\n') + 1;
    return out.substr(begin, out.find("MaxText families") - begin);
  };
  EXPECT_EQ(row(), "usual   1       2    -                 a_type\n");
  family.proof.by_maxtext = 3;
  EXPECT_EQ(row(), "usual   1       2    MaxText 3         a_type\n");
  family.proof.by_own_oracle = 4;
  family.proof.by_torchtitan = 5;
  EXPECT_EQ(row(),
            "usual   1       2    MaxText 3, numpy 4  a_type\n"
            "                     torchtitan 5\n");
  family.proof.by_maxtext = 0;
  family.proof.by_own_oracle = 0;
  EXPECT_EQ(row(), "usual   1       2    torchtitan 5      a_type\n");
}

TEST(RunFlags, FilesAreReadInTheModeThatIsNamed) {
  RunFlags flags;
  EXPECT_EQ(run_options(Session{}, flags).io, IoMode::automatic);
  flags.io = "direct";
  EXPECT_EQ(run_options(Session{}, flags).io, IoMode::direct);
  flags.io = "buffered";
  EXPECT_EQ(run_options(Session{}, flags).io, IoMode::buffered);
  flags.io = "mmap";
  EXPECT_EQ(run_options(Session{}, flags).io, IoMode::mmap);
}

TEST(PlanFlags, RulesAndTargetsDecideWhetherAMeshIsTaken) {
  const TempDir dir;
  const std::string rules = dir / "rules.json";
  write_text(rules, "[]");
  PlanFlags flags;
  EXPECT_EQ(plan_options(flags).target, "orbax");
  EXPECT_EQ(plan_options(flags).mapping.scheme, "maxtext");
  EXPECT_FALSE(plan_options(flags).rules_text);
  EXPECT_TRUE(plan_options(flags).encoding.checksum);
  flags.mapping.scheme = "hf";
  flags.rules_file = rules;
  flags.meshes = {"fsdp=2"};
  EXPECT_EQ(plan_options(flags).rules_text, "[]");
  EXPECT_EQ(plan_options(flags).rules_name, rules);
  flags.rules_file.clear();
  flags.to = "dcp";
  EXPECT_EQ(plan_options(flags).meshes, flags.meshes);
  flags.mapping.scheme.reset();
  EXPECT_EQ(plan_options(flags).mapping.scheme, "hf");
  flags.to = "safetensors";
  EXPECT_EQ(catch_error([&] { plan_options(flags); }).code(), ErrorCode::usage);
  flags.meshes.clear();
  EXPECT_EQ(plan_options(flags).target, "safetensors");
}

TEST_F(CheckText, JsonHasTheRulesDropsAndProblems) {
  const auto json = [&](const SafetensorsBuilder& tensors) {
    write_text(model_ + "/model.safetensors", tensors.build());
    const ToolRun run = run_tool({"mappings", "check", model_, "--mapping", mapping_, "--json"});
    return std::regex_replace(run.out, std::regex(dir_.path()), "DIR");
  };
  SafetensorsBuilder good = tensors();
  good.tensor("layers.0.experts.1.weight", DType::u8, {5, 1}, "abcde");
  good.tensor("old.a", DType::u8, {1}, "a");
  EXPECT_EQ(json(good), sorted(R"({"command": "mappings check", "dropped": [{"rule":
      "DIR/tiny.json#/drop/0", "tensor": "old.a", "why": "unused"}], "family": "tiny", "layers":
      "stacked", "leaves": 3, "notes": [], "problems": [], "rules":
      ["DIR/tiny.json#/schemes/maxtext/global/0", "DIR/tiny.json#/schemes/maxtext/parts/mlp/0",
      "DIR/tiny.json#/schemes/maxtext/layer/rules/0", "DIR/tiny.json#/drop/0"], "schema": 1,
      "scheme": "maxtext", "shapes_seen": true, "tensors": 5})") +
                            "\n");
  SafetensorsBuilder bad = tensors();
  bad.tensor("unknown.0.x", DType::u8, {1}, "a");
  const Json::Array problems = parse_json(json(bad), "").at("problems").as_array();
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].at("tensor").as_string(), "unknown.0.x");
  EXPECT_EQ(problems[0].at("region").as_string(), "neither a rule nor a drop matches the name");
  EXPECT_EQ(problems[0].at("rule").as_string(), "");
  EXPECT_TRUE(problems[0].at("hint").as_string().starts_with("a tensor that a rule needs is "));
  EXPECT_EQ(dump_json(problems[1]),
            sorted(R"({"region": "the index lacks a tensor that the rule needs", "rule":
      "DIR/tiny.json#/schemes/maxtext/layer/rules/0", "tensor": "layers.0.experts.1.weight"})"));
}

TEST_F(CheckText, TheJsonOfFamiliesHasTheirConfigsAndTotals) {
  const auto json = [&] {
    const ToolRun run = run_tool({"mappings", "check", "--mapping", mapping_, "--json"});
    EXPECT_EQ(run.status == 0, run.json().at("problem_count").as_uint() == 0);
    return run.json();
  };
  const Json good = json();
  ASSERT_EQ(good.at("checks").as_array().size(), 2U);
  EXPECT_EQ(good.at("size_count").as_uint(), 0U);
  const Json& stacked = good.at("checks").as_array()[0];
  EXPECT_EQ(stacked.at("config").as_string(), "example");
  EXPECT_EQ(stacked.at("layers").as_string(), "stacked");
  EXPECT_EQ(dump_json(stacked.at("with")), "[]");
  EXPECT_EQ(stacked.at("tensors").as_uint(), 16U);
  EXPECT_EQ(good.at("checks").as_array()[1].at("layers").as_string(), "separate");
  write_text(mapping_, tiny_family_with("hidden_size\"", "no_such_key\""));
  const Json bad = json();
  EXPECT_EQ(bad.at("problem_count").as_uint(), 1U);
  ASSERT_EQ(bad.at("checks").as_array().size(), 1U);
  EXPECT_EQ(bad.at("checks").as_array()[0].at("layers").as_string(), "");
  const std::string text = run_tool({"mappings", "check", "--mapping", mapping_}).out;
  EXPECT_TRUE(
      text.starts_with("WRONG tiny example maxtext: 0 rules, 0 tensors, 0 leaves, 0 dropped\n"
                       "problem  config.json lacks \"no_such_key\", which family \"tiny\" needs\n"))
      << text;
  EXPECT_TRUE(text.ends_with("\n1 check, 0 model sizes, 1 problem\n")) << text;
}

TEST_F(CheckText, WithoutASourceOrWithTwoAnswersIsAUsageError) {
  const auto error = [](std::initializer_list<std::string> words) {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  EXPECT_EQ(error({"mappings", "check"}),
            "hfshard: error [usage]: mappings check needs a SOURCE, --all, or --mapping FILE\n");
  EXPECT_EQ(error({"mappings", "check", "--all", model_}),
            "hfshard: error [usage]: mappings check takes a SOURCE or --all, not both\n");
}

TEST(CheckStep, TheStepThatIsCheckedIsNotedUnlessTheSessionIsQuiet) {
  const TempDir dir;
  const std::string model = dir / "model";
  const std::string out = dir / "out";
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", model, "--quiet"}).status, 0);
  for (const char* step : {"0", "7"})
    ASSERT_EQ(run_tool({"convert", model, out, "--output-step", step, "--quiet"}).status, 0);
  const ToolRun highest = run_tool({"mappings", "check", out});
  EXPECT_EQ(highest.status, 0);
  EXPECT_EQ(highest.err, "note: reading step 7; other steps: 0\n");
  EXPECT_TRUE(highest.out.starts_with("family qwen3, scheme hf\nrules ")) << highest.out;
  const ToolRun lower = run_tool({"mappings", "check", out, "--step", "0", "--quiet"});
  EXPECT_EQ(lower.err, "");
  EXPECT_EQ(lower.out, highest.out);
  const Json json = run_tool({"mappings", "check", out, "--step", "0", "--json"}).json();
  EXPECT_EQ(json.at("step").as_uint(), 0U);
  EXPECT_EQ(dump_json(json.at("other_steps")), "[7]");
  const ToolRun titan = run_tool({"mappings", "check", model, "--scheme", "torchtitan"});
  EXPECT_EQ(titan.err, "");
  EXPECT_TRUE(titan.out.starts_with("family qwen3, scheme torchtitan, layers separate\n"))
      << titan.out;
}

}  // namespace
}  // namespace hfshard
