#include "run/engine/disk_space.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/plan/unread_arrays.h"
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

// A part of the output that no disk has.
TEST(DiskSpace, TheNeedAndWhatIsInStagingAreTold) {
  const TempDir dir;
  PlanParts parts(small_plan(copy_fixture("llama3.1", dir / "source")));
  constexpr std::uint64_t kVast = std::uint64_t{1} << 60;
  parts.catalog.objects = {{"state", 0, {0, kVast}, {}}};
  parts.model.objects = {0};
  const Plan plan = parts.build();
  const std::uint64_t whole = plan.totals().output_bytes;
  const Budget budget = make_budget(plan, to_output(dir / "out").max_memory_bytes, 2, 0);
  const auto refused = [&](std::uint64_t done_bytes) {
    return catch_error(
        [&] { check_output_disk(plan, dir / "", dir / "tree", budget, done_bytes); });
  };
  const Error first = refused(0);
  EXPECT_EQ(first.file(), dir / "");
  EXPECT_TRUE(first.sentence().starts_with("the output needs " + human_bytes(whole + kVast) +
                                           " more, and the disk has "))
      << first.sentence();
  EXPECT_TRUE(first.hint_text().ends_with(" or pass another output; hfshard has written nothing"))
      << first.hint_text();
  const Error later = refused(whole / 2);
  EXPECT_TRUE(
      later.hint_text().starts_with(human_bytes(whole / 2) + " are already in staging: free "))
      << later.hint_text();
  EXPECT_TRUE(later.hint_text().ends_with(" and repeat the command with --resume"));
  write_text(dir / "tree/d", std::string(whole, 'x'));
  EXPECT_TRUE(refused(0).hint_text().starts_with(human_bytes(whole) + " are already in staging"))
      << "of files without a record, too";
}

// One leaf of four bytes reads an array of an exabyte, which has to be unpacked.
class VastArray final : public UnreadArrays {
 public:
  VastArray() {
    add_compressed({8, 8}, {"vast"});
    catalog_.tensors[0].shape = {std::uint64_t{1} << 30, std::uint64_t{1} << 30};
    catalog_.tensors[0].dtype = DType::u8;
  }
};

Plan plan_of_vast_array() {
  CompiledModel model;
  model.rules = {"rule"};
  model.leaves = {{{"w", DType::u8, {4}}, {}, {}}};
  Transfer& transfer = model.transfers.emplace_back();
  transfer.sources = {0};
  transfer.source_shape = {std::uint64_t{1} << 30, std::uint64_t{1} << 30};
  transfer.map.digits = {{4, 1, 1}};
  auto made = make_model(std::make_shared<VastArray>(), std::move(model));
  const std::vector<std::uint32_t> arrays{0};
  CutLeaves cut;
  cut.split = split_arrays(*made, arrays, Limits{});
  cut.grids.push_back({{4}, {4}, {4}});
  cut.units.push_back(make_sliced_unit(made->leaves[0], made->leading_to(0), PieceForm{4}, {}));
  return {Layout(made, cut, {}, false), {}};
}

TEST(DiskSpace, UnpackedArraysNeedDiskUnlessTheyFitIntoMemory) {
  const TempDir dir;
  const Plan plan = plan_of_vast_array();
  ASSERT_EQ(plan.totals().unpacked_bytes, std::uint64_t{1} << 60);
  const Error error =
      catch_error([&] { check_output_disk(plan, dir / "", dir / "tree", Budget{}, 0); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_TRUE(error.sentence().starts_with(
      "the output needs 4 B more, and 1 EiB during the run for unpacked arrays, and"))
      << error.sentence();
  EXPECT_NE(error.hint_text().find("raise --max-memory so that unpacked arrays need no disk"),
            std::string::npos)
      << error.hint_text();
  Budget enough;
  enough.unpack_bytes = std::uint64_t{1} << 60;
  EXPECT_NO_THROW(check_output_disk(plan, dir / "", dir / "tree", enough, 0));
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

TEST(ScratchDisk, UnpackedArraysNeedTheirBytes) {
  const TempDir dir;
  EXPECT_NO_THROW(check_scratch_disk(dir / "nothing", 0)) << "no disk is needed";
  EXPECT_NO_THROW(check_scratch_disk(dir.path(), 1));
  const Error error = catch_error([&] { check_scratch_disk(dir.path(), std::uint64_t{1} << 60); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_TRUE(
      error.sentence().starts_with("unpacked arrays need 1 EiB during the run, and the disk has "))
      << error.sentence();
  EXPECT_EQ(error.hint_text(),
            "set TMPDIR to a directory with enough space, or raise --max-memory so that they need "
            "no disk");
}

// Returns a hint without the size of what is to be freed.
std::string without_size(const std::string& hint) {
  const std::size_t at = hint.find("free ");
  return at == std::string::npos ? hint : hint.substr(hint.find("iB", at) + 2);
}

TEST(DiskSpace, MoreMemoryIsAWayIfArraysAreUnpacked) {
  const TempDir dir;
  const auto hint = [&](const Plan& plan, std::uint64_t done_bytes) {
    const Error error =
        catch_error([&] { check_output_disk(plan, dir / "", dir / "tree", Budget{}, done_bytes); });
    return without_size(error.hint_text());
  };
  const std::string memory = ", raise --max-memory so that unpacked arrays need no disk,";
  EXPECT_EQ(hint(plan_of_vast_array(), 0),
            memory + " or pass another output; hfshard has written nothing");
  EXPECT_EQ(hint(plan_of_vast_array(), 2), memory + " and repeat the command with --resume");
  PlanParts parts(small_plan(copy_fixture("llama3.1", dir / "source")));
  parts.catalog.objects = {{"state", 0, {0, std::uint64_t{1} << 60}, {}}};
  parts.model.objects = {0};
  EXPECT_EQ(hint(parts.build(), 0), " or pass another output; hfshard has written nothing");
  EXPECT_EQ(hint(parts.build(), 2), " and repeat the command with --resume");
}

}  // namespace
}  // namespace hfshard
