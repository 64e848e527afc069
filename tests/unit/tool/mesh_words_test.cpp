#include "tool/mesh_words.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(MeshWords, AnAxisIsANameAndASize) {
  for (const char* axis : {"fsdp=8", "tensor=1", "a_b=16"}) EXPECT_TRUE(is_axis(axis)) << axis;
  for (const char* other :
       {"", "fsdp", "fsdp=", "=8", "fsdp=8x", "fsdp=-1", "FSDP=8", "fs dp=8", "fsdp=4=2"}) {
    EXPECT_FALSE(is_axis(other)) << other;
  }
}

TEST(MeshWords, AMeshIsAListOfAxes) {
  EXPECT_TRUE(is_mesh("fsdp=8"));
  EXPECT_TRUE(is_mesh("fsdp=8,tensor=2"));
  for (const char* other : {"", "fsdp=8,", "fsdp=8,tensor", "fsdp=8,tensor=", "fsdp=8;tensor=2"})
    EXPECT_FALSE(is_mesh(other)) << other;
}

}  // namespace
}  // namespace hfshard
