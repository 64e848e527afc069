// Trees whose model is known, by hfshard's record or by a config.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/anew_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST_F(AnewTest, ATreeOfARecordedModelStillBecomesThatModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  hfshard::convert(source, small_options(), run_to(dir_ / "tree"), quiet_);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  hfshard::convert(reshard(dir_ / "tree", "orbax"), back, run_to(dir_ / "back"), quiet_);
  const DiffResult found = diff(source, dir_ / "back", {}, run_to(""), quiet_);
  EXPECT_TRUE(found.equal());
  EXPECT_TRUE(found.through.empty());
  EXPECT_EQ(read_file(dir_ / "back/config.json"), read_file(source + "/config.json"));
}

// The config next to the checkpoint names the model. Without it, its record is still there.
TEST_F(AnewTest, ARecordedTreeThatLostItsConfigIsStillResharded) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions titan;
  titan.target = "dcp";
  titan.mapping.scheme = "torchtitan";
  hfshard::convert(source, titan, run_to(dir_ / "tree"), quiet_);
  std::filesystem::remove(dir_ / "tree/config.json");
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.mapping.dtype = DType::f32;
  options.tree.same = true;
  const PlanSummary plan =
      hfshard::convert(dir_ / "tree", options, run_to(dir_ / "again"), quiet_).plan;
  EXPECT_EQ(plan.load_words, std::vector<std::string>{"--checkpoint.enable"});
  for (const StoredArray& array : inspect(dir_ / "again", {}, quiet_).checkpoint.arrays)
    EXPECT_EQ(array.dtype, DType::f32) << array.name;
}

TEST_F(AnewTest, AFewMissingArraysAreToldFromAnotherModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  const auto error_without = [&](const std::string& name, const std::string& excluded) {
    PlanOptions part;
    part.target = "dcp";
    part.mapping.exclude = {excluded};
    const std::string tree = dir_ / name;
    hfshard::convert(source, part, run_to(tree), quiet_);
    std::filesystem::remove(tree + "/hfshard.json");
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    options.tree.config_text = read_file(source + "/config.json");
    options.tree.config_name = "config.json";
    return catch_error([&] { hfshard::convert(tree, options, run_to(tree + "-out"), quiet_); });
  };
  const Error one = error_without("one", "model.norm.weight");
  EXPECT_EQ(one.code(), ErrorCode::not_found);
  EXPECT_EQ(one.sentence(), "the checkpoint lacks one array of the model");
  EXPECT_EQ(one.file(), dir_ / "one");
  EXPECT_EQ(one.tensor(), "params.params.decoder.decoder_norm.scale");
  EXPECT_EQ(one.hint_text(),
            "leave out --config to reshard the arrays that are there, or pass the config of this "
            "model");
  const Error most = error_without("most", "*mlp*");
  EXPECT_EQ(most.code(), ErrorCode::not_found);
  EXPECT_EQ(most.sentence(), "the checkpoint lacks 3 arrays of the model");
  const Error few = error_without("few", "*layers*");
  EXPECT_EQ(few.code(), ErrorCode::bad_input);
  EXPECT_EQ(few.sentence(), "the checkpoint doesn't belong to this config's model");
  EXPECT_EQ(few.file(), "config.json");
  EXPECT_EQ(few.tensor(), "params.params.decoder.layers.mlp.wi_0.kernel");
  EXPECT_EQ(few.hint_text(), "pass the config of the checkpoint's model");
}

// The config next to the record states the blocks of the codes, or --config does.
TEST_F(AnewTest, ACastAloneDecodesTheCodesOfATree) {
  const std::string source = copy_fixture("qwen3-moe-fp8", dir_ / "source");
  const std::string name = "model.layers.0.mlp.experts.0.down_proj.weight";
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  hfshard::convert(source, options, run_to(dir_ / "tree"), quiet_);
  options.mapping.casts = {{name, DType::f32}};
  hfshard::convert(source, options, run_to(dir_ / "wanted"), quiet_);
  options.tree.same = true;
  for (const char* out : {"by-record", "by-config"}) {
    if (out == std::string("by-config")) {
      std::filesystem::remove(dir_ / "tree/hfshard.json");
      options.tree.config_text = read_file(source + "/config.json");
      options.tree.config_name = "config.json";
    }
    hfshard::convert(dir_ / "tree", options, run_to(dir_ / out), quiet_);
    std::map<std::string, DType> dtypes;
    for (const StoredArray& array : inspect(dir_ / out, {}, quiet_).checkpoint.arrays)
      dtypes.emplace(array.name, array.dtype);
    EXPECT_EQ(dtypes.at(name), DType::f32) << out;
    EXPECT_FALSE(dtypes.contains(name + "_scale_inv")) << out;
    EXPECT_TRUE(diff(dir_ / "wanted", dir_ / out, {}, run_to(""), quiet_).equal()) << out;
  }
}

// Factored moments aren't as large as their weights.
TEST_F(AnewTest, ArraysOfAnOptimizerCanHaveOtherShapesThanTheirWeights) {
  TorchCheckpoint torch;
  const CompiledModel model = compile_model(files_of("qwen3"), {});
  const std::string top = "params.";
  for (const Leaf& leaf : model.leaves) {
    torch.whole("opt_state.mu." + leaf.name.substr(top.size()), DType::f32, {1});
    torch.whole(leaf.name, leaf.dtype, leaf.shape);
  }
  torch.write(dir_ / "state");
  EXPECT_EQ(reshard_with_config(dir_ / "state", "orbax").leaves, 2 * model.leaves.size());
}

// Files of a model with names of a loader would be looked for under other names.
TEST_F(AnewTest, AReshardOfARecordedTreeIsDescribedAsItsModel) {
  PlanOptions separate;
  separate.mapping.stacked = false;
  hfshard::convert(copy_fixture("qwen3", dir_ / "source"), separate, run_to(dir_ / "tree"), quiet_);
  for (const auto& [target, has_config] :
       std::map<std::string, bool>{{"dcp", true}, {"orbax", false}, {"safetensors", false}}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    const PlanSummary plan =
        hfshard::convert(dir_ / "tree", options, run_to(dir_ / target), quiet_).plan;
    EXPECT_EQ(plan.family, "qwen3") << target;
    EXPECT_EQ(plan.scheme, "maxtext") << target;
    EXPECT_FALSE(plan.stacked) << target;
    EXPECT_EQ(std::ranges::count(plan.load_words, "scan_layers=false"), target == "orbax" ? 1 : 0)
        << target;
    EXPECT_EQ(std::filesystem::exists(dir_ / target + "/config.json"), has_config) << target;
    if (target == "safetensors") continue;  // files of a model aren't resharded
    const PlanSummary again =
        hfshard::convert(dir_ / target, options, run_to(dir_ / target + "-again"), quiet_).plan;
    EXPECT_EQ(again.family, "qwen3") << target;
    EXPECT_EQ(again.scheme, "maxtext") << target;
    EXPECT_FALSE(again.stacked) << target;
  }
}

TEST_F(AnewTest, AReshardOfACutModelHasTheConfigOfItsLayers) {
  PlanOptions cut;
  cut.target = "dcp";
  cut.mapping.num_layers = 1;
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  hfshard::convert(source, cut, run_to(dir_ / "cut"), quiet_);
  PlanOptions same;
  same.target = "dcp";
  same.mapping.scheme = "hf";
  same.tree.same = true;
  hfshard::convert(dir_ / "cut", same, run_to(dir_ / "again"), quiet_);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  hfshard::convert(dir_ / "again", back, run_to(dir_ / "back"), quiet_);
  Json config = parse_json(read_file(source + "/config.json"), "config.json");
  config["num_hidden_layers"] = 1;
  EXPECT_EQ(parse_json(read_file(dir_ / "back/config.json"), "config.json"), config);
  const DiffResult found = diff(dir_ / "back", dir_ / "cut", {}, run_to(""), quiet_);
  EXPECT_TRUE(found.equal());
  EXPECT_GT(found.compared_tensors, 10U);
}

}  // namespace
}  // namespace hfshard
