// Unpacking an array can take long, and ends when a stop is asked for.

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

#include "run/engine/unpacked.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/run/run_support.h"
#include "unit/run/way_back.h"

namespace hfshard {
namespace {

TEST(UnpackedArraysOfAPlan, AreNotUnpackedOnceAStopIsAskedFor) {
  const TempDir dir;
  const Plan plan = way_back(dir, copy_fixture("qwen3", dir / "source"));
  UnitRef first;
  while (unpacked_by(plan, first).empty()) first = plan.next(first);
  const std::vector<std::uint32_t> wanted = unpacked_by(plan, first);
  EXPECT_LT(wanted.back(), plan.unpacked().size());
  std::atomic<bool> stop = false;
  RunOptions options = to_output(dir / "back");
  options.stop = &stop;
  OpenSources sources;
  Arena arena(64 * kMiB);
  UnpackedArrays unpacked(plan, dir.path(), 0, sources, options);
  EXPECT_EQ(sources.size(), plan.unpacked().size()) << "each is whole";
  EXPECT_EQ(unpacked.make_ready(first, arena).size(), wanted.size());
  stop = true;
  UnitRef other = first;
  while (unpacked_by(plan, other).empty() || unpacked_by(plan, other) == wanted)
    other = plan.next(other);
  const Error error = catch_error([&] { unpacked.make_ready(other, arena); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(error.file(), options.out);
  stop = false;
  EXPECT_EQ(unpacked.make_ready(other, arena).size(), unpacked_by(plan, other).size());
}

}  // namespace
}  // namespace hfshard
