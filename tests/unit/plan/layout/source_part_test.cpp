#include "plan/layout/source_part.h"

#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

// Two scalars become elements 2 and 3 of a leaf.
std::vector<std::uint64_t> sources_at(std::uint64_t element) {
  Leaf leaf;
  leaf.shape = {6};
  Transfer transfer;
  transfer.sources = {0, 1};
  transfer.loops = {{2, 1}};
  transfer.map.dst_base = 2;
  SourcePartCursor cursor(transfer, transfer.map, leaf, {{element}, {1}});
  std::vector<std::uint64_t> out;
  const SourcePart* part = cursor.next();
  for (; part != nullptr && out.size() < 9; part = cursor.next()) out.push_back(part->source);
  return out;
}

TEST(SourceParts, ABoxNextToATransferHasNoSource) {
  using Sources = std::vector<std::uint64_t>;
  EXPECT_EQ(sources_at(1), Sources());
  EXPECT_EQ(sources_at(2), (Sources{0}));
  EXPECT_EQ(sources_at(3), (Sources{1}));
  EXPECT_EQ(sources_at(4), Sources());
}

}  // namespace
}  // namespace hfshard
