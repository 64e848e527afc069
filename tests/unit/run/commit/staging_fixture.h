#pragma once

#include <gtest/gtest.h>

#include "run/commit/staging.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {

// Starts a conversion to `out` that fails halfway and leaves a staging directory.
inline void leave_halfway(const Plan& plan, const std::string& out) {
  int tiles = 0;
  const Hook hook = [&](Stage stage, const Tile&) {
    if (stage == Stage::commit && ++tiles == 10) throw std::runtime_error("planted");
  };
  EXPECT_THROW(convert(plan, to_output(out), hook), std::runtime_error);
  EXPECT_TRUE(exists(out_paths(out).staging));
}

inline PlanOptions options_of_step(std::uint64_t step) {
  PlanOptions options = small_options();
  options.step = step;
  return options;
}

inline Error refused(const Plan& plan, const RunOptions& options) {
  return catch_error([&] { convert(plan, options); });
}

class StagingTest : public testing::Test {
 protected:
  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

}  // namespace hfshard
