#include "plan/compile/alike.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

std::vector<ResolvedLoop> loops_of(const std::vector<std::uint64_t>& extents,
                                   const std::vector<std::uint64_t>& steps) {
  std::vector<ResolvedLoop> out;
  for (std::size_t k = 0; k < extents.size(); ++k) out.push_back({"", extents[k], steps[k]});
  return out;
}

TEST(AlikeSources, OneKindIsOneBoxOfAllLoops) {
  const auto loops = loops_of({3, 4}, {100, 10});
  const auto boxes = alike_sources(loops, std::vector<std::uint32_t>(12, 5));
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(boxes[0].count, 12U);
  ASSERT_EQ(boxes[0].loops.size(), 2U);
  EXPECT_EQ(boxes[0].loops[0].extent, 3U);
  EXPECT_EQ(boxes[0].loops[1].dst_step, 10);
  EXPECT_EQ(alike_sources({}, std::vector<std::uint32_t>{1}).size(), 1U) << "a rule without loops";
}

TEST(AlikeSources, RunsOfWholeLoopsStayTogether) {
  const auto loops = loops_of({4, 2}, {100, 10});
  const auto boxes = alike_sources(loops, std::vector<std::uint32_t>{0, 0, 0, 0, 0, 1, 1, 1});
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[0].count, 4U);
  EXPECT_EQ(boxes[1].offset, 200U);
  EXPECT_EQ(boxes[1].count, 1U);
  EXPECT_EQ(boxes[2].offset, 210U);
  EXPECT_EQ(boxes[3].offset, 300U);
  EXPECT_EQ(boxes[3].count, 2U);
}

// Every source is in one box, at its place in the leaf, with sources of its kind.
TEST(AlikeSources, EverySourceKeepsItsPlace) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<std::uint64_t> extents{1 + random() % 5, 1 + random() % 4, 1 + random() % 3};
    const std::vector<std::uint64_t> steps{1000, 7, 50};
    const auto loops = loops_of(extents, steps);
    std::vector<std::uint32_t> kinds(extents[0] * extents[1] * extents[2]);
    for (std::uint32_t& kind : kinds) kind = random() % 4 == 0 ? 1 : 0;
    std::uint64_t next = 0;
    for (const AlikeSources& box : alike_sources(loops, kinds)) {
      ASSERT_EQ(box.first, next);
      next += box.count;
      for (std::uint64_t i = 0; i < box.count; ++i) {
        ASSERT_EQ(kinds[box.first + i], kinds[box.first]);
        std::uint64_t place = box.offset;
        std::uint64_t rest = i;
        for (std::size_t k = box.loops.size(); k-- > 0;) {
          place += rest % box.loops[k].extent * static_cast<std::uint64_t>(box.loops[k].dst_step);
          rest /= box.loops[k].extent;
        }
        const std::uint64_t number = box.first + i;
        const std::uint64_t wanted = number / (extents[1] * extents[2]) * steps[0] +
                                     number / extents[2] % extents[1] * steps[1] +
                                     number % extents[2] * steps[2];
        ASSERT_EQ(place, wanted);
      }
    }
    ASSERT_EQ(next, kinds.size());
  }
}

}  // namespace
}  // namespace hfshard
