#include "run/engine/disk_space.h"

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"
#include "unit/run/way_back.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(DiskSpace, WhatIsHeldIsWhatFilesTake) {
  const TempDir dir;
  EXPECT_EQ(staged_disk_bytes(dir / "tree"), 0U);
  write_text(dir / "tree/a/b", std::string(kMiB, 'x'));
  write_text(dir / "tree/c", std::string(2 * kMiB, 'x'));
  EXPECT_GE(staged_disk_bytes(dir / "tree"), 3 * kMiB);
  EXPECT_LE(staged_disk_bytes(dir / "tree"), 4 * kMiB);
  write_text(dir / "tree/holes", "");
  std::filesystem::resize_file(dir / "tree/holes", 100 * kMiB);
  EXPECT_LE(staged_disk_bytes(dir / "tree"), 4 * kMiB);
  write_text(dir / "source", std::string(8 * kMiB, 'x'));
  std::filesystem::create_hard_link(dir / "source", dir / "tree/hard");
  std::filesystem::create_symlink(dir / "source", dir / "tree/symbolic");
  std::filesystem::create_directory_symlink(dir / "", dir / "tree/loop");
  EXPECT_LE(staged_disk_bytes(dir / "tree"), 4 * kMiB);
}

TEST(DiskSpace, WhatIsHeldIsNotNeededAgain) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("llama3.1", dir / "source"));
  const Budget budget = make_budget(plan, to_output(dir / "out").max_memory_bytes, 2, 0);
  EXPECT_NO_THROW(check_output_disk(plan, dir / "", dir / "tree", budget, 0));
  EXPECT_NO_THROW(check_output_disk(plan, dir / "", dir / "tree", budget, UINT64_MAX));
}

TEST(DiskSpace, ObjectsNeedDiskToo) {
  const TempDir dir;
  PlanParts parts(small_plan(copy_fixture("llama3.1", dir / "source")));
  parts.catalog.objects = {{"state", 0, {0, std::uint64_t{1} << 60}, {}}};
  parts.model.objects = {0};
  const Plan plan = parts.build();
  const Budget budget = make_budget(plan, to_output(dir / "out").max_memory_bytes, 2, 0);
  const Error error =
      catch_error([&] { check_output_disk(plan, dir / "", dir / "tree", budget, 0); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
}

// The caller can fill the spare disk during the run.
TEST(DiskSpace, TheSpareDiskLeavesRoomForUnpackedArrays) {
  const TempDir dir;
  const Plan plan = way_back(dir, copy_fixture("qwen3", dir / "source"));
  Budget budget;
  const auto free_with = [&](std::uint64_t memory_bytes) {
    budget.unpack_bytes = memory_bytes;
    return check_output_disk(plan, dir / "", dir / "tree", budget, 0);
  };
  const std::uint64_t unpacked = plan.totals().unpacked_bytes;
  ASSERT_GT(unpacked, 0U);
  std::uint64_t before = 0;
  std::uint64_t with_files = 0;
  do {  // other programs use the disk too
    before = free_with(unpacked);
    with_files = free_with(0);
  } while (free_with(unpacked) != before);
  EXPECT_EQ(before - with_files, unpacked);
}

}  // namespace
}  // namespace hfshard
