#include <cstdint>

#include <gtest/gtest.h>

#include "unit/plan/compile/ways.h"

namespace hfshard {
namespace {

TEST(CompileThrough, TensorsFromDifferentPlacesOfTheirArraysAreTakenOneByOne) {
  struct Place {
    const char* what;
    IndexMap map;
    Shape array;
    IndexMap rest;
  };
  for (const Place& place :
       {Place{"every other element", {0, 0, {{2, 2, 1}}}, {4}, {1, 0, {{2, 2, 1}}}},
        Place{"the last elements", {2, 0, {{2, 1, 1}}}, {4}, {0, 0, {{2, 1, 1}}}},
        Place{"an array of another shape", {0, 0, {{2, 1, 1}}}, {5}, {2, 0, {{3, 1, 1}}}}}) {
    SCOPED_TRACE(place.what);
    HandMade made;
    made.tree.remove("z").get("x").shape = {4};
    made.tree.get("y").shape = place.array;
    for (const std::uint32_t i : {0U, 1U}) {
      made.tensor("t", {2});
      made.part(i, i, 0);
    }
    made.back.transfers[0].map = {0, 0, {{2, 1, 1}}};
    made.drop(0, {2, 0, {{2, 1, 1}}});
    made.back.transfers[1].map = place.map;
    made.drop(1, place.rest);
    made.onward(2, 2);
    const CompiledModel through = made.through();
    ASSERT_EQ(through.transfers.size(), 2U);
    EXPECT_TRUE(made.is_right(through));
    EXPECT_EQ(through.transfers[0].source_shape, (Shape{4}));
    EXPECT_EQ(through.transfers[1].source_shape, place.array);
  }
}

TEST(CompileThrough, PlacesAtUnevenDistancesInOneArrayAreNoLoop) {
  for (const std::uint64_t last : {4U, 6U}) {
    HandMade made;
    made.tree.remove("y").remove("z").get("x").shape = {8};
    for (const std::uint32_t i : {0U, 1U, 2U}) {
      made.tensor("t", {2});
      made.part(i, 0, 0);
      made.back.transfers[i].map = {i == 2 ? last : 2 * std::uint64_t{i}, 0, {{2, 1, 1}}};
    }
    made.drop(0, {10 - last, 0, {{2, 1, 1}}});
    made.onward(3, 2);
    const CompiledModel through = made.through();
    EXPECT_EQ(through.transfers.size(), last == 4 ? 1U : 3U);
    EXPECT_TRUE(made.is_right(through));
  }
}

TEST(CompileThrough, OnlyTheTensorThatIsACopyIsTakenAsOne) {
  HandMade made;
  made.tree.remove("z");
  for (const std::uint32_t i : {0U, 1U}) {
    made.tensor("t", {2});
    made.part(i, i, 0);
  }
  made.back.transfers[1].copy = true;
  made.drop(1, {0, 0, {{2, 1, 1}}});
  made.onward(2, 2);
  const CompiledModel through = made.through();
  ASSERT_EQ(through.transfers.size(), 2U);
  EXPECT_FALSE(through.transfers[0].copy);
  EXPECT_TRUE(through.transfers[1].copy);
}

}  // namespace
}  // namespace hfshard
