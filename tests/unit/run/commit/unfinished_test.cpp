#include "run/commit/unfinished.h"

#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST(Unfinished, WorkersAreListedByTheirNumbers) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.workers = 11;
  for (const std::uint32_t worker : {10U, 2U, 2U}) {  // one was restarted
    options.worker = worker;
    convert(plan, options);
  }
  for (const char* other :
       {"journal.x-11.1", "journal.4", "journal.-12.1", "journal.4.1", "journal.5-x.1"})
    write_text(join_path(out_paths(options.out).staging, other), "");
  const auto found = find_unfinished(options.out);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 11U);
  EXPECT_EQ(found->shares, (std::vector<std::uint32_t>{2, 10}));
  const std::string sentence = unfinished_error(*found).sentence();
  EXPECT_TRUE(sentence.ends_with(", 2 of 11 workers have begun (2, 10)")) << sentence;
}

TEST(Unfinished, ADamagedRecordIsStillAnUnfinishedRun) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.workers = 2;
  convert(plan, options);
  const std::string record = join_path(out_paths(options.out).staging, kPlanRecordName);
  {
    const SyscallFault fault("pread", 1, EIO);
    EXPECT_EQ(catch_error([&] { find_unfinished(options.out); }).code(), ErrorCode::io);
  }
  write_text(record, "{");
  const auto found = find_unfinished(options.out);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 2U);
  EXPECT_EQ(found->source, "");
}

TEST(Unfinished, TheRootDirectoryIsNoOutput) { EXPECT_FALSE(find_unfinished("/")); }

}  // namespace
}  // namespace hfshard
