#include "service/prepare.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "mapping/resolve/find.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(LayoutOf, AReshardKeepsTheFormOfTheStep) {
  const Format& orbax = format_of("orbax");
  const FileLayout usual = orbax.layout();
  ASSERT_FALSE(usual.item.empty());
  EXPECT_EQ(layout_of(orbax, {}).item, usual.item);
  EXPECT_EQ(layout_of(orbax, {}).step_prefix, usual.step_prefix);
  TreeOptions tree;
  tree.direct = true;
  tree.step_prefix = "checkpoint_";
  tree.step_digits = 6;
  EXPECT_EQ(layout_of(orbax, tree).item, "");
  EXPECT_EQ(layout_of(orbax, tree).step_directory(7), "checkpoint_000007");
  tree = {};
  tree.item_name = "params";
  EXPECT_EQ(layout_of(orbax, tree).item, "params");
}

CompiledModel with_leaf(const std::vector<std::string>& axes) {
  CompiledModel out;
  for (const char* name : {"a", "b"}) {
    Leaf& leaf = out.leaves.emplace_back();
    leaf.name = name;
    leaf.shape = {2, 3};
  }
  out.leaves[1].axes = axes;
  return out;
}

TEST(TakeAxisRules, OnlyAModelThatNamesNoDimsGetsThoseOfTheFormat) {
  using AxisNames = std::vector<std::string>;
  FileLayout files;
  CompiledModel model = with_leaf({});
  take_axis_rules(files, model);
  EXPECT_TRUE(model.leaves[0].axes.empty()) << "the format doesn't have rules";
  files.axis_rules = "[]";
  for (const AxisNames& axes : {AxisNames{}, AxisNames{"dim_0", "dim_1"}}) {
    model = with_leaf(axes);
    take_axis_rules(files, model);
    EXPECT_EQ(model.axis_rules, "[]");
    for (const Leaf& leaf : model.leaves) EXPECT_EQ(leaf.axes, (AxisNames{"dim_0", "dim_1"}));
  }
  model = with_leaf({"embed", "mlp"});
  take_axis_rules(files, model);
  EXPECT_EQ(model.axis_rules, "");
  EXPECT_TRUE(model.leaves[0].axes.empty());
  model = with_leaf({});
  model.axis_rules = "known";
  take_axis_rules(files, model);
  EXPECT_EQ(model.axis_rules, "known");
  EXPECT_TRUE(model.leaves[0].axes.empty());
}

class PrepareTest : public testing::Test {
 protected:
  // Writes a run of Orbax with these arrays of bytes.
  std::string write_run(const std::vector<std::pair<std::string, std::uint64_t>>& arrays) {
    SafetensorsBuilder builder;
    for (const auto& [name, size] : arrays) builder.tensor(name, DType::u8, {size});
    builder.write(dir_ / "x.safetensors");
    PlanOptions plain;
    plain.mapping.scheme = "hf";
    Reporter quiet;
    hfshard::convert(dir_ / "x.safetensors", plain, run_to("run"), quiet);
    return dir_ / "run";
  }
  RunOptions run_to(const std::string& out) const {
    RunOptions run = to_output(dir_ / out);
    run.limits = &limits_;
    return run;
  }
  PlanOptions reshard_on(const std::string& mesh) const {
    PlanOptions out;
    out.mapping.scheme = "hf";
    out.tree.same = true;
    if (!mesh.empty()) out.meshes = {mesh};
    return out;
  }
  std::vector<std::string> notes_of(const PlanOptions& options) {
    return hfshard::plan(dir_ / "run", options, run_to("out"), {}).summary.notes;
  }

  TempDir dir_;
  Limits limits_ = small_limits();  // one chunk up to 64 bytes
};

TEST_F(PrepareTest, ArraysThatAMeshDoesNotCutAreCounted) {
  using Said = std::vector<std::string>;
  std::filesystem::remove(write_run({{"x", 66}, {"y", 64}}) + "/0/hfshard.json");
  const std::string end =
      "; hfshard cuts such arrays by size: pass --axes, or --config DIR for a model";
  EXPECT_EQ(notes_of(reshard_on("fsdp=2")),
            Said{"--mesh doesn't cut 1 array without logical axes, \"x\"" + end});
  EXPECT_EQ(notes_of(reshard_on("")), Said());
  PlanOptions options = reshard_on("fsdp=2");
  options.chunk_bytes = 63;
  EXPECT_EQ(notes_of(options),
            Said{"--mesh doesn't cut 2 arrays without logical axes, such as \"x\"" + end});
  options.tree.axes = {"*=embed"};
  EXPECT_EQ(notes_of(options), Said());
}

TEST_F(PrepareTest, AnArrayThatWasShardedOnOtherAxesIsNoted) {
  using Said = std::vector<std::string>;
  const std::string run = write_run({{"x", 8}, {"y", 8}});
  Json sharding;
  sharding["eA=="] =  // "x"
      R"({"sharding_type": "NamedSharding", "shape": [2, 2], "axis_names": ["fsdp", "tensor"],
          "partition_spec": [["fsdp", "tensor"]]})";
  write_text(run + "/0/items/_sharding", dump_json(sharding));
  std::filesystem::remove(run + "/0/hfshard.json");  // has axes of its own
  EXPECT_EQ(notes_of(reshard_on("data=2")),
            Said{"--mesh doesn't shard \"x\": in the source, it is sharded on \"fsdp\", "
                 "\"tensor\", so add one to --mesh, or pass --axes"});
  for (const char* mesh : {"", "tensor=2", "data=2,fsdp=2"})
    EXPECT_EQ(notes_of(reshard_on(mesh)), Said()) << mesh;
}

TEST_F(PrepareTest, AReshardNamesItsStepLikeTheSource) {
  const std::string run = write_run({{"x", 8}});
  std::string before = "0";
  for (const std::string step : {"7", "007", "checkpoint_7", "my_model_000007"}) {
    std::filesystem::rename(join_path(run, before), join_path(run, step));
    before = step;
    Reporter quiet;
    const std::string out = "out-" + step;
    hfshard::convert(run, reshard_on(""), run_to(out), quiet);
    EXPECT_TRUE(exists(join_path(dir_ / out, step))) << step;
    PlanOptions other = reshard_on("");
    other.step = 12;
    hfshard::convert(run, other, run_to(out + "-12"), quiet);
    const std::string name = step == "7"              ? "12"
                             : step == "007"          ? "012"
                             : step == "checkpoint_7" ? "checkpoint_12"
                                                      : "my_model_000012";
    EXPECT_TRUE(exists(join_path(dir_ / (out + "-12"), name))) << name;
  }
}

TEST_F(PrepareTest, AReshardNamesItsItemLikeTheSource) {
  const std::string run = write_run({{"x", 8}});
  std::filesystem::rename(run + "/0/items", run + "/0/state");
  Reporter quiet;
  hfshard::convert(run, reshard_on(""), run_to("out"), quiet);
  EXPECT_TRUE(exists(dir_ / "out/0/state"));
  EXPECT_FALSE(exists(dir_ / "out/0/items"));
  PlanOptions model;
  model.mapping.scheme = "hf";
  hfshard::convert(dir_ / "x.safetensors", model, run_to("model"), quiet);
  EXPECT_TRUE(exists(dir_ / "model/0/items"));
}

TEST_F(PrepareTest, AReshardKeepsTheFormatUnlessAnotherIsAsked) {
  write_run({{"x", 8}});
  PlanOptions torch = reshard_on("");
  torch.target = "dcp";
  Reporter quiet;
  hfshard::convert(dir_ / "run", torch, run_to("torch"), quiet);
  const StorePath place(dir_ / "torch");
  PlanOptions asked;
  EXPECT_EQ(with_target(place, asked).target, "orbax");
  EXPECT_EQ(with_target(place, asked).mapping.scheme, MappingOptions().scheme);
  asked.tree.same = true;
  EXPECT_EQ(with_target(place, asked).target, "dcp");
  EXPECT_EQ(with_target(place, asked).mapping.scheme, format_of("dcp").scheme());
  asked.target = "safetensors";
  EXPECT_EQ(with_target(place, asked).target, "safetensors");
  EXPECT_EQ(with_target(place, asked).mapping.scheme, MappingOptions().scheme);
  asked.step = 3;
  const Error error = catch_error([&] { with_target(place, asked); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(),
            "--output-step has no effect on format \"safetensors\": OUT is the checkpoint");
  EXPECT_EQ(error.hint_text(), "leave out --output-step");
}

TEST_F(PrepareTest, OptionsOfTheEncodingNeedAFormatThatHasThem) {
  write_run({{"x", 8}});
  PlanOptions options = reshard_on("");
  options.target = "dcp";
  options.encoding.checksum = false;
  const Error checksum = catch_error([&] { notes_of(options); });
  EXPECT_EQ(checksum.code(), ErrorCode::usage);
  EXPECT_EQ(checksum.hint_text(), "leave out --checksum");
  options.encoding.zstd_level = 3;
  EXPECT_EQ(catch_error([&] { notes_of(options); }).hint_text(), "leave out --compress");
  options.target = "orbax";
  EXPECT_EQ(notes_of(options), std::vector<std::string>());
  options.link = true;
  options.target = "safetensors";
  const Error link = catch_error([&] { small_plan(dir_ / "run", options); });
  EXPECT_EQ(link.code(), ErrorCode::unsupported);
  EXPECT_EQ(link.sentence(), "format \"safetensors\" can't link the source's files");
}

// A plan records the families that the user wrote only if they were used.
TEST_F(PrepareTest, APlanRecordsTheFamilyThatItWasMadeWith) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions options = small_options();
  for (const char* family : {"llama", "qwen3"}) {
    const FamilyFile& file = family_by_name(family);
    options.mapping.files.push_back(
        {family, std::string(family) + ".json", std::string(file.text), false, ""});
  }
  const Plan plan = small_plan(source, options);
  ASSERT_EQ(plan.options().mapping.files.size(), 1U);
  EXPECT_EQ(plan.options().mapping.files[0].family, "qwen3");
  EXPECT_EQ(plan.options().step, 0U);
}

// A reader of the record must find the same arrays.
TEST_F(PrepareTest, APlanRecordsThatItKeepsCodes) {
  const std::string source = copy_fixture("qwen3.5-fp8", dir_ / "source");
  using Recorded = std::map<std::string, std::string>;
  PlanOptions options;
  EXPECT_EQ(Recorded(small_plan(source, options).options().mapping.options), Recorded());
  options.mapping.keep_dtype = true;
  const Plan plan = small_plan(source, options);
  EXPECT_EQ(Recorded(plan.options().mapping.options), (Recorded{{"codes", "kept"}}));
  options.mapping.options["codes"] = "kept";
  EXPECT_EQ(Recorded(small_plan(source, options).options().mapping.options),
            (Recorded{{"codes", "kept"}}));
}

// PyTorch's trainers write "step-7". Managers of Orbax look for "7".
TEST_F(PrepareTest, AReshardInAnotherFormatKeepsTheNumberOfTheStepAlone) {
  write_run({{"x", 8}});
  PlanOptions torch = reshard_on("");
  torch.target = "dcp";
  Reporter quiet;
  hfshard::convert(dir_ / "run", torch, run_to("torch/step-7"), quiet);
  PlanOptions orbax = reshard_on("");
  orbax.target = "orbax";
  hfshard::convert(dir_ / "torch", orbax, run_to("out"), quiet);
  EXPECT_TRUE(exists(dir_ / "out/7/items"));
  EXPECT_FALSE(exists(dir_ / "out/step-7"));
}

TEST_F(PrepareTest, AnotherSchemeOfATreeIsStepZero) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions options = small_options();
  options.step = 7;
  Reporter quiet;
  hfshard::convert(source, options, run_to("stacked"), quiet);
  options.step.reset();
  options.mapping.stacked = false;
  hfshard::convert(dir_ / "stacked", options, run_to("separate"), quiet);
  EXPECT_TRUE(exists(dir_ / "separate/0/items"));
  options.step = 9;
  hfshard::convert(dir_ / "stacked", options, run_to("other"), quiet);
  EXPECT_TRUE(exists(dir_ / "other/9/items"));
}

TEST_F(PrepareTest, AnIndexInPlaceHasTheModelOfItsConfig) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.link = true;
  options.in_place = true;
  const auto refused = [&] {
    const Error error = catch_error([&] { small_plan(source, options); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.sentence() + "; " + error.hint_text();
  };
  options.mapping.untie = true;
  EXPECT_EQ(refused(),
            "--untie can't be used with --in-place; the config.json next to the index ties the "
            "embeddings; pass an OUT instead");
  options.mapping.num_layers = 1;
  EXPECT_EQ(refused(),
            "--num-layers can't be used with --in-place; the config.json next to the index sets "
            "the number of layers; pass an OUT instead");
}

}  // namespace
}  // namespace hfshard
