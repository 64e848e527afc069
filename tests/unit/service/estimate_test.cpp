#include "service/estimate.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "unit/mapping/families.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(EstimateTime, OneDiskReadsAndWritesInTurn) {
  const TempDir dir;
  ExampleOptions example;
  example.family = "qwen3";
  example.out = dir / "in";
  example.sparse = true;
  Json config = family_info("qwen3").example;
  config["vocab_size"] = std::uint64_t{1} << 20;  // enough for an estimate
  example.config_text = dump_json(config);
  Reporter quiet;
  write_example(example, quiet);
  const Format& target = format_of("orbax");
  const Plan plan = make_plan(example.out, PlanOptions(), target, Limits());
  constexpr unsigned kFast = 1U << 20;  // kernels that never limit the run
  const TimeEstimate time = estimate_time(plan, target, to_output(dir / "out"), kFast);
  EXPECT_GT(std::min(time.read_seconds, time.write_seconds), 0);
  EXPECT_GE(time.seconds, time.one_disk ? time.read_seconds + time.write_seconds
                                        : std::max(time.read_seconds, time.write_seconds));
}

}  // namespace
}  // namespace hfshard
