#include "service/check.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "service/example.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/mapping/families.h"
#include "unit/mapping/tiny_family.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

const StorePath kNowhere("nowhere");

Catalog qwen3() {
  return example_catalog(family_by_name("qwen3"), family_info("qwen3").example, DType::bf16);
}

std::vector<CheckReport> check_built_in(const FamilyInfo& info) {
  return check_family(family_by_name(info.name), info, {});
}

// Real model sizes take seconds: tests/interop/check_all.py.
TEST(CheckFamily, EveryExampleIsAccounted) {
  for (FamilyInfo& info : families_to_walk()) {
    info.sizes.clear();
    std::set<std::string> checked;
    std::set<std::string> layers;
    for (const CheckReport& report : check_built_in(info)) {
      layers.insert(report.layers);
      EXPECT_EQ(report.family, info.name);
      EXPECT_GT(report.leaves, 0U);
      checked.insert(report.config);
      for (const CheckReport::Problem& problem : report.problems) {
        ADD_FAILURE() << info.name << ": " << problem.what << " " << problem.tensor << " "
                      << problem.rule;
      }
    }
    EXPECT_EQ(checked, (std::set<std::string>{"example"}));
    EXPECT_EQ(layers.contains("stacked"), info.stacked);
    EXPECT_TRUE(layers.contains("separate"));
  }
}

TEST(CheckFamily, PartsAreCheckedWithAndWithoutThem) {
  FamilyInfo info = family_info("gemma3");
  info.sizes.clear();
  std::set<std::vector<std::string>> with;
  for (const CheckReport& report : check_built_in(info)) with.insert(report.with);
  EXPECT_EQ(with, (std::set<std::vector<std::string>>{{}, {"vision"}}));
}

TEST(CheckFamily, ABrokenExampleIsAProblemNotAnError) {
  FamilyInfo info = family_info("qwen3");
  const Json good = info.example;
  info.example.object().erase("hidden_size");
  info.sizes = {{"good", good}};
  const std::vector<CheckReport> reports = check_built_in(info);
  EXPECT_FALSE(reports.front().problems.empty());
  EXPECT_EQ(reports.back().config, "good");
  EXPECT_TRUE(reports.back().problems.empty());
}

TEST(CheckFamily, OnlyTheFamiliesThatTheUserNamesAreChecked) {
  const auto own = [](const std::string& name, bool asked) {
    return MappingFile{name, name + ".json", std::string(family_by_name(name).text), asked};
  };
  std::set<std::string> checked;
  for (const CheckReport& report : check_mappings({own("llama", false), own("qwen3", true)}, false))
    checked.insert(report.family);
  EXPECT_EQ(checked, (std::set<std::string>{"qwen3"}));
}

// A dialect has no layouts and no parts to choose.
TEST(CheckFamily, ADialectIsCheckedOnce) {
  for (const char* family : {"qwen3_moe", "gemma3"}) {
    FamilyInfo info = family_info(family);
    info.sizes = {{"good", info.example}};
    std::multiset<std::string> dialects;
    for (const CheckReport& report : check_built_in(info)) {
      if (report.dialect.empty()) continue;
      dialects.insert(report.dialect);
      EXPECT_EQ(report.config, "example");
      EXPECT_TRUE(report.with.empty());
    }
    EXPECT_TRUE(dialects.contains("modules")) << family;
    for (const std::string& dialect : dialects) EXPECT_EQ(dialects.count(dialect), 1U) << dialect;
  }
}

NameList names_of(const Catalog& catalog) {
  NameList out{"somewhere", catalog.config_text, {}};
  for (const TensorInfo& tensor : catalog.tensors) out.names.push_back(tensor.name);
  return out;
}

TEST(CheckNames, AreAllMatchedForEveryFamily) {
  for (const FamilyInfo& info : families_to_walk()) {
    const NameList names =
        names_of(example_catalog(family_by_name(info.name), info.example, DType::bf16));
    MappingOptions options;
    if (std::ranges::find(info.schemes, options.scheme) == info.schemes.end())
      options.scheme = info.schemes.front();
    options.stacked = info.stacked;
    const CheckReport report = check_mapping(names, options);
    EXPECT_FALSE(report.shapes_seen);
    EXPECT_EQ(report.family, info.name);
    for (const CheckReport::Problem& problem : report.problems)
      ADD_FAILURE() << info.name << ": " << problem.what << " " << problem.tensor;
  }
}

TEST(CheckNames, EveryStrangeAndEveryMissingNameIsListed) {
  NameList names = names_of(qwen3());
  names.names.erase(names.names.begin());
  names.names.emplace_back("zebra.bias");
  names.names.emplace_back("zebra.weight");
  const CheckReport report = check_mapping(names, {});
  ASSERT_EQ(report.problems.size(), 3U);
  EXPECT_EQ(report.problems[0].tensor, "lm_head.weight");
  EXPECT_TRUE(report.problems[0].rule.starts_with("mappings/qwen3.json#/"));
  EXPECT_EQ(report.problems[2].tensor, "zebra.weight");
}

TEST(CheckNames, NotesOfTheSchemeAreKept) {
  const auto notes_for = [](int rows) {
    const Catalog files = files_of("gemma", {{"vocab_size", Json(rows)}});
    const CheckReport report = check_mapping(names_of(files), {});
    EXPECT_TRUE(report.problems.empty());
    return report.notes;
  };
  EXPECT_TRUE(notes_for(100).empty());
  ASSERT_EQ(notes_for(256000).size(), 1U);
  EXPECT_NE(notes_for(256000)[0].find("256128"), std::string::npos);
}

// A drop rule also matches the tensor, which --num-layers leaves out.
TEST(CheckNames, ATensorOfALeftOutLayerHasOneReason) {
  const std::string name = "model.layers.4.self_attn.rotary_emb.inv_freq";
  NameList names = names_of(files_of("deepseek"));
  names.names.push_back(name);
  std::ranges::sort(names.names);
  MappingOptions options;
  options.num_layers = 4;
  std::vector<std::string> rules;
  for (const CheckReport::Dropped& drop : check_mapping(names, options).dropped) {
    if (drop.tensor == name) rules.push_back(drop.rule);
  }
  EXPECT_EQ(rules, std::vector<std::string>{"--num-layers"});
}

TEST(CheckNames, ScalesBelongToTheirCodes) {
  const std::string gate = "model.layers.1.mlp.gate_proj.weight";
  const auto problems_with = [&](const std::vector<std::string>& stored) {
    NameList names = names_of(qwen3());
    std::erase(names.names, gate);
    names.names.insert(names.names.end(), stored.begin(), stored.end());
    std::ranges::sort(names.names);
    std::vector<std::string> out;
    for (const CheckReport::Problem& problem : check_mapping(names, {}).problems)
      out.push_back(problem.tensor);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(problems_with({gate, gate + "_scale_inv"}), Names());
  EXPECT_EQ(problems_with({gate + "_packed", gate + "_scale", gate + "_shape"}), Names());
  EXPECT_EQ(problems_with({gate + "_packed"}), Names{gate + "_scale"});
  EXPECT_EQ(problems_with({gate + "_scale_inv"}), (Names{gate, gate + "_scale_inv"}));
}

TEST(CheckFamily, AModelThatTheMainSchemeDoesNotHaveIsAProblem) {
  FamilyInfo info = family_info("qwen3");
  info.sizes.clear();
  info.example["attention_bias"] = true;
  const std::vector<CheckReport> reports = check_built_in(info);
  ASSERT_FALSE(reports.empty());
  ASSERT_FALSE(reports.front().problems.empty());
  EXPECT_EQ(reports.front().family, "qwen3");
}

TEST(CheckMapping, AnUnmatchedTensorIsAProblemThatNamesIt) {
  Catalog catalog = qwen3();
  catalog.tensors.push_back(catalog.tensors.back());
  catalog.tensors.back().name = "zebra.weight";
  const CheckReport report = check_mapping(catalog, kNowhere, {});
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].tensor, "zebra.weight");
  EXPECT_EQ(report.family, "qwen3");
  MappingOptions names;
  names.scheme = "hf";
  const CheckReport kept = check_mapping(catalog, kNowhere, names);
  EXPECT_TRUE(kept.problems.empty());
  EXPECT_EQ(kept.family, "hf") << "the names are the files' own";
}

TEST(CheckMapping, EveryStrangeAndEveryMissingTensorIsAProblem) {
  Catalog catalog = qwen3();
  catalog.tensors.push_back(catalog.tensors.back());
  catalog.tensors.back().name = "zebra.bias";
  catalog.tensors.push_back(catalog.tensors.back());
  catalog.tensors.back().name = "zebra.weight";
  catalog.tensors.erase(catalog.tensors.begin());
  const auto problems_of = [](const CheckReport& report) {
    std::multimap<std::string, std::string> out;
    for (const CheckReport::Problem& problem : report.problems)
      out.emplace(problem.tensor, problem.what);
    return out;
  };
  const auto found = problems_of(check_mapping(catalog, kNowhere, {}));
  EXPECT_EQ(found.size(), 3U);
  for (const char* name : {"lm_head.weight", "zebra.bias", "zebra.weight"})
    EXPECT_EQ(found.count(name), 1U) << name;
  EXPECT_EQ(found, problems_of(check_mapping(names_of(catalog), {})));
}

TEST(CheckMapping, AWrongShapeIsAProblemWithItsRule) {
  Catalog catalog = qwen3();
  catalog.tensors[*catalog.find("model.norm.weight")].shape = {3};
  const CheckReport report = check_mapping(catalog, kNowhere, {});
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].tensor, "model.norm.weight");
  EXPECT_TRUE(report.problems[0].rule.starts_with("mappings/qwen3.json#/"));
}

TEST(CheckMapping, CodesWithoutScalesAreAProblemWithTheirRule) {
  Catalog catalog = qwen3();
  catalog.tensors[*catalog.find("model.norm.weight")].dtype = DType::f8_e4m3;
  MappingOptions options;
  options.dtype = DType::f32;
  const CheckReport report = check_mapping(catalog, kNowhere, options);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].tensor, "model.norm.weight");
  EXPECT_TRUE(report.problems[0].rule.starts_with("mappings/qwen3.json#/"));
}

TEST(CheckMapping, WhatIsExcludedIsDroppedByName) {
  MappingOptions options;
  options.exclude = {"model.norm.weight"};
  const CheckReport report = check_mapping(qwen3(), kNowhere, options);
  EXPECT_TRUE(report.problems.empty());
  ASSERT_EQ(report.dropped.size(), 1U);
  EXPECT_EQ(report.dropped[0].tensor, "model.norm.weight");
  EXPECT_FALSE(report.dropped[0].why.empty());
}

// Then names aren't checked one by one, since excluded ones would be unmatched or missing.
TEST(CheckMapping, WithIncludeOrExcludeTheFirstProblemIsTheOnlyOne) {
  Catalog catalog = qwen3();
  catalog.tensors[*catalog.find("model.norm.weight")].shape = {3};
  MappingOptions options;
  options.exclude = {"lm_head.weight"};
  EXPECT_EQ(check_mapping(catalog, kNowhere, options).problems.size(), 1U);
  options.exclude.clear();
  options.include = {"model.*"};
  EXPECT_EQ(check_mapping(catalog, kNowhere, options).problems.size(), 1U);
  const std::string norm = "model.layers.1.input_layernorm.weight";
  std::erase_if(catalog.tensors, [&](const TensorInfo& info) { return info.name == norm; });
  for (const char* name : {"zebra.a", "zebra.b"}) {
    catalog.tensors.push_back(catalog.tensors.back());
    catalog.tensors.back().name = name;
  }
  const auto problems_with = [&](const MappingOptions& choice) {
    std::vector<std::string> out;
    for (const CheckReport::Problem& problem : check_mapping(catalog, kNowhere, choice).problems)
      out.push_back(problem.tensor);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(problems_with({}), (Names{"zebra.a", norm, "zebra.b"}));
  EXPECT_EQ(problems_with(options), Names{norm});
  options.include = {"zebra.*"};
  EXPECT_EQ(problems_with(options), Names{"zebra.a"});
  options.include.clear();
  options.exclude = {"zebra.b"};
  EXPECT_EQ(problems_with(options), Names{"zebra.a"});
}

// Like convert, it goes through the names of the files.
TEST(CheckMapping, NamesOfModulesAreAccounted) {
  const Catalog files = files_of("qwen3_moe");
  Catalog modules = modules_of(files);
  const CheckReport report = check_mapping(modules, kNowhere, {});
  for (const CheckReport::Problem& problem : report.problems)
    ADD_FAILURE() << problem.what << " " << problem.tensor;
  const CheckReport direct = check_mapping(files, kNowhere, {});
  EXPECT_EQ(report.leaves, direct.leaves);
  EXPECT_EQ(report.family, direct.family);
  EXPECT_EQ(report.tensors, modules.tensors.size());
  ASSERT_FALSE(report.notes.empty());
  EXPECT_NE(report.notes.front().find("--dialect modules"), std::string::npos);

  // One problem, not one for each name that files lack.
  erase_below(modules, "model.layers.1.mlp.experts.down_proj");
  const CheckReport lacking = check_mapping(modules, kNowhere, {});
  ASSERT_EQ(lacking.problems.size(), 1U);
  EXPECT_EQ(lacking.problems[0].tensor, "model.layers.1.mlp.experts.0.down_proj.weight");
  const CheckReport mixed = check_mapping(mixed_of(files), kNowhere, {});
  ASSERT_EQ(mixed.problems.size(), 1U);
  EXPECT_EQ(mixed.problems[0].tensor, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_NE(mixed.problems[0].hint.find("--dialect modules"), std::string::npos);
}

TEST(CheckMapping, AnUnknownFamilyAndAnUnknownOptionAreErrors) {
  Catalog catalog = qwen3();
  MappingOptions options;
  options.options["nobody"] = "1";
  EXPECT_EQ(catch_error([&] { check_mapping(catalog, kNowhere, options); }).code(),
            ErrorCode::usage);
  catalog.config_text = R"({"model_type": "nobody"})";
  EXPECT_EQ(catch_error([&] { check_mapping(catalog, kNowhere, {}); }).code(),
            ErrorCode::unsupported);
}

TEST(CheckMapping, WithoutAConfigNoFamilyIsKnown) {
  Catalog catalog = qwen3();
  catalog.config_text.clear();
  const Error error = catch_error([&] { check_mapping(catalog, kNowhere, {}); });
  EXPECT_EQ(error.sentence(), "the source lacks config.json, which names the family");
}

// Writes an example, and returns its directory.
std::string write_qwen3(const std::string& out) {
  ExampleOptions example;
  example.family = "qwen3";
  example.out = out;
  Reporter quiet;
  write_example(example, quiet);
  return out;
}

// The record names the dialect, even if the names are also those of files.
TEST(CheckMapping, ForARecordedDialectTheFirstProblemIsTheOnlyOne) {
  const TempDir dir;
  const std::string source = write_qwen3(dir / "in");
  Reporter quiet;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  options.mapping.dialect = "modules";
  RunOptions run;
  run.out = dir / "out";
  convert(source, options, run, quiet);
  Catalog catalog = qwen3();
  for (const char* name : {"zebra.a", "zebra.b"}) {
    catalog.tensors.push_back(catalog.tensors.back());
    catalog.tensors.back().name = name;
  }
  EXPECT_EQ(check_mapping(catalog, StorePath(source), {}).problems.size(), 2U);
  EXPECT_EQ(check_mapping(catalog, StorePath(run.out), {}).problems.size(), 1U);
}

TEST(CheckMapping, AnIndexAloneNamesTheTensorsUnlessItIsIgnored) {
  const TempDir dir;
  const Catalog files = files_of("qwen3");
  std::vector<std::pair<std::string, std::string>> listed;
  for (const TensorInfo& info : files.tensors)
    listed.emplace_back(info.name, "model-1.safetensors");
  write_text(dir / "model.safetensors.index.json", index_json(listed));
  write_text(dir / "config.json", files.config_text);
  SourceName source(dir.path());
  const CheckReport report = check_mapping(source, {}, {});
  EXPECT_EQ(report.tensors, files.tensors.size());
  EXPECT_FALSE(report.shapes_seen);
  source.ignore_index = true;
  const Error error = catch_error([&] { check_mapping(source, {}, {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "no safetensors file in the directory");
}

TEST(CheckTree, AMissingArrayIsAProblem) {
  const TempDir dir;
  const std::string source = write_qwen3(dir / "in");
  Reporter quiet;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.exclude = {"model.norm.weight"};
  RunOptions run;
  run.out = dir / "tree";
  convert(source, options, run, quiet);
  std::filesystem::remove(dir / "tree/hfshard.json");
  PlanOptions checked;
  checked.mapping.scheme = "hf";
  checked.tree.config_text = read_file(dir / "in/config.json");
  checked.tree.config_name = "config.json";
  const CheckReport report = check_tree(StorePath(run.out), checked);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].tensor, "params.params.decoder.decoder_norm.scale");
}

TEST(CheckTree, TheStepThatIsReadIsReportedWithTheOthers) {
  const TempDir dir;
  const std::string model = write_qwen3(dir / "in");
  Reporter quiet;
  RunOptions run;
  run.out = dir / "tree";
  PlanOptions options;
  for (const std::uint64_t step : {0U, 5U}) {
    options.step = step;
    convert(model, options, run, quiet);
  }
  SourceName source(run.out);
  MappingOptions names;
  names.scheme = "hf";
  CheckReport report = check_mapping(source, names, {});
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.step, 5U);
  EXPECT_EQ(report.other_steps, std::vector<std::uint64_t>{0});
  source.step = 0;
  report = check_mapping(source, names, {});
  EXPECT_EQ(report.step, 0U);
  EXPECT_EQ(report.other_steps, std::vector<std::uint64_t>{5});
}

TEST(CheckTree, AnUnknownOptionIsAnErrorNotAProblem) {
  const TempDir dir;
  const std::string source = write_qwen3(dir / "in");
  PlanOptions options;
  options.mapping.options["nobody"] = "1";
  EXPECT_EQ(catch_error([&] { check_tree(StorePath(source), options); }).code(), ErrorCode::usage);
}

TEST(CheckFamily, AConfigOfAnotherFamilyIsAProblem) {
  FamilyInfo info = family_info("qwen3");
  info.sizes.clear();
  info.name = "another";
  const auto reports = check_family(family_by_name("qwen3"), info, {});
  ASSERT_FALSE(reports.empty());
  ASSERT_EQ(reports.front().problems.size(), 1U);
  EXPECT_EQ(reports.front().problems[0].what,
            "the config's model_type doesn't belong to the family");
}

TEST(ListMappings, AFamilyHasTheLayoutsThatItsRulesHave) {
  using Layouts = std::vector<std::string>;
  const auto layouts = [](const std::string& text) {
    const std::vector<FamilySummary> all = list_mappings({{"tiny", "tiny.json", text}});
    const auto tiny = std::ranges::find(all, "tiny", &FamilySummary::name);
    return tiny == all.end() ? Layouts() : tiny->layers;
  };
  EXPECT_EQ(layouts(std::string(kTinyFamily)), (Layouts{"stacked", "separate"}));
  EXPECT_EQ(layouts(tiny_family_with(R"("separate": "decoder.layers_{l}.",)", "")),
            Layouts{"stacked"});
  EXPECT_EQ(layouts(tiny_family_with(R"("stacked": ["decoder.layers.", "l"],)", "")),
            Layouts{"separate"});
}

TEST(CheckNames, AListHasNoShapesAndTheLayoutThatItsSchemeHas) {
  const Catalog files = files_of("qwen3_moe");
  NameList list{"names.txt", files.config_text, {}};
  for (const TensorInfo& info : files.tensors) list.names.push_back(info.name);
  MappingOptions options;
  const CheckReport stacked = check_mapping(list, options);
  EXPECT_FALSE(stacked.shapes_seen);
  EXPECT_EQ(stacked.tensors, list.names.size());
  EXPECT_EQ(stacked.family, "qwen3_moe");
  EXPECT_EQ(stacked.layers, "stacked");
  EXPECT_GT(stacked.leaves, 0U);
  EXPECT_LT(stacked.leaves, stacked.tensors);
  options.stacked = false;
  EXPECT_EQ(check_mapping(list, options).layers, "separate");
  const CheckReport modules = check_mapping(list, in_modules());
  EXPECT_EQ(modules.layers, "separate");
  EXPECT_EQ(modules.dialect, "modules");
  EXPECT_EQ(check_mapping(files, kNowhere, {}).shapes_seen, true);
}

}  // namespace
}  // namespace hfshard
