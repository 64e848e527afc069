// The facts of a check's report: which model, names and layout it is about.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "service/check.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/mapping/tiny_family.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(CheckedMapping, TheReportHasTheNamesAndTheLayoutThatWereChecked) {
  const Catalog files = files_of("qwen3_moe");
  const auto checked = [&](const MappingOptions& options) {
    CheckReport report = check_mapping(files, StorePath("nowhere"), options);
    EXPECT_EQ(report.family, "qwen3_moe");
    EXPECT_EQ(report.tensors, files.tensors.size());
    EXPECT_EQ(report.config, "");
    EXPECT_TRUE(report.problems.empty());
    EXPECT_GT(report.leaves, 0U);
    EXPECT_FALSE(report.rules.empty());
    return report.scheme + "/" + report.dialect + "/" + report.layers;
  };
  MappingOptions options;
  EXPECT_EQ(checked(options), "maxtext//stacked");
  options.stacked = false;
  EXPECT_EQ(checked(options), "maxtext//separate");
  options.stacked = true;
  options.scheme = "torchtitan";
  EXPECT_EQ(checked(options), "torchtitan//separate");
  EXPECT_EQ(checked(in_modules()), "hf/modules/separate");
}

TEST(CheckedMapping, ADroppedTensorHasItsReasonAndRule) {
  MappingOptions options;
  options.exclude = {"model.norm.*"};
  const CheckReport left = check_mapping(files_of("qwen3"), StorePath("nowhere"), options);
  ASSERT_EQ(left.dropped.size(), 1U);
  EXPECT_EQ(left.dropped[0].tensor, "model.norm.weight");
  EXPECT_EQ(left.dropped[0].why, "--exclude \"model.norm.*\"");
  EXPECT_EQ(left.dropped[0].rule, "--exclude");
  Catalog more = files_of("qwen3");
  more.tensors.push_back(more.tensors.front());
  more.tensors.back().name = "model.layers.1.self_attn.rotary_emb.inv_freq";
  std::ranges::sort(more.tensors, {}, &TensorInfo::name);
  const CheckReport ruled = check_mapping(more, StorePath("nowhere"), {});
  ASSERT_EQ(ruled.dropped.size(), 1U);
  EXPECT_EQ(ruled.dropped[0].tensor, "model.layers.1.self_attn.rotary_emb.inv_freq");
  EXPECT_TRUE(ruled.dropped[0].rule.starts_with("mappings/")) << ruled.dropped[0].rule;
  EXPECT_FALSE(ruled.dropped[0].why.empty());
  NameList list{"names", more.config_text, {}};
  for (const TensorInfo& info : more.tensors) list.names.push_back(info.name);
  const CheckReport names = check_mapping(list, {});
  ASSERT_EQ(names.dropped.size(), 1U);
  EXPECT_EQ(names.dropped[0].tensor, ruled.dropped[0].tensor);
  EXPECT_EQ(names.dropped[0].rule, ruled.dropped[0].rule);
  EXPECT_EQ(names.dropped[0].why, ruled.dropped[0].why);
  EXPECT_EQ(names.leaves, ruled.leaves);
}

TEST(CheckedMapping, AnUnknownOptionOfAListIsAnErrorNotAProblem) {
  const Catalog files = files_of("qwen3");
  MappingOptions options;
  options.options["nobody"] = "1";
  const NameList list{"names", files.config_text, {files.tensors[0].name}};
  EXPECT_EQ(catch_error([&] { check_mapping(list, options); }).code(), ErrorCode::usage);
}

TEST(CheckedTree, NotesOnTheSourceAreReported) {
  const TempDir dir;
  Reporter quiet;
  convert(copy_fixture("qwen3", dir / "source"), {}, to_output(dir / "tree"), quiet);
  PlanOptions options;
  options.mapping.scheme = "hf";
  const auto notes = [&] { return check_tree(StorePath(dir / "tree"), options).source_notes; };
  EXPECT_EQ(notes(), std::vector<std::string>());
  write_text(dir / "tree/0/items/_sharding", "{");
  const std::vector<std::string> found = notes();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with(
      "_sharding is not understood, so that it says nothing of axes: malformed JSON: "))
      << found[0];
}

// An array of the tree is a leaf, and a tensor of the model too.
TEST(CheckedTree, TheReportIsAboutTheTreeAndTheNamesThatItBecomes) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions made;
  made.target = "dcp";
  made.mapping.stacked = false;
  convert(source, made, to_output(dir / "tree"), quiet);
  const std::size_t arrays = inspect(dir / "tree", {}, quiet).checkpoint.arrays.size();
  const std::size_t tensors = inspect(source, {}, quiet).checkpoint.arrays.size();
  const auto checked = [&](const std::string& scheme) {
    PlanOptions options;
    options.mapping.scheme = scheme;
    const CheckReport report = check_tree(StorePath(dir / "tree"), options);
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(report.tensors, arrays);
    EXPECT_EQ(report.scheme, scheme);
    EXPECT_EQ(report.family, "qwen3");
    EXPECT_TRUE(scheme != "hf" || report.leaves == tensors) << report.leaves;
    return report.layers;
  };
  EXPECT_EQ(checked("hf"), "separate");
  EXPECT_EQ(checked("torchtitan"), "separate");
  EXPECT_EQ(checked("maxtext"), "stacked");
}

TEST(CheckedFamily, AWeaknessOfTheTableIsAProblemOfTheFirstReport) {
  const std::string text = tiny_family_with("\"num_experts\": 4", "\"num_experts\": 7");
  const FamilyFile file{"tiny", "mappings/tiny.json", text};
  const FamilyInfo info = info_of_family(file, false);
  const std::vector<CheckReport> reports =
      check_family(file, info, {{"tiny", "tiny.json", text, true, "mappings/tiny.json"}});
  ASSERT_EQ(reports.size(), 2U) << "two layouts";
  ASSERT_EQ(reports[0].problems.size(), 1U);
  EXPECT_EQ(reports[0].problems[0].what, lint_table(load_table(file)).at(0));
  EXPECT_EQ(reports[0].problems[0].rule, "mappings/tiny.json");
  EXPECT_EQ(reports[0].problems[0].tensor, "");
  EXPECT_TRUE(reports[1].problems.empty());
  EXPECT_EQ(reports[0].layers, "stacked");
  EXPECT_EQ(reports[1].layers, "separate");
}

// The other loaders don't have biases either, and they don't need to.
TEST(CheckedFamily, OnlyTheMainSchemeMustHaveTheModel) {
  FamilyInfo info = family_info("qwen3");
  info.sizes.clear();
  info.example["attention_bias"] = true;
  std::vector<std::string> schemes;
  for (const CheckReport& report : check_family(family_by_name("qwen3"), info, {})) {
    if (!report.problems.empty()) schemes.push_back(report.scheme);
    EXPECT_EQ(report.config, "example");
  }
  EXPECT_EQ(schemes, std::vector<std::string>{"maxtext"});
}

TEST(CheckedFamily, ABrokenConfigIsReportedForEachSetOfNames) {
  FamilyInfo info = family_info("qwen3");
  info.sizes.clear();
  info.example.object().erase("hidden_size");
  std::vector<std::string> schemes;
  for (const CheckReport& report : check_family(family_by_name("qwen3"), info, {})) {
    EXPECT_EQ(report.family, "qwen3");
    EXPECT_EQ(report.config, "example");
    ASSERT_EQ(report.problems.size(), 1U);
    EXPECT_NE(report.problems[0].what.find("hidden_size"), std::string::npos)
        << report.problems[0].what;
    if (report.dialect.empty()) schemes.push_back(report.scheme);
  }
  EXPECT_EQ(schemes, info.schemes);
}

}  // namespace
}  // namespace hfshard
