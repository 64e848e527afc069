#include <string>

#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Most of the arrays that remain have the same names in both layouts.
TEST_F(DiffTest, RecordsTellLayoutsThatShareMostNames) {
  PlanOptions options = small_options();
  options.mapping.include = {"model.embed*", "model.norm*", "*.q_norm.weight"};
  const std::string stacked = convert_to("stacked", options);
  options.mapping.stacked = false;
  const std::string separate = convert_to("separate", options);
  EXPECT_TRUE(compare(stacked, separate).equal());
  EXPECT_TRUE(compare(separate, stacked).equal());
  std::remove((separate + "/0/hfshard.json").c_str());
  EXPECT_EQ(compare(stacked, separate).through, "") << "one record doesn't tell";
  EXPECT_EQ(compare(separate, stacked).through, "");
}

TEST_F(DiffTest, AStepThatBothTreesHaveIsCompared) {
  const std::string tree = convert_to("tree");
  const std::string item = tree + "/0/items";
  for (const DiffResult& found : {compare(tree, item), compare(item, tree)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.compared_tensors, found.a.tensors);
    EXPECT_EQ(found.notes, std::vector<std::string>());
  }
}

TEST_F(DiffTest, FilesOfUnknownModelsAreComparedByNames) {
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir_ / "a.safetensors");
  SafetensorsBuilder().tensor("y", DType::u8, {4}).write(dir_ / "b.safetensors");
  const DiffResult files = compare(dir_ / "a.safetensors", dir_ / "b.safetensors");
  EXPECT_EQ(files.differing_tensors, 2U);
  EXPECT_EQ(files.notes, std::vector<std::string>()) << "no --config helps";
  const std::string tree = convert_to("tree");
  std::remove((tree + "/0/hfshard.json").c_str());
  const DiffResult found = compare(dir_ / "a.safetensors", tree);
  EXPECT_EQ(found.compared_tensors, 0U);
  EXPECT_TRUE(found.through.empty()) << found.through;
}

// The family is unknown, so no rule helps either.
TEST_F(DiffTest, CodesThatCannotBeDecodedAreComparedAsTheyAre) {
  const auto write = [&](const std::string& name, const std::string& config, bool more) {
    SafetensorsBuilder builder;
    builder.tensor("w.qweight", DType::i32, {4, 4}).tensor("w.scales", DType::f16, {1, 4});
    if (more) builder.tensor("z", DType::u8, {4});
    write_text(dir_ / (name + "/model.safetensors"), builder.build());
    write_text(dir_ / (name + "/config.json"), config);
    return dir_ / name;
  };
  const std::string coded =
      write("coded", R"({"model_type": "nobody", "quantization_config": {"quant_method": "gptq"}})",
            false);
  for (const bool more : {false, true}) {
    const std::string plain = write("plain", R"({"model_type": "nobody"})", more);
    for (const DiffResult& found : {compare(coded, plain), compare(plain, coded)}) {
      EXPECT_EQ(found.compared_tensors, 2U);
      EXPECT_EQ(found.differing_tensors, more ? 1U : 0U);
    }
  }
}

}  // namespace
}  // namespace hfshard
