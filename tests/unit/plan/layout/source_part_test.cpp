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

}  // namespace
}  // namespace hfshard
