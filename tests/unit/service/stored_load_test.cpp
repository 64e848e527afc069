// The cost of loading an existing checkpoint equals its plan's.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

const std::vector<std::string> kMeshes{"fsdp=4,tensor=2", "fsdp=2", "tensor=2", "data=2"};

class StoredLoadTest : public testing::Test {
 protected:
  PlanReport make(const std::string& out, const PlanOptions& options) {
    RunOptions run = to_output(dir_ / out);
    run.limits = &limits_;
    PlanQuestions questions;
    questions.load_meshes = kMeshes;
    questions.devices_per_host = 2;
    PlanReport planned = plan(source_, options, run, questions);
    hfshard::convert(source_, options, run, quiet_);
    return planned;
  }
  std::vector<LoadReport> loads(const std::string& out) {
    InspectOptions options;
    options.load_meshes = kMeshes;
    options.devices_per_host = 2;
    return inspect(dir_ / out, options, quiet_).loads;
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

TEST_F(StoredLoadTest, WithChunksInnerOnesAndSeparateLayersItIsWhatThePlanSaid) {
  for (const std::uint64_t outer_shards : {std::uint64_t{32}, std::uint64_t{2}}) {
    for (const bool stacked : {true, false}) {
      limits_.outer_shards = outer_shards;
      PlanOptions options = small_options();
      options.mapping.stacked = stacked;
      const std::string out = std::to_string(outer_shards) + (stacked ? "stacked" : "separate");
      const PlanReport planned = make(out, options);
      const std::vector<LoadReport> found = loads(out);
      ASSERT_EQ(found.size(), kMeshes.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].mesh, planned.loads[i].mesh);
        EXPECT_EQ(found[i].needed_bytes, planned.loads[i].needed_bytes) << out << i;
        EXPECT_EQ(found[i].read_bytes, planned.loads[i].read_bytes) << out << i;
        EXPECT_EQ(found[i].largest_request_bytes, planned.loads[i].largest_request_bytes);
        ASSERT_EQ(found[i].hosts.size(), planned.loads[i].hosts.size());
        for (std::size_t host = 0; host < found[i].hosts.size(); ++host)
          EXPECT_EQ(found[i].hosts[host].requests, planned.loads[i].hosts[host].requests);
      }
    }
  }
}

TEST_F(StoredLoadTest, WhatNothingTellsTheAxesOfIsReadWhole) {
  make("out", small_options());
  const LoadReport known = loads("out").at(1);
  std::remove((dir_ / "out/0/hfshard.json").c_str());
  const LoadReport unknown = loads("out").at(1);
  EXPECT_GT(unknown.needed_bytes, known.needed_bytes / 4 * 3);
  EXPECT_EQ(unknown.needed_bytes, unknown.hosts.size() * unknown.hosts.at(0).needed_bytes);
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  options.filter = "*.wi_0.kernel";
  const LoadReport whole = inspect(dir_ / "out", options, quiet_).loads.at(0);
  options.axes = {"*.wi_0.kernel=embed,,mlp"};
  const LoadReport split = inspect(dir_ / "out", options, quiet_).loads.at(0);
  EXPECT_EQ(split.needed_bytes * 2, whole.needed_bytes);
}

// If the user asks for the step alone, it counts.
TEST_F(StoredLoadTest, TheStepCountsAlone) {
  make("out", small_options());
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  options.filter = "step";
  const InspectReport found = inspect(dir_ / "out", options, quiet_);
  ASSERT_EQ(found.checkpoint.arrays.size(), 1U);
  EXPECT_EQ(found.loads.at(0).needed_bytes, 2 * found.checkpoint.arrays[0].size_bytes);
}

TEST_F(StoredLoadTest, TheStepThatIsAskedForIsLoaded) {
  PlanOptions options = small_options();
  options.step = 9;
  make("out", options);
  options.step = 3;
  options.mapping.exclude = {"model.norm.weight"};
  make("out", options);
  const std::uint64_t whole = loads("out").at(1).needed_bytes;
  InspectOptions asked;
  asked.load_meshes = kMeshes;
  asked.devices_per_host = 2;
  SourceName name(dir_ / "out");
  for (const std::uint64_t step : {9U, 3U}) {
    name.step = step;
    const LoadReport load = inspect(name, asked, quiet_).loads.at(1);
    EXPECT_EQ(load.needed_bytes < whole, step == 3) << step;
  }
}

TEST_F(StoredLoadTest, TheItemThatIsAskedForIsLoaded) {
  PlanOptions options = small_options();
  make("state", options);
  options.mapping.exclude = {"model.norm.weight"};
  make("ema", options);
  for (const std::string item : {"state", "ema"})
    std::filesystem::rename(dir_ / (item + "/0/items"), dir_ / ("state/0/" + item));
  std::filesystem::remove(dir_ / "state/0/hfshard.json");
  InspectOptions asked;
  asked.load_meshes = {"fsdp=2"};
  std::vector<std::uint64_t> needed;
  for (const std::string item : {"state", "ema"}) {
    SourceName name(dir_ / "state");
    name.items = item;
    needed.push_back(inspect(name, asked, quiet_).loads.at(0).needed_bytes);
  }
  EXPECT_GT(needed[0], needed[1]);
}

TEST_F(StoredLoadTest, AModelIsNotCut) {
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  EXPECT_EQ(catch_error([&] { inspect(source_, options, quiet_); }).code(), ErrorCode::usage);
}

// Torch loads whole items of any size, and packed ones in packed form.
TEST_F(StoredLoadTest, ItemsOfTorchAreReadWhole) {
  const Shape all{5, 1 << 17};
  const std::string tensor(std::size_t{5} << 20, 'x');
  for (const bool packed : {false, true}) {
    TorchCheckpoint made;
    made.tensor("w", DType::f64, all).part({0, 0}, all, tensor, packed);
    made.write(dir_ / "torch");
    InspectOptions options;
    options.load_meshes = {"fsdp=5"};
    const LoadReport found = inspect(dir_ / "torch", options, quiet_).loads.at(0);
    const std::uint64_t item = read_text(dir_ / "torch/" + TorchCheckpoint::kDataFile).size();
    ASSERT_EQ(found.hosts.size(), 5U);
    EXPECT_EQ(found.needed_bytes, tensor.size());
    EXPECT_EQ(found.read_bytes, 5 * item);
    for (const auto& host : found.hosts) EXPECT_EQ(host.requests, 1U);
  }
}

// An optimizer's numbers aren't parameters.
TEST_F(StoredLoadTest, ParametersAreTheRealNumbers) {
  make("out", small_options());
  const CheckpointInfo info = inspect(dir_ / "out", {}, quiet_).checkpoint;
  EXPECT_EQ(info.parameters + 1, info.elements) << "the step is a whole number";
  EXPECT_EQ(info.parameters, plan(source_, small_options(), {}, {}).summary.parameters);
}

TEST_F(StoredLoadTest, AHostHasADevice) {
  make("out", small_options());
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  options.devices_per_host = 0;
  const Error stored = catch_error([&] { inspect(dir_ / "out", options, quiet_); });
  EXPECT_EQ(stored.code(), ErrorCode::usage);
  EXPECT_EQ(stored.sentence(), "pass --devices-per-host 1 or more");
  PlanQuestions questions;
  questions.devices_per_host = 0;
  const Error planned = catch_error([&] { plan(source_, small_options(), {}, questions); });
  EXPECT_EQ(planned.code(), ErrorCode::usage);
  EXPECT_EQ(planned.sentence(), "pass --devices-per-host 1 or more");
}

TEST_F(StoredLoadTest, AFileOfAModelIsNotCut) {
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  const Error error =
      catch_error([&] { inspect(source_ + "/model-00001-of-00002.safetensors", options, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "the arrays of this checkpoint aren't split into chunks");
}

TEST_F(StoredLoadTest, ALinkIsPlannedForTheMeshesThatAreAskedFor) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.link = true;
  options.meshes = {"fsdp=4"};
  PlanQuestions questions;
  questions.load_meshes = {"fsdp=2"};
  std::vector<LoadReport> found = plan(source_, options, {}, questions).loads;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].mesh, "fsdp=2");
}

TEST_F(StoredLoadTest, AChunkOfFillValuesCountsLikeAStoredOne) {
  write_text(dir_ / "zarr/_METADATA",
             R"({"tree_metadata": {"w": {"key_metadata": [{"key": "w", "key_type": 2}],
                 "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": false}}},
                 "use_ocdbt": false})");
  write_text(dir_ / "zarr/w/.zarray",
             R"({"chunks": [2, 6], "dtype": "|u1", "filters": null, "shape": [4, 6],
                 "zarr_format": 2, "compressor": null, "order": "C", "fill_value": 5})");
  write_text(dir_ / "zarr/w/0.0", "ABCDEFGHIJKL");
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  for (const bool stored : {false, true}) {
    if (stored) write_text(dir_ / "zarr/w/1.0", "abcdefghijkl");
    const LoadReport found = inspect(dir_ / "zarr", options, quiet_).loads.at(0);
    EXPECT_EQ(found.needed_bytes, 48U) << stored;
    EXPECT_EQ(found.read_bytes, 48U) << stored;
  }
}

TEST_F(StoredLoadTest, ATreeWithARecordHasKnownAxesAndRulesCanBeGiven) {
  make("out", small_options());
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  options.filter = "*.wi_0.kernel";
  NotesReporter notes;
  const LoadReport split = inspect(dir_ / "out", options, notes).loads.at(0);
  EXPECT_EQ(notes.notes, std::vector<std::string>());
  options.rules_text = R"([["mlp", ["tensor"]], ["nothing", ["fsdp"]]])";
  options.rules_name = "mine";
  const LoadReport whole = inspect(dir_ / "out", options, notes).loads.at(0);
  EXPECT_EQ(whole.needed_bytes, 2 * split.needed_bytes) << "no rule uses fsdp";
  options.rules_text = "{";
  EXPECT_EQ(catch_error([&] { inspect(dir_ / "out", options, quiet_); }).file(), "mine");
}

TEST_F(StoredLoadTest, UnknownAxesAreCounted) {
  make("out", small_options());
  std::remove((dir_ / "out/0/hfshard.json").c_str());
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  options.filter = "*wi_0.kernel";
  NotesReporter notes;
  inspect(dir_ / "out", options, notes);
  EXPECT_EQ(notes.notes,
            std::vector<std::string>{"the axes of 1 of 1 arrays are unknown, so the estimate "
                                     "assumes that each device reads them whole; pass --axes"});
  options.filter = "step";  // has no axes to know
  NotesReporter step;
  inspect(dir_ / "out", options, step);
  EXPECT_EQ(step.notes, std::vector<std::string>());
}

TEST_F(StoredLoadTest, TheErrorForAModelNamesTheCommandForIt) {
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  const Error error = catch_error([&] { inspect(source_, options, quiet_); });
  EXPECT_EQ(error.sentence(), "the arrays of this checkpoint aren't split into chunks");
  EXPECT_EQ(error.file(), source_);
  EXPECT_EQ(error.hint_text(),
            "run hfshard plan --load-mesh to see what loading its conversion would cost");
}

TEST_F(StoredLoadTest, AnArrayThatCannotBeReadIsLeftOutOfTheCost) {
  TorchCheckpoint torch;
  torch.tensor("a.odd", DType::f64, {1}).part({0}, {1}, "abcdefgh", false);
  torch.tensor("b", DType::u8, {4}).part({0}, {4}, "abcd", false);
  torch.write(dir_ / "torch");
  std::string text = read_file(dir_ / "torch/.metadata");
  text.replace(text.find("float64"), 7, "octuple");
  write_text(dir_ / "torch/.metadata", text);
  InspectOptions options;
  options.load_meshes = {"fsdp=2"};
  const InspectReport found = inspect(dir_ / "torch", options, quiet_);
  EXPECT_EQ(found.checkpoint.unreadable.size(), 1U);
  ASSERT_EQ(found.loads.size(), 1U);
  EXPECT_EQ(found.loads[0].hosts.size(), 2U);
  EXPECT_EQ(found.loads[0].needed_bytes, 4U);
}

}  // namespace
}  // namespace hfshard
