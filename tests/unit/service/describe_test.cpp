#include "service/describe.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Describe, NamesTheInnerChunksOfArraysThatHaveThem) {
  Catalog catalog;
  for (const char* name : {"plain", "sharded"}) {
    TensorInfo& array = catalog.tensors.emplace_back();
    array.name = name;
    array.dtype = DType::u8;
    array.shape = {8, 6};
    array.cut = static_cast<std::uint32_t>(catalog.cuts.size());
    catalog.cuts.emplace_back().grid = {{4, 6}, {4, 6}, {4, 6}};
  }
  catalog.cuts[1].grid.inner = {2, 3};
  const CheckpointInfo info = describe(catalog, "checkpoint", "");
  ASSERT_EQ(info.arrays.size(), 2U);
  EXPECT_FALSE(info.arrays[0].inner);
  EXPECT_EQ(info.arrays[1].inner, (Shape{2, 3}));
  EXPECT_EQ(info.arrays[1].chunk, (Shape{4, 6}));
  EXPECT_EQ(info.arrays[1].chunks, 2U);
}

}  // namespace
}  // namespace hfshard
