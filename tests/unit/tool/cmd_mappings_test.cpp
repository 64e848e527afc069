#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "support/variables.h"
#include "tool/family_table.h"
#include "unit/mapping/tiny_family.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

TEST(MappingsList, HasEveryFamilyWithItsLayouts) {
  const Json object = run_tool({"mappings", "list", "--json"}).json();
  EXPECT_EQ(object.at("command").as_string(), "mappings list");
  const ToolRun text = run_tool({"mappings", "list"});
  for (const Json& family : object.at("families").as_array()) {
    EXPECT_NE(text.out.find(family.at("name").as_string()), std::string::npos);
    EXPECT_FALSE(family.at("model_types").as_array().empty());
    EXPECT_FALSE(family.at("layers").as_array().empty());
  }
}

TEST(MappingsShow, HasShapesForTheExampleAndForAConfig) {
  const TempDir dir;
  const Json example = run_tool({"mappings", "show", "qwen3", "--json"}).json();
  Json config = example.at("config");
  config["hidden_size"] = config.at("hidden_size").as_uint() * 2;
  write_text(dir / "config.json", dump_json(config));
  const Json given =
      run_tool({"mappings", "show", "qwen3", "--json", "--config", dir / "config.json"}).json();
  const auto norm_width = [](const Json& object) {
    for (const Json& rule : object.at("rules").as_array()) {
      if (rule.at("source").as_string() != "model.norm.weight") continue;
      return rule.at("source_shape").as_array().at(0).as_uint();
    }
    return std::uint64_t{0};
  };
  EXPECT_GT(norm_width(example), 0U);
  EXPECT_EQ(norm_width(given), 2 * norm_width(example));
}

TEST(MappingsShow, LayoutsHaveOtherTargets) {
  const ToolRun stacked = run_tool({"mappings", "show", "qwen3"});
  const ToolRun separate = run_tool({"mappings", "show", "qwen3", "--layers", "separate"});
  EXPECT_EQ(stacked.status, 0);
  EXPECT_NE(stacked.out.find("decoder.layers.mlp.wi_0.kernel"), std::string::npos);
  EXPECT_EQ(separate.out.find("decoder.layers.mlp.wi_0.kernel"), std::string::npos);
}

TEST(MappingsCheck, ASourceIsAccountedAndASpoiltOneIsNot) {
  const TempDir dir;
  ASSERT_EQ(run_tool({"mappings", "example", "mixtral", dir / "m"}).status, 0);
  const ToolRun good = run_tool({"mappings", "check", dir / "m", "--json"});
  EXPECT_EQ(good.status, 0);
  EXPECT_TRUE(good.json().at("problems").as_array().empty());
  EXPECT_EQ(good.json().at("layers").as_string(), "stacked");
  // One layer more than the tensors.
  Json config = parse_json(read_text(dir / "m/config.json"), "config.json");
  config["num_hidden_layers"] = config.at("num_hidden_layers").as_uint() + 1;
  write_text(dir / "m/config.json", dump_json(config));
  const ToolRun bad = run_tool({"mappings", "check", dir / "m", "--json"});
  EXPECT_EQ(bad.status, 3);
  const Json problems = bad.json().at("problems");
  // Every tensor of that layer: 2 norms, 4 projections, the gate, 3 for each of 9 experts.
  ASSERT_EQ(problems.as_array().size(), 34U);
  EXPECT_FALSE(problems.as_array()[0].at("tensor").as_string().empty());
  EXPECT_TRUE(problems.as_array()[0].at("rule").as_string().starts_with("mappings/mixtral.json#"));
  const ToolRun text = run_tool({"mappings", "check", dir / "m"});
  EXPECT_EQ(text.status, 3);
  EXPECT_NE(text.out.find("problem  "), std::string::npos);
}

TEST(MappingsCheck, SchemeHfNeedsNoFamily) {
  const TempDir dir;
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", dir / "q"}).status, 0);
  write_text(dir / "q/config.json", R"({"model_type": "nobody"})");
  EXPECT_EQ(run_tool({"mappings", "check", dir / "q"}).status, 3);
  EXPECT_EQ(run_tool({"mappings", "check", dir / "q", "--scheme", "hf"}).status, 0);
}

TEST(MappingsCheck, WantsASourceOrAllButNotBoth) {
  EXPECT_EQ(run_tool({"mappings", "check"}).status, 2);
  EXPECT_EQ(run_tool({"mappings", "check", "--all", "x"}).status, 2);
}

TEST(MappingsExample, SaysWhatItWrote) {
  const TempDir dir;
  const Json object = run_tool({"mappings", "example", "qwen3", dir / "q", "--json", "--dtype",
                                "f32", "--seed", "5", "--shard-bytes", "8KiB"})
                          .json();
  EXPECT_EQ(object.at("dtype").as_string(), "f32");
  EXPECT_EQ(object.at("seed").as_uint(), 5U);
  EXPECT_GT(object.at("files").as_uint(), 1U);
  EXPECT_GT(object.at("file_bytes").as_uint(), object.at("data_bytes").as_uint());
  EXPECT_EQ(run_tool({"mappings", "example", "qwen3", dir / "q"}).status, 3);
}

TEST(MappingsExample, AFamilyOfTheUserHasAnExample) {
  const TempDir dir;
  write_text(dir / "tiny.json", std::string(kTinyFamily));
  const ToolRun run = run_tool(
      {"mappings", "example", "tiny", dir / "model", "--mapping", dir / "tiny.json", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.json().at("family").as_string(), "tiny");
  EXPECT_EQ(run.json().at("tensors").as_uint(), 1U + 3 + 3 * 4);
  const ToolRun unknown = run_tool({"mappings", "example", "tiny", dir / "other"});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_FALSE(std::filesystem::exists(dir / "other"));
}

TEST(MappingsExample, WrongFlagsAreUsageErrors) {
  const TempDir dir;
  EXPECT_EQ(run_tool({"mappings", "example", "qwen3", dir / "q", "--dtype", "u8"}).status, 2);
  EXPECT_EQ(run_tool({"mappings", "example", "qwen3", dir / "q", "--shard-bytes", "0"}).status, 2);
  const ToolRun words =
      run_tool({"mappings", "example", "qwen3", dir / "q", "--shard-bytes", "many"});
  EXPECT_EQ(words.status, 2);
  EXPECT_NE(words.err.find("--shard-bytes needs a size such as 4GiB, not \"many\""),
            std::string::npos)
      << words.err;
  EXPECT_EQ(run_tool({"mappings", "example", "qwen3"}).status, 2);
  EXPECT_EQ(run_tool({"mappings"}).status, 2);
}

TEST(MappingsList, LayoutsAreShownUnlessAllFamiliesHaveBoth) {
  FamilySummary usual;
  usual.name = "usual";
  usual.schemes = {"maxtext"};
  usual.layers = {"stacked", "separate"};
  FamilySummary other = usual;
  other.name = "other";
  other.layers = {"separate"};
  const auto heading = [](const std::vector<FamilySummary>& families) {
    testing::internal::CaptureStdout();
    print_families(families);
    const std::string out = testing::internal::GetCapturedStdout();
    return out.substr(0, out.find('\n'));
  };
  EXPECT_EQ(heading({usual}).find("layers"), std::string::npos);
  EXPECT_NE(heading({usual, other}).find("layers"), std::string::npos);
  other.schemes = {"torchtitan"};
  EXPECT_EQ(heading({usual, other}).find("layers"), std::string::npos);
}

// Below 79 columns, a list of model types isn't wrapped in its column.
TEST(MappingsList, ANarrowTableHasTheModelTypesInOneLine) {
  FamilySummary family;
  family.name = "usual";
  family.schemes = {"maxtext"};
  family.layers = {"stacked", "separate"};
  family.model_types = {"first_type", "second_type", "third_type"};
  const auto shown = [&](const char* columns) {
    const Variables variables("COLUMNS", columns);
    testing::internal::CaptureStdout();
    print_families({family});
    return testing::internal::GetCapturedStdout();
  };
  const std::string types = "first_type, second_type, third_type";
  EXPECT_NE(shown("78").find(types), std::string::npos) << shown("78");
  EXPECT_EQ(shown("79").find(types), std::string::npos) << shown("79");
}

}  // namespace
}  // namespace hfshard
