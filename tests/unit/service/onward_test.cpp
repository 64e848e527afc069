#include "service/onward.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Onward, TheWayToTheModelHasTheOptionsThatConcernIt) {
  MappingOptions asked;
  asked.scheme = "torchtitan";
  asked.dialect = "meta";
  asked.stacked = false;
  asked.keep_dtype = true;
  asked.dtype = DType::f32;
  asked.options = {{"vocab", "20"}};
  asked.files = {{"mine", "mine.json", "{}"}};
  asked.include = {"a*"};
  asked.drop = {"b*"};
  asked.untie = true;
  const MappingOptions model = to_model(asked);
  EXPECT_EQ(model.scheme, "hf");
  EXPECT_TRUE(model.flat_names);
  EXPECT_TRUE(model.keep_dtype);
  EXPECT_EQ(model.options, asked.options);
  ASSERT_EQ(model.files.size(), 1U);
  EXPECT_EQ(model.files.front().family, "mine");
  EXPECT_EQ(model.drop, asked.drop);
  EXPECT_TRUE(model.untie);
  // These concern the scheme that comes after it.
  EXPECT_EQ(model.dialect, MappingOptions().dialect);
  EXPECT_FALSE(model.dtype.has_value());
  EXPECT_TRUE(model.include.empty());
}

}  // namespace
}  // namespace hfshard
