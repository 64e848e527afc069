#include "ops/move.h"

#include <limits>

#include <gtest/gtest.h>

#include "support/sizes.h"
#include "unit/ops/reference.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;
using reference::random_bytes;
using reference::random_rule;
using reference::Rule;

constexpr std::uint64_t kMoveSeed = 31337;
constexpr std::size_t kGuard = 64;

/// Moves between unaligned buffers. Compares everything, including bytes that must stay unchanged.
void expect_moved(const IndexMap& map, std::size_t element_bytes, std::uint64_t src_elements,
                  std::uint64_t dst_elements, Random& random) {
  const std::size_t src_skew = pick(random, 0, 17);
  const std::size_t dst_skew = pick(random, 0, 65);
  const std::vector<std::byte> src = random_bytes(random, src_skew + src_elements * element_bytes);
  std::vector<std::byte> dst =
      random_bytes(random, dst_skew + dst_elements * element_bytes + kGuard);
  std::vector<std::byte> expected = dst;
  reference::move_elements(map, element_bytes, src.data() + src_skew, expected.data() + dst_skew);
  move_elements(map, element_bytes, std::span(src).subspan(src_skew),
                std::span(dst).subspan(dst_skew, dst_elements * element_bytes));
  ASSERT_TRUE(dst == expected) << "element_bytes " << element_bytes;
}

TEST(MoveElements, AgreesWithTheReferenceOnRandomRules) {
  Random random(kMoveSeed);
  for (int i = 0; i < cases(1500); ++i) {
    const Rule rule = random_rule(random);
    for (const std::size_t bytes : {1U, 2U, 4U, 8U, 16U}) {
      expect_moved(rule.map, bytes, rule.src_shape.numel(), rule.dst_shape.numel(), random);
      expect_moved(inverse(rule.map), bytes, rule.dst_shape.numel(), rule.src_shape.numel(),
                   random);
    }
  }
}

TEST(MoveElements, AgreesWithTheReferenceOnLargerDims) {
  Random random(kMoveSeed + 1);
  for (int i = 0; i < cases(60); ++i) {
    const Rule rule = random_rule(random, 3, 60);
    for (const std::size_t bytes : {1U, 2U, 4U, 8U}) {
      expect_moved(rule.map, bytes, rule.src_shape.numel(), rule.dst_shape.numel(), random);
    }
  }
}

TEST(MoveElements, TransposesOfAllRemainders) {
  Random random(kMoveSeed + 2);
  const std::uint64_t sizes[] = {1,  2,  3,  4,  7,  8,  9,   15,  16,
                                 17, 31, 33, 63, 64, 65, 127, 130, 259};
  for (const std::uint64_t rows : sizes) {
    for (const std::uint64_t columns : sizes) {
      const std::uint64_t src_pitch = columns + rows % 3;
      const std::uint64_t dst_pitch = rows + columns % 5;
      const IndexMap map{0,
                         0,
                         {{columns, 1, static_cast<std::int64_t>(dst_pitch)},
                          {rows, static_cast<std::int64_t>(src_pitch), 1}}};
      for (const std::size_t bytes : {1U, 2U, 4U}) {
        expect_moved(map, bytes, rows * src_pitch, columns * dst_pitch, random);
      }
    }
  }
}

TEST(MoveElements, LargeTransposesThatStreamPastTheCache) {
  Random random(kMoveSeed + 3);
  for (const std::size_t bytes : {1U, 2U, 4U}) {
    for (const std::uint64_t pitch : {640U, 643U}) {
      const IndexMap map{5, 3, {{601, 1, static_cast<std::int64_t>(pitch)}, {613, 607, 1}}};
      expect_moved(map, bytes, 5 + 613 * 607, 3 + 601 * pitch, random);
    }
  }
}

TEST(MoveElements, FormsOfTheMappingLanguage) {
  Random random(kMoveSeed + 4);
  struct Form {
    const char* name;
    IndexMap map;
    std::uint64_t src_elements;
    std::uint64_t dst_elements;
  };
  // D = 26, H = 4, h = 10, c = 5, t = 2, E = 3, F = 14, K = 2, r = 3, X = 6, C = 3, p = 5, q = 7.
  const Form forms[] = {
      {"[(H h) D] -> [D H h]", {0, 0, {{26, 1, 40}, {4, 260, 10}, {10, 26, 1}}}, 1040, 1040},
      {"[D (H h)] -> [H h D]", {0, 0, {{4, 10, 260}, {10, 1, 26}, {26, 40, 1}}}, 1040, 1040},
      {"[2/3] -> [0/1]", {2, 0, {}}, 3, 1},
      {"[D] -> [D]", {0, 0, {{26, 1, 1}}}, 26, 26},
      {"[X C p q] -> [p q C X]",
       {0, 0, {{5, 7, 126}, {7, 1, 18}, {3, 35, 6}, {6, 105, 1}}},
       630,
       630},
      {"[(H t c) D] -> [D H (c t)]",
       {0, 0, {{26, 1, 40}, {4, 260, 10}, {5, 26, 2}, {2, 130, 1}}},
       1040,
       1040},
      {"[E D (F 1/2)] -> [E D F]", {1, 0, {{3, 728, 364}, {26, 28, 14}, {14, 2, 1}}}, 2184, 1092},
      {"[E F@F:2*F D] -> [E D F]", {364, 0, {{3, 728, 364}, {26, 1, 14}, {14, 26, 1}}}, 2184, 1092},
      {"[(K (r h)@0:(r+2)*h) D] -> [D (K r) h]",
       {0, 0, {{26, 1, 60}, {2, 1300, 30}, {3, 260, 10}, {10, 26, 1}}},
       2600,
       1560},
      {"[V D] -> [V@0:Vm D]", {0, 0, {{22, 26, 26}, {26, 1, 1}}}, 572, 650},
      {"[(K h) D] -> [D (K r) h], repeat r",
       {0, 0, {{26, 1, 60}, {2, 260, 30}, {3, 0, 10}, {10, 26, 1}}},
       520,
       1560},
  };
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    for (const std::size_t bytes : {1U, 2U, 4U, 8U, 16U}) {
      expect_moved(form.map, bytes, form.src_elements, form.dst_elements, random);
    }
  }
}

TEST(MoveElements, RunsOfEveryShortLength) {
  Random random(kMoveSeed + 5);
  for (std::uint64_t run = 1; run <= 140; ++run) {
    const auto pitch = static_cast<std::int64_t>(run + 3);
    const IndexMap map{1, 2, {{5, 7 * pitch, pitch}, {7, pitch, 5 * pitch}, {run, 1, 1}}};
    const std::uint64_t elements = 2 + 35 * static_cast<std::uint64_t>(pitch);
    for (const std::size_t bytes : {1U, 2U, 4U}) {
      expect_moved(map, bytes, elements, elements, random);
    }
  }
}

TEST(MoveElements, EmptyMapsTouchNothing) {
  std::vector<std::byte> nothing;
  move_elements(IndexMap{9, 9, {{0, 1, 1}, {3, 1, 1}}}, 2, nothing, nothing);
}

TEST(MoveElements, NegativeStepsWalkBackwards) {
  Random random(kMoveSeed + 6);
  expect_moved(IndexMap{11, 0, {{3, -4, 1}, {4, -1, 3}}}, 2, 12, 12, random);
  expect_moved(IndexMap{0, 11, {{12, 1, -1}}}, 4, 12, 12, random);
}

TEST(MoveElements, OffsetsOutsideTheBuffersAreBugs) {
  std::vector<std::byte> src(24);
  std::vector<std::byte> dst(24);
  const IndexMap bad[] = {
      {0, 0, {{13, 1, 1}}},
      {1, 0, {{12, 1, 1}}},
      {0, 1, {{12, 1, 1}}},
      {0, 0, {{3, 1, 4}, {4, 4, 1}}},
      {1, 0, {{3, -1, 1}}},
      {0, 0, {{2, 1, std::int64_t{1} << 62}}},
      {0, 0, {{4, 1, std::int64_t{1} << 62}}},
      {~std::uint64_t{0}, 0, {}},
      {0, 0, {{std::uint64_t{1} << 32, 1, 0}, {std::uint64_t{1} << 32, 0, 1}}},
      {0, 0, {{2, std::numeric_limits<std::int64_t>::min(), 1}}},
  };
  for (const IndexMap& map : bad) {
    try {
      move_elements(map, 2, src, dst);
      ADD_FAILURE() << "moved out of range from " << map.src_base << " to " << map.dst_base;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
    }
  }
  EXPECT_THROW(move_elements(IndexMap{}, 3, src, dst), Error);
}

}  // namespace
}  // namespace hfshard
