#include "service/onward.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "plan/compile/compile_model.h"
#include "service/example.h"
#include "unit/mapping/families.h"

namespace hfshard {
namespace {

TEST(Onward, TheWayToTheModelHasTheOptionsThatConcernIt) {
  MappingOptions asked;
  asked.scheme = "torchtitan";
  asked.dialect = "meta";
  asked.stacked = false;
  asked.keep_dtype = true;
  asked.dtype = DType::f32;
  asked.options = {{"vocab", "20"}};
  asked.files = {{"mine", "mine.json", "{}"}};
  asked.include = {"a*"};
  asked.drop = {"b*"};
  asked.untie = true;
  const MappingOptions model = to_model(asked);
  EXPECT_EQ(model.scheme, "hf");
  EXPECT_TRUE(model.flat_names);
  EXPECT_TRUE(model.keep_dtype);
  EXPECT_EQ(model.options, asked.options);
  ASSERT_EQ(model.files.size(), 1U);
  EXPECT_EQ(model.files.front().family, "mine");
  EXPECT_EQ(model.drop, asked.drop);
  EXPECT_TRUE(model.untie);
  // These concern the scheme that comes after it.
  EXPECT_EQ(model.dialect, MappingOptions().dialect);
  EXPECT_FALSE(model.dtype.has_value());
  EXPECT_TRUE(model.include.empty());
}

// Without a config of its own, the output would have the source's.
TEST(Onward, AConfigThatTheModelChangedIsTheOutputs) {
  Json config = family_info("qwen3").example;
  Catalog source = example_catalog(family_by_name("qwen3"), config, DType::bf16);
  source.config_text = dump_json(config);
  MappingOptions mapping;
  mapping.scheme = "torchtitan";
  const CompiledModel back = compile_model(source, to_model(mapping));
  EXPECT_EQ(compile_onward(back, source.config_text, source, mapping).config_text, "");
  config["transformers_version"] = "0";
  const std::string changed = dump_json(config);
  EXPECT_EQ(compile_onward(back, changed, source, mapping).config_text, changed);
  source.config_text.clear();
  EXPECT_EQ(compile_onward(back, changed, source, mapping).config_text, "")
      << "the source doesn't have one";
}

// The globs of --drop match the source's names. The model doesn't have this one.
TEST(Onward, DroppedArraysOfTheSourceAreNotLookedForInTheModel) {
  const Json config = family_info("qwen3").example;
  Catalog source = example_catalog(family_by_name("qwen3"), config, DType::bf16);
  source.config_text = dump_json(config);
  CompiledModel back = compile_model(source, to_model({}));
  const Transfer dropped = back.transfers.back();
  source.tensors[dropped.sources.front()].name = "only.in.the.source";
  MappingOptions mapping;
  mapping.scheme = "torchtitan";
  mapping.drop = {"only.in.the.source"};
  const CompiledModel onward = compile_onward(back, source.config_text, source, mapping);
  EXPECT_EQ(onward.leaves.size(), source.tensors.size());
  EXPECT_EQ(onward.scheme, "torchtitan");
  EXPECT_EQ(onward.family, "qwen3");
}

}  // namespace
}  // namespace hfshard
