// Fails the first, second, third, ... system call of a conversion until it succeeds. After each the
// old output stands, or the new one, or none; never a mixture. Resuming then gives the new one.

#include <cerrno>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "support/syscall_faults.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Tree = std::map<std::string, std::string>;

constexpr int kMostCalls = 2000;

class SyscallFaultTest : public testing::TestWithParam<int> {
 protected:
  SyscallFaultTest() {
    PlanOptions options = small_options();
    Limits limits = small_limits();
    limits.file_min_bytes = limits.file_max_bytes = std::uint64_t{1} << 20;
    limits.commit_bytes = std::uint64_t{1} << 20;
    plan_ = small_plan(source_, options, limits);
    options.checksum = false;
    old_plan_ = small_plan(source_, options, limits);
    convert(plan_, to_output(dir_ / "new"));
    new_tree_ = tree_of(dir_ / "new");
  }

  // Whether the conversion came to its end although its N-th call failed, or N is past its last.
  bool finishes_with_fault(const RunOptions& options, int nth, bool& fired) {
    const SyscallFault fault("", nth, GetParam());
    bool finished = true;
    try {
      convert(plan_, options);
    } catch (const Error& error) {
      finished = false;
      EXPECT_NE(error.code(), ErrorCode::internal) << error.format();
    }
    fired = fault.fired();
    return finished;
  }

  // The state of OUT after a failure, then what resuming makes of it.
  void expect_old_or_new(const std::string& out, const Tree& old_tree, bool finished) {
    const Tree seen = exists(out) ? tree_of(out) : Tree();
    EXPECT_TRUE(seen == new_tree_ || seen == old_tree) << "a mixture was published";
    if (finished) {
      EXPECT_EQ(differing(seen, new_tree_), "");
    }
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  Plan plan_;
  Plan old_plan_;
  Tree new_tree_;
};

TEST_P(SyscallFaultTest, NothingOrTheNewOutputStands) {
  bool fired = true;
  int failures = 0;
  int nth = 1;
  for (; fired && nth < kMostCalls; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    const std::string out = dir_ / "out";
    const bool finished = finishes_with_fault(to_output(out), nth, fired);
    failures += !finished;
    expect_old_or_new(out, {}, finished);
    RunOptions again = to_output(out);
    again.resume = true;
    convert(plan_, again);
    EXPECT_EQ(differing(tree_of(out), new_tree_), "");
    EXPECT_FALSE(exists(out_paths(out, 0).staging));
    remove_tree(out);
    if (HasFailure()) return;
  }
  EXPECT_FALSE(fired);
  EXPECT_GT(failures, 50);
}

// With --overwrite the old step is there until the new one replaces it at once.
TEST_P(SyscallFaultTest, TheOldOrTheNewOutputStandsWhenOverwriting) {
  bool fired = true;
  int failures = 0;
  for (int nth = 1; fired && nth < kMostCalls; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    const std::string out = dir_ / "out";
    convert(old_plan_, to_output(out));
    const Tree old_tree = tree_of(out);
    RunOptions options = to_output(out);
    options.overwrite = true;
    const bool finished = finishes_with_fault(options, nth, fired);
    failures += !finished;
    expect_old_or_new(out, old_tree, finished);
    convert(plan_, options);
    EXPECT_EQ(differing(tree_of(out), new_tree_), "");
    remove_tree(out);
    if (HasFailure()) return;
  }
  EXPECT_FALSE(fired);
  EXPECT_GT(failures, 50);
}

INSTANTIATE_TEST_SUITE_P(Errors, SyscallFaultTest, testing::Values(EIO, ENOSPC),
                         [](const auto& one) { return one.param == EIO ? "EIO" : "ENOSPC"; });

}  // namespace
}  // namespace hfshard
