#include <algorithm>

#include <gtest/gtest.h>

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(Targets, SayWhatTheirFilesHold) {
  const std::vector<Target> all = targets();
  const auto named = [&](const char* name) { return *std::ranges::find(all, name, &Target::name); };
  EXPECT_TRUE(named("safetensors").whole_arrays);
  EXPECT_FALSE(named("safetensors").splits_dims);
  EXPECT_FALSE(named("dcp").whole_arrays);
  EXPECT_TRUE(named("dcp").splits_dims);
  EXPECT_FALSE(named("orbax").whole_arrays);
}

}  // namespace
}  // namespace hfshard
