#include "plan/layout/source_part.h"

#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

using Sources = std::vector<std::uint64_t>;

// Returns the sources of an element.
Sources sources_at(const Transfer& transfer, std::uint64_t element) {
  Leaf leaf;
  leaf.shape = {6};
  SourcePartCursor cursor(transfer, transfer.map, leaf, {{element}, {1}});
  Sources out;
  const SourcePart* part = cursor.next();
  for (; part != nullptr && out.size() < 9; part = cursor.next()) out.push_back(part->source);
  return out;
}

TEST(SourceParts, ABoxNextToATransferHasNoSource) {
  Transfer scalars;  // elements 2 and 3 of the leaf
  scalars.sources = {0, 1};
  scalars.loops = {{2, 1}};
  scalars.map.dst_base = 2;
  EXPECT_EQ(sources_at(scalars, 1), Sources());
  EXPECT_EQ(sources_at(scalars, 2), (Sources{0}));
  EXPECT_EQ(sources_at(scalars, 3), (Sources{1}));
  EXPECT_EQ(sources_at(scalars, 4), Sources());
}

TEST(SourceParts, EachElementOfAnAxisHasTheSourceOfItsPart) {
  Transfer halves;
  halves.sources = {0, 1};
  halves.source_shape = {3};
  halves.loops = {{2, 3}};
  halves.map.digits = {{3, 1, 1}};
  for (const std::uint64_t element : {0U, 1U, 2U, 3U, 4U, 5U})
    EXPECT_EQ(sources_at(halves, element), (Sources{element / 3})) << element;
}

// Returns the sources of a box, in the order in which they are read.
Sources sources_in(const Transfer& transfer, const Shape& shape, const Box& box) {
  Leaf leaf;
  leaf.shape = shape;
  SourcePartCursor cursor(transfer, transfer.map, leaf, box);
  Sources out;
  const SourcePart* part = cursor.next();
  for (; part != nullptr && out.size() < 9; part = cursor.next()) out.push_back(part->source);
  return out;
}

// Two layers of three experts of two elements.
TEST(SourceParts, TheLastLoopIsTheFastest) {
  Transfer experts;
  experts.sources = {0, 1, 2, 3, 4, 5};
  experts.source_shape = {2};
  experts.loops = {{2, 6}, {3, 2}};
  experts.map.digits = {{2, 1, 1}};
  const Shape shape{2, 3, 2};
  EXPECT_EQ(sources_in(experts, shape, {{0, 0, 0}, {2, 3, 2}}), (Sources{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(sources_in(experts, shape, {{1, 0, 0}, {1, 3, 2}}), (Sources{3, 4, 5}));
  EXPECT_EQ(sources_in(experts, shape, {{0, 1, 1}, {2, 1, 1}}), (Sources{1, 4}));
  EXPECT_EQ(sources_in(experts, shape, {{1, 1, 0}, {1, 2, 1}}), (Sources{4, 5}));
}

// Two groups of two sources of two elements, all along one axis.
TEST(SourceParts, LoopsAlongOneAxisReachAsFarAsTheLoopsInsideThem) {
  Transfer groups;
  groups.sources = {0, 1, 2, 3};
  groups.source_shape = {2};
  groups.loops = {{2, 4}, {2, 2}};
  groups.map.digits = {{2, 1, 1}};
  for (const std::uint64_t element : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U})
    EXPECT_EQ(sources_in(groups, {8}, {{element}, {1}}), (Sources{element / 2})) << element;
  EXPECT_EQ(sources_in(groups, {8}, {{3}, {3}}), (Sources{1, 2}));
}

// The loops take the elements of one axis in turn.
TEST(SourceParts, InterleavedSourcesAreFoundByTheirElement) {
  Transfer pairs;
  pairs.sources = {0, 1};
  pairs.source_shape = {3};
  pairs.loops = {{2, 1}};
  pairs.map.digits = {{3, 1, 2}};
  for (const std::uint64_t element : {0U, 1U, 2U, 3U, 4U, 5U})
    EXPECT_EQ(sources_at(pairs, element), (Sources{element % 2})) << element;
}

}  // namespace
}  // namespace hfshard
