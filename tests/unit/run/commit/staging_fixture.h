#pragma once

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/owned_directory.h"
#include "bytes/local/syscalls.h"
#include "run/commit/recover.h"
#include "run/commit/staging.h"
#include "support/catch_error.h"
#include "unit/run/plan_parts.h"
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

// `clean` removes the directory after a run opens its lock, and before it holds it.
inline std::string g_removed_meanwhile;
inline int remove_at_flock(const char* call, const char* /*path*/) {
  if (std::string_view(call) == "flock" && !g_removed_meanwhile.empty())
    std::filesystem::remove_all(std::exchange(g_removed_meanwhile, {}));
  return 0;
}

// An equal run publishes after this one checks OUT, and before it holds its lock.
inline std::string g_winner;
inline std::string g_winners_out;
inline int publish_at_flock(const char* call, const char* /*path*/) {
  if (std::string_view(call) == "flock" && !g_winner.empty())
    std::filesystem::rename(std::exchange(g_winner, {}), g_winners_out);
  return 0;
}

}  // namespace hfshard
