#include "service/estimate.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"
#include "support/test_data.h"
#include "unit/mapping/families.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Writes a model that is large enough for an estimate.
std::string write_large(const TempDir& dir, const std::string& family, Json config) {
  ExampleOptions example;
  example.family = family;
  example.out = dir / family;
  example.sparse = true;
  config["vocab_size"] = std::uint64_t{1} << 20;
  example.config_text = dump_json(config);
  Reporter quiet;
  write_example(example, quiet);
  return example.out;
}

TimeEstimate estimate(const std::string& source, const std::string& out, unsigned kernels,
                      const PlanOptions& options = {}) {
  const Format& target = format_of("orbax");
  const Plan plan = make_plan(source, options, target, Limits());
  return estimate_time(plan, target, to_output(out), kernels);
}

constexpr unsigned kFast = 1U << 20;  // kernels that never limit the run

TEST(EstimateTime, OneDiskReadsAndWritesInTurn) {
  const TempDir dir;
  const std::string source = write_large(dir, "qwen3", family_info("qwen3").example);
  const TimeEstimate time = estimate(source, dir / "out", kFast);
  EXPECT_GT(std::min(time.read_seconds, time.write_seconds), 0);
  EXPECT_GE(time.seconds, time.one_disk ? time.read_seconds + time.write_seconds
                                        : std::max(time.read_seconds, time.write_seconds));
}

TEST(EstimateTime, AFasterProcessorLeavesTheSlowerHalfOfTheDiskAsTheLimit) {
  const TempDir dir;
  const std::string source = write_large(dir, "qwen3", family_info("qwen3").example);
  const TimeEstimate time = estimate(source, dir / "out", kFast);
  const double disk = time.one_disk ? time.read_seconds + time.write_seconds
                                    : std::max(time.read_seconds, time.write_seconds);
  ASSERT_LT(time.processor_seconds, disk);
  EXPECT_EQ(time.limit, time.read_seconds >= time.write_seconds ? "reading" : "writing");
}

// Each worker reads and writes its share.
TEST(EstimateTime, AShareThatIsSmallIsNotEstimated) {
  const TempDir dir;
  const std::string source = write_large(dir, "qwen3", family_info("qwen3").example);
  const Format& target = format_of("orbax");
  for (const DType dtype : {DType::bf16, DType::f32}) {  // f32 writes twice the bytes that it reads
    PlanOptions options;
    options.mapping.dtype = dtype;
    const Plan plan = make_plan(source, options, target, Limits());
    const std::uint64_t bytes = std::max(plan.totals().source_bytes, plan.totals().output_bytes);
    RunOptions run = to_output(dir / "out");
    run.workers = static_cast<std::uint32_t>(bytes / (64 * kMiB) + 1);
    const Error error = catch_error([&] { estimate_time(plan, target, run, kFast); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.sentence(), "too little data to estimate; a few seconds at most");
    run.workers = static_cast<std::uint32_t>(bytes / (64 * kMiB));
    EXPECT_GT(estimate_time(plan, target, run, kFast).write_seconds, 0);
  }
}

// Whichever of disk and processor takes longer.
TEST(EstimateTime, TheSlowestStageIsTheLimit) {
  const TempDir dir;
  const std::string source = write_large(dir, "qwen3", family_info("qwen3").example);
  PlanOptions options;
  options.encoding.zstd_level = 19;
  const TimeEstimate time = estimate(source, dir / "out", 1, options);
  const double disk = time.one_disk ? time.read_seconds + time.write_seconds
                                    : std::max(time.read_seconds, time.write_seconds);
  EXPECT_EQ(time.limit == "processor", time.processor_seconds >= disk);
  EXPECT_EQ(time.seconds, std::max(disk, time.processor_seconds));
}

TEST(EstimateTime, AnOutputInDirectoriesThatDontExistIsEstimated) {
  const TempDir dir;
  const std::string source = write_large(dir, "qwen3", family_info("qwen3").example);
  EXPECT_GT(estimate(source, dir / "a/b/out", kFast).write_seconds, 0);
  EXPECT_FALSE(exists(dir / "a"));
}

TEST(EstimateTime, CodesAreDecodedForTheEstimate) {
  const TempDir dir;
  const std::string coded = test_data("oracle/qwen3-moe-fp8/config.json");
  const std::string source = write_large(dir, "qwen3_moe", parse_json(read_file(coded), coded));
  EXPECT_GT(estimate(source, dir / "out", kFast).processor_seconds, 0);
}

TEST(PlanTime, APlanWithoutAnEstimateSaysWhy) {
  const TempDir dir;
  const std::string model = dir / "model.safetensors";
  SafetensorsBuilder().tensor("w", DType::u8, {4}).write(model);
  PlanOptions options;
  options.mapping.scheme = "hf";
  const auto why = [&](const std::string& source, const std::string& out) {
    PlanQuestions questions;
    questions.measure = true;
    const PlanReport report = hfshard::plan(source, options, to_output(out), questions);
    EXPECT_FALSE(report.time);
    return report.why_no_time;
  };
  EXPECT_EQ(why(model, ""), "without OUT, hfshard can't measure the disk");
  EXPECT_EQ(why(model, dir / "out"), "too little data to estimate; a few seconds at most");
  Reporter quiet;
  hfshard::convert(model, options, to_output(dir / "tree"), quiet);
  options.tree.same = true;
  EXPECT_EQ(why(dir / "tree", dir / "out"),
            "the source is stored in pieces, and hfshard doesn't measure their decoding");
}

TEST(EstimateTime, FilesThatAreAllSmallAreNotEstimated) {
  const TempDir dir;
  constexpr std::uint64_t kFiles = 33;  // of 2 MiB
  std::vector<std::pair<std::string, std::string>> weight_map;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    const std::string name = "w" + std::to_string(i);
    const std::string file = name + ".safetensors";
    SafetensorsBuilder()
        .tensor(name, DType::u8, {std::uint64_t{2} << 20}, std::string(std::size_t{2} << 20, 0))
        .write(dir / ("in/" + file));
    weight_map.emplace_back(name, file);
  }
  write_text(dir / "in/model.safetensors.index.json", index_json(weight_map));
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  const Error error = catch_error([&] { estimate(dir / "in", dir / "out", kFast, plain); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "the source's files are too small to estimate the time");
}

}  // namespace
}  // namespace hfshard
