#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(Targets, SayWhatTheirFilesHold) {
  const std::vector<Target> all = targets();
  const auto named = [&](const char* name) { return *std::ranges::find(all, name, &Target::name); };
  EXPECT_TRUE(named("safetensors").whole_arrays);
  EXPECT_FALSE(named("safetensors").splits_dims);
  EXPECT_FALSE(named("dcp").whole_arrays);
  EXPECT_TRUE(named("dcp").splits_dims);
  EXPECT_FALSE(named("orbax").whole_arrays);
}

// `link` writes such a record for a model of the Hub that isn't downloaded yet.
TEST(Inspect, AStepThatAwaitsItsFilesSaysHowToFetchThem) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions options;
  options.mapping.scheme = "hf";
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{5}}) {
    options.step = step;
    link(source, options, {}, to_output(dir / "out"), quiet);
  }
  const std::string name = "model-00002-of-00002.safetensors";
  const std::string record = dir / "out/0/hfshard.links.json";
  Json links = parse_json(read_file(record), record);
  links["files"].array().front()["source"] = "hf://org/cached/model-00001-of-00002.safetensors";
  links["files"].array().back()["source"] = "hf://org/name/" + name;
  write_text(record, dump_json(links));
  std::filesystem::remove(dir / ("out/0/items/d/" + name));
  SourceName lower(dir / "out");
  lower.step = 0;
  for (const SourceName& place :
       {lower, SourceName(dir / "out/0"), SourceName(dir / "out/0/items")}) {
    const Error error = catch_error([&] { inspect(place, {}, quiet); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(error.hint_text().find("hfshard fetch hf://org/name"), std::string::npos)
        << place.text << error.format();
  }
  EXPECT_EQ(inspect(dir / "out", {}, quiet).checkpoint.step, 5U);
}

TEST(Inspect, AFilterOfNoTensorsFindsNone) {
  const TempDir dir;
  SafetensorsBuilder().write(dir / "model.safetensors");
  Reporter quiet;
  InspectOptions options;
  options.filter = "a*";
  EXPECT_TRUE(inspect(dir / "model.safetensors", options, quiet).checkpoint.arrays.empty());
}

TEST(Targets, TheDefaultIsFirstAndOnlyNullDiscards) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    names.push_back(target.name + " " + target.scheme);
    EXPECT_EQ(target.discards, target.name == "null");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"orbax maxtext", "dcp hf", "safetensors hf",
                                             "null maxtext"}));
}

// Another program's file can hold an object that the filter means.
TEST(Inspect, AFilterThatMatchesNothingIsAnErrorUnlessItMatchesAnObject) {
  const TempDir dir;
  TorchCheckpoint torch;
  torch.tensor("b.w", DType::u8, {2}).part({0}, {2}, "ab", false);
  torch.tensor("a.w", DType::u8, {3}).part({0}, {3}, "abc", false);
  torch.object("epoch", "bytes");
  torch.write(dir.path());
  Reporter quiet;
  InspectOptions options;
  options.filter = "b.*";
  const CheckpointInfo some = inspect(dir.path(), options, quiet).checkpoint;
  ASSERT_EQ(some.arrays.size(), 1U);
  EXPECT_EQ(some.size_bytes, 2U);
  options.filter = "ep*";
  EXPECT_TRUE(inspect(dir.path(), options, quiet).checkpoint.arrays.empty());
  options.filter = "c*";
  const Error error = catch_error([&] { inspect(dir.path(), options, quiet); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_TRUE(error.sentence().ends_with(" has a name that matches \"c*\"")) << error.sentence();
  EXPECT_EQ(error.hint_text(), "the first name is \"a.w\"; in a pattern, * matches anything");
}

TEST(Inspect, AnArrayThatCantBeReadFitsAFilter) {
  const TempDir dir;
  TorchCheckpoint torch;
  torch.tensor("a", DType::f64, {1}).part({0}, {1}, "abcdefgh", false);
  torch.tensor("b", DType::u8, {1}).part({0}, {1}, "a", false);
  torch.write(dir.path());
  std::string text = read_file(dir / ".metadata");
  text.replace(text.find("float64"), 7, "octuple");
  write_text(dir / ".metadata", text);
  Reporter quiet;
  InspectOptions options;
  options.filter = "a";
  const CheckpointInfo found = inspect(dir.path(), options, quiet).checkpoint;
  EXPECT_TRUE(found.arrays.empty());
  ASSERT_EQ(found.unreadable.size(), 1U);
  EXPECT_EQ(found.unreadable[0].name, "a");
  options.filter = "b";
  EXPECT_EQ(inspect(dir.path(), options, quiet).checkpoint.arrays.size(), 1U);
}

// A tree of one array with 25 chunks of one byte. Chunk 3 is stored.
void write_sparse_tree(const std::string& tree) {
  write_text(tree + "/_METADATA",
             R"({"tree_metadata": {"w": {"key_metadata": [{"key": "w", "key_type": 2}],
                 "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": false}}},
                 "use_ocdbt": false, "store_array_data_equal_to_fill_value": true})");
  write_text(tree + "/w/.zarray",
             R"({"chunks": [1], "dtype": "|u1", "filters": null, "shape": [25],
                 "zarr_format": 2, "compressor": null, "order": "C", "fill_value": 65})");
  write_text(tree + "/w/3", "A");
}

TEST(Inspect, TwentyMissingChunksAreListedAndAllAreCounted) {
  const TempDir dir;
  write_sparse_tree(dir / "tree");
  Reporter quiet;
  InspectOptions options;
  const DamageList some = inspect(dir / "tree", options, quiet).damage;
  EXPECT_EQ(some.items.size(), 20U);
  EXPECT_EQ(some.count, 24U);
  EXPECT_EQ(some.checked, 25U);
  EXPECT_FALSE(some.more);
  EXPECT_EQ(some.items[2].chunk, (Shape{2}));
  EXPECT_EQ(some.items[3].chunk, (Shape{4}));
  options.data = true;
  const DamageList all = inspect(dir / "tree", options, quiet).damage;
  EXPECT_EQ(all.items.size(), 24U);
  EXPECT_EQ(all.count, 24U);
  EXPECT_EQ(all.checked, 25U);
  for (const Damage& item : all.items) EXPECT_EQ(item.tensor, "w");
}

TEST(Inspect, AChangedFileOfALinkedStepIsDamageOfTheDataAlone) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions options;
  options.mapping.scheme = "hf";
  RunOptions run = to_output(dir / "out");
  run.shards = ShardLinks::symbolic;
  link(source, options, {}, run, quiet);
  const std::string file = source + "/model-00002-of-00002.safetensors";
  set_later(file);
  InspectOptions asked;
  EXPECT_EQ(inspect(dir / "out", asked, quiet).damage.count, 0U);
  asked.data = true;
  for (const char* place : {"out", "out/0", "out/0/items"}) {
    const DamageList found = inspect(dir / place, asked, quiet).damage;
    EXPECT_EQ(found.count, 1U) << place;
    ASSERT_EQ(found.items.size(), 1U) << place;
    EXPECT_EQ(found.items[0].tensor, "");
    EXPECT_EQ(found.items[0].code, ErrorCode::corrupt);
    EXPECT_TRUE(found.items[0].file.ends_with("model-00002-of-00002.safetensors"));
    EXPECT_FALSE(found.items[0].message.empty());
  }
}

TEST(Inspect, AChangedFileOfAnotherStepIsNoDamage) {
  const TempDir dir;
  Reporter quiet;
  PlanOptions options;
  options.mapping.scheme = "hf";
  RunOptions run = to_output(dir / "out");
  run.shards = ShardLinks::symbolic;
  for (const std::uint64_t step : {3U, 5U}) {
    options.step = step;
    link(copy_fixture("qwen3", dir / std::to_string(step)), options, {}, run, quiet);
  }
  const std::string file = dir / "5/model-00002-of-00002.safetensors";
  set_later(file);
  InspectOptions asked;
  asked.data = true;
  SourceName name(dir / "out");
  for (const std::uint64_t step : {3U, 5U}) {
    name.step = step;
    EXPECT_EQ(inspect(name, asked, quiet).damage.count, step == 5 ? 1U : 0U) << step;
  }
}

TEST(Inspect, NotesOfTheSourceAreReported) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  write_text(source + "/notes.xyz", "");
  NotesReporter reporter;
  const CheckpointInfo found = inspect(source, {}, reporter).checkpoint;
  EXPECT_EQ(reporter.notes, found.notes);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_NE(found.notes[0].find("\"notes.xyz\""), std::string::npos) << found.notes[0];
}

TEST(Inspect, WithoutItsIndexAModelHasTheFilesThatAreThere) {
  const TempDir dir;
  const std::string first = "model-00001-of-00002.safetensors";
  SafetensorsBuilder().tensor("a", DType::u8, {2}).write(dir / first);
  SafetensorsBuilder().tensor("b", DType::u8, {2}).write(dir / "model-00002-of-00002.safetensors");
  write_text(dir / "model.safetensors.index.json", index_json({{"a", first}}));
  Reporter quiet;
  SourceName place(dir.path());
  EXPECT_EQ(inspect(place, {}, quiet).checkpoint.arrays.size(), 1U);
  place.ignore_index = true;
  EXPECT_EQ(inspect(place, {}, quiet).checkpoint.arrays.size(), 2U);
}

}  // namespace
}  // namespace hfshard
