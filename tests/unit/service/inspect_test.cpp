#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
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

}  // namespace
}  // namespace hfshard
