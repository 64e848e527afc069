#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"
#include "support/temp_dir.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Verifying holds the opened output, and the plan as it was actually cut, in addition to the
// recorded one. With thousands of names, that is more than converting holds. It fails before it
// reads anything.
TEST(VerifyMemory, WhatIsHeldBesideThePlanCounts) {
  const TempDir dir;
  SafetensorsBuilder source;
  for (int i = 0; i < cases(6000); ++i)
    source.tensor("model.layers." + std::to_string(i) + ".some.tensor.weight", DType::u8, {2});
  const std::string from = dir / "model.safetensors";
  source.write(from);
  PlanOptions options;
  options.mapping.scheme = "hf";
  RunOptions run;
  run.out = dir / "out";
  run.jobs = 1;
  Reporter quiet;
  const MemoryNeed need = plan(from, options, run).memory;
  const auto stated = [](const Error& error) {  // "..., this plan needs 8.0 MiB (8388608 bytes)"
    const std::size_t at = error.sentence().rfind('(');
    return at == std::string::npos ? 0 : std::stoull(error.sentence().substr(at + 1));
  };
  run.max_memory_bytes = need.need_bytes;
  EXPECT_TRUE(convert(from, options, run, quiet).run.published);
  const Error error = catch_error([&] { verify(run.out, "", run, quiet); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_GE(stated(error), need.need_bytes + need.control_bytes / 2);
  run.max_memory_bytes = need.need_bytes + 10 * need.control_bytes;
  EXPECT_TRUE(verify(run.out, "", run, quiet).differences.empty());
  EXPECT_TRUE(verify(run.out, from, run, quiet).differences.empty());
}

}  // namespace
}  // namespace hfshard
