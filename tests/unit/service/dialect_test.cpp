#include "service/dialect.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "service/source.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

bool is_silent(const NamedOtherwise& names) {
  return names.dialect.empty() && !names.back && !names.half;
}

TEST(NamesOf, ModulesLeadBackToTheTensorsOfTheFiles) {
  const Catalog files = files_of("qwen3_moe");
  const Catalog modules = modules_of(files);
  EXPECT_TRUE(is_silent(names_of(files, {})));
  const NamedOtherwise names = names_of(modules, {});
  EXPECT_EQ(names.dialect, "modules");
  EXPECT_FALSE(names.half);
  ASSERT_TRUE(names.back);
  ASSERT_EQ(names.back->leaves.size(), files.tensors.size());
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    EXPECT_EQ(names.back->leaves[i].name, files.tensors[i].name);
    EXPECT_EQ(names.back->leaves[i].shape, files.tensors[i].shape);
  }
}

// Many files have a head in addition to a tied embedding.
TEST(NamesOf, WhatFilesHaveTooIsNoSign) {
  const Catalog tied = files_of("qwen3", {{"tie_word_embeddings", true}});
  const Catalog modules = modules_of(tied);
  ASSERT_GT(modules.tensors.size(), tied.tensors.size());
  EXPECT_TRUE(is_silent(names_of(modules, {})));
  // A name that is equal in both isn't a sign either, even if no scheme takes the rest.
  for (const char* family : {"qwen3", "qwen3_vl"}) {
    Catalog files = files_of(family, {{"tie_word_embeddings", true}});
    if (!files.find("lm_head.weight")) files = modules_of(files);
    TensorInfo& more = files.tensors.emplace_back(files.tensors.front());
    more.name = "zeros.of.a.tune";
    EXPECT_EQ(catch_error([&] { compile_source(files, StorePath("nowhere"), {}); }).tensor(),
              more.name);
    EXPECT_TRUE(is_silent(names_of(files, {}))) << family;
  }
  // Published models have either name.
  EXPECT_TRUE(is_silent(names_of(modules_of(files_of("gemma3")), {})));
}

TEST(NamesOf, OfWhatNoFamilyKnowsNothingIsSaid) {
  Catalog catalog = modules_of(files_of("qwen3_moe"));
  Json config = parse_json(catalog.config_text, "");
  config["model_type"] = "nobody";
  config["architectures"] = Json::Array{};
  catalog.config_text = dump_json(config);
  EXPECT_TRUE(is_silent(names_of(catalog, {})));
  catalog.config_text.clear();
  EXPECT_TRUE(is_silent(names_of(catalog, {})));
}

TEST(NamesOf, NamesOfBothKindsAreNeither) {
  const Catalog files = files_of("qwen3_moe");
  const Catalog mixed = mixed_of(files);
  const NamedOtherwise names = names_of(mixed, {});
  EXPECT_FALSE(names.back);
  ASSERT_TRUE(names.half);
  EXPECT_EQ(names.half->code(), ErrorCode::bad_input);
  EXPECT_EQ(names.half->tensor(), "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_NE(names.half->sentence().find("\"model.layers.1.mlp.experts.0.gate_proj.weight\" is not"),
            std::string::npos)
      << names.half->sentence();
  EXPECT_NE(names.half->hint_text().find("--dialect modules"), std::string::npos);

  Catalog other = modules_of(files);  // not the config's shape
  other.tensors[*other.find(kExperts + "down_proj")].shape = {9, 26, 15};
  const NamedOtherwise unlike = names_of(other, {});
  ASSERT_TRUE(unlike.half);
  EXPECT_EQ(unlike.half->tensor(), kExperts + "down_proj");
  EXPECT_NE(unlike.half->sentence().find("9x26x14"), std::string::npos);
}

// A missing tensor is also missing under the files' names.
TEST(NamesOf, ATensorThatIsMissingIsNoOtherName) {
  Catalog lacking = modules_of(files_of("qwen3_moe"));
  erase_below(lacking, "model.layers.1.mlp.experts.down_proj");
  EXPECT_TRUE(names_of(lacking, {}).back);
  const Error error = catch_error([&] { compile_source(lacking, StorePath("nowhere"), {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), "model.layers.1.mlp.experts.0.down_proj.weight");
}

// Any target is made from the files' tensors. Names stay if they are requested.
TEST(CompileSource, GoesByWayOfTheFilesNames) {
  const Catalog files = files_of("qwen3_moe");
  const Catalog modules = modules_of(files);
  MappingOptions to_files = in_modules();
  to_files.dialect = "files";
  for (const MappingOptions& mapping : {MappingOptions{}, to_files, in_modules()}) {
    const CompiledModel direct = compile_model(files, mapping);
    const CompiledModel model = compile_source(modules, StorePath("nowhere"), mapping);
    EXPECT_EQ(model.source_dialect, "modules");
    EXPECT_EQ(model.scheme, direct.scheme);
    EXPECT_EQ(model.family, direct.family);
    EXPECT_EQ(model.through.size(), files.tensors.size());
    ASSERT_EQ(model.leaves.size(), direct.leaves.size());
    for (std::size_t i = 0; i < model.leaves.size(); ++i) {
      EXPECT_EQ(model.leaves[i].name, direct.leaves[i].name);
      EXPECT_EQ(model.leaves[i].dtype, direct.leaves[i].dtype);
    }
    ASSERT_FALSE(model.notes.empty());
    EXPECT_NE(model.notes.front().find("as they show"), std::string::npos);
    const CompiledModel plain = compile_source(files, StorePath("nowhere"), mapping);
    EXPECT_EQ(plain.source_dialect, "");
    EXPECT_TRUE(plain.through.empty());
  }
}

// Half of each kind is an error, unless the target has the names of modules.
TEST(CompileSource, RefusesNamesOfBothKinds) {
  const Catalog files = files_of("qwen3_moe");
  const Catalog mixed = mixed_of(files);
  MappingOptions to_files = in_modules();
  to_files.dialect = "files";
  for (const MappingOptions& mapping : {MappingOptions{}, to_files}) {
    const Error error = catch_error([&] { compile_source(mixed, StorePath("nowhere"), mapping); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.tensor(), "model.layers.0.mlp.experts.gate_up_proj");
  }
  const CompiledModel all = compile_source(mixed, StorePath("nowhere"), in_modules());
  EXPECT_TRUE(std::ranges::any_of(
      all.leaves, [&](const Leaf& leaf) { return leaf.name == kExperts + "gate_up_proj"; }));
  // Other errors of a model with the files' names stay the same.
  Catalog lacking = files;
  erase_below(lacking, "model.norm.weight");
  const Error error = catch_error([&] { compile_source(lacking, StorePath("nowhere"), {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), "model.norm.weight");
}

class DialectSourceTest : public testing::Test {
 protected:
  ConvertReport convert_to(const std::string& source, const std::string& out,
                           const MappingOptions& mapping, const std::string& target) {
    PlanOptions options;
    options.mapping = mapping;
    options.mapping.flat_names = false;
    options.target = target;
    QuietReporter reporter;
    return hfshard::convert(source, options, to_output(dir_ / out), reporter);
  }
  std::string said_of(const std::string& source) {
    MappingOptions to_files = in_modules();
    to_files.dialect = "files";
    const std::string out = "said" + std::to_string(++said_);
    for (const std::string& note : convert_to(source, out, to_files, "safetensors").plan.notes) {
      if (note.starts_with("the source has the names")) return note;
    }
    return {};
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3-moe", dir_ / "source");
  int said_ = 0;
};

// Without its record, and with a record of another model.
TEST_F(DialectSourceTest, ARecordBesideTheFilesIsBelievedFirst) {
  const std::string made = dir_ / "made";
  convert_to(source_, "made", in_modules(), "safetensors");
  EXPECT_NE(said_of(made).find("hfshard.json"), std::string::npos);
  EXPECT_NE(said_of(join_path(made, "model.safetensors")).find("hfshard.json"), std::string::npos);
  // A model in a subdirectory doesn't use it.
  const std::string below = copy_fixture("qwen3-moe", join_path(made, "below"));
  EXPECT_EQ(said_of(below), "");
  std::filesystem::remove_all(below);
  const std::string record = read_file(join_path(made, "hfshard.json"));
  std::filesystem::remove(join_path(made, "hfshard.json"));
  EXPECT_NE(said_of(made).find("they show"), std::string::npos);
  write_text(join_path(made, "hfshard.json"), "{\n");
  EXPECT_NE(said_of(made).find("they show"), std::string::npos);
  // The record of a tree next to the files, with their names.
  const std::string index = copy_fixture("qwen3-moe", dir_ / "index");
  convert_to(source_, "tree", in_modules(), "dcp");
  write_text(join_path(index, "hfshard.json"), read_file(dir_ / "tree/hfshard.json"));
  EXPECT_EQ(said_of(index), "");
}

// The record names the tensors of the modules.
TEST_F(DialectSourceTest, ATreeThatWasMadeOfModulesGoesBackToTheTensorsOfTheFiles) {
  MappingOptions names;
  names.scheme = "hf";
  convert_to(source_, "modules", in_modules(), "safetensors");
  convert_to(dir_ / "modules", "tree", {}, "orbax");
  convert_to(dir_ / "tree", "back", names, "safetensors");
  QuietReporter reporter;
  const DiffResult found = diff(source_, dir_ / "back", {}, {}, reporter);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.through, "");
  EXPECT_EQ(found.compared_tensors, open_catalog(source_).tensors.size());
}

// The record doesn't have these names.
TEST_F(DialectSourceTest, ARecordOfOtherFilesIsAnError) {
  convert_to(source_, "made", in_modules(), "safetensors");
  const std::string other = copy_fixture("qwen3-moe", dir_ / "other");
  write_text(join_path(other, "hfshard.json"), read_file(dir_ / "made/hfshard.json"));
  const Error error = catch_error([&] { said_of(other); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_FALSE(error.tensor().empty());
}

// The tree that it was made from has other names, so only the record knows the model's dtypes.
TEST_F(DialectSourceTest, ACastTreeThatWasMadeFromAnotherOneGoesBackToTheModelsDtypes) {
  MappingOptions wide = in_modules();
  wide.dtype = DType::f32;
  MappingOptions to_files = in_modules();
  to_files.dialect = "files";
  convert_to(source_, "maxtext", {}, "orbax");
  convert_to(dir_ / "maxtext", "wide", wide, "dcp");
  convert_to(dir_ / "wide", "back", to_files, "safetensors");
  const std::vector<TensorInfo> wanted = open_catalog(source_).tensors;
  const std::vector<TensorInfo> back = open_catalog(dir_ / "back").tensors;
  ASSERT_EQ(back.size(), wanted.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].name, wanted[i].name);
    EXPECT_EQ(back[i].dtype, wanted[i].dtype) << back[i].name;
  }
}

TEST(NamesOf, AnotherNameIsToldWithTheOptionThatConvertsIt) {
  const NamedOtherwise names = names_of(mixed_of(files_of("qwen3_moe")), {});
  ASSERT_TRUE(names.half);
  EXPECT_EQ(names.dialect, "modules");
  EXPECT_EQ(names.half->sentence(),
            "the name belongs to --dialect modules, and "
            "\"model.layers.1.mlp.experts.0.gate_proj.weight\" is not");
  EXPECT_EQ(names.half->hint_text(),
            "check that one program wrote all files; to convert the arrays that are there, pass "
            "--scheme hf --dialect modules");
}

}  // namespace
}  // namespace hfshard
