// Fails the first, second, third, ... system call of a conversion until it succeeds. After each the
// old output stands, or the new one, or none; never a mixture. Resuming then gives the new one.

#include <cerrno>
#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include "run/commit/recover.h"
#include "support/syscall_faults.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Tree = std::map<std::string, std::string>;

constexpr int kMaxCalls = 2000;
constexpr int kForEver = 1'000'000;

class SyscallFaultTest : public testing::Test {
 protected:
  SyscallFaultTest() {
    convert(plan_, to_output(dir_ / "new"));
    new_tree_ = tree_of(dir_ / "new");
    convert(old_plan_, to_output(dir_ / "old"));
    old_tree_ = tree_of(dir_ / "old");
  }

  // One data file, one chunk per leaf: few calls, all kinds of them.
  Plan plan_with(bool checksum) const {
    PlanOptions options;
    options.encoding.checksum = checksum;
    return small_plan(source_, options, {});
  }

  // Whether the conversion comes to its end.
  bool finishes(const RunOptions& options) {
    try {
      convert(plan_, options);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.format();
      return false;
    }
    return true;
  }

  RunOptions overwriting() const {
    RunOptions options = to_output(out_);
    options.overwrite = true;
    return options;
  }

  void expect_new() const {
    EXPECT_EQ(differing(tree_of(out_), new_tree_), "");
    EXPECT_FALSE(exists(out_paths(out_).staging));
  }

  TempDir dir_;
  std::string out_ = dir_ / "out";
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  Plan plan_ = plan_with(true);
  Plan old_plan_ = plan_with(false);
  Tree new_tree_;
  Tree old_tree_;
};

TEST_F(SyscallFaultTest, NothingOrTheNewOutputStands) {
  bool fired = true;
  int failures = 0;
  for (int nth = 1; fired && nth < kMaxCalls; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    bool finished = false;
    {
      const SyscallFault fault("", nth, ENOSPC);
      finished = finishes(to_output(out_));
      fired = fault.fired();
    }
    failures += !finished;
    EXPECT_TRUE(exists(out_) ? tree_of(out_) == new_tree_ : !finished);
    RunOptions again = to_output(out_);
    again.resume = true;
    convert(plan_, again);
    expect_new();
    remove_tree(out_);
    if (HasFailure()) return;
  }
  EXPECT_FALSE(fired);
  EXPECT_GT(failures, 50);
}

// From the N-th call on nothing works any more, as when the process dies there. With --overwrite
// the old step is there until the new one replaces it at once; the same command then finishes.
TEST_F(SyscallFaultTest, TheOldOrTheNewOutputStandsWhenOverwriting) {
  bool fired = true;
  int failures = 0;
  for (int nth = 1; fired && nth < kMaxCalls; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    convert(old_plan_, to_output(out_));
    {
      const SyscallFault fault("", nth, EIO, kForEver);
      failures += !finishes(overwriting());
      fired = fault.fired();
    }
    const Tree seen = tree_of(out_);
    EXPECT_TRUE(seen == new_tree_ || seen == old_tree_) << "a mixture was published";
    convert(plan_, overwriting());
    expect_new();
    remove_tree(out_);
    if (HasFailure()) return;
  }
  EXPECT_FALSE(fired);
  EXPECT_GT(failures, 50);
}

int g_renames_left = 0;

// A file system that cannot exchange, and a process that dies at its N-th rename.
int dies_at_rename(const char* call, const char*) {
  if (std::string_view(call) == "renameat2") return EINVAL;
  if (std::string_view(call) == "rename") --g_renames_left;
  return g_renames_left > 0 ? 0 : EIO;
}

TEST_F(SyscallFaultTest, AnExchangeByThreeRenamesLosesNothing) {
  bool aside = false;
  for (int nth = 1; nth < kMaxCalls; ++nth) {
    SCOPED_TRACE("rename " + std::to_string(nth));
    convert(old_plan_, to_output(out_));
    g_renames_left = nth;
    sys::set_fault_hook(&dies_at_rename);
    const bool finished = finishes(overwriting());
    sys::set_fault_hook(nullptr);
    if (!exists(join_path(out_, "0"))) {
      aside = true;
      const OutPaths paths = out_paths(out_);
      EXPECT_EQ(recover(paths), StagingUse::go_on);
      EXPECT_EQ(differing(tree_of(out_), old_tree_), "");
    }
    const Tree seen = tree_of(out_);
    EXPECT_TRUE(seen == new_tree_ || seen == old_tree_);
    convert(plan_, overwriting());
    expect_new();
    remove_tree(out_);
    if (finished || HasFailure()) break;
  }
  EXPECT_TRUE(aside) << "no run died between the renames";
}

}  // namespace
}  // namespace hfshard
