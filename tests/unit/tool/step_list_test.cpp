#include <gtest/gtest.h>

#include "tool/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(StepList, AllNumbersOrTheLastOnesAreRead) {
  EXPECT_TRUE(parse_step_list("all").all);
  EXPECT_EQ(parse_step_list("10,3,0").numbers, (std::vector<std::uint64_t>{10, 3, 0}));
  EXPECT_EQ(parse_step_list("18446744073709551615").numbers,
            std::vector<std::uint64_t>{UINT64_MAX});
  EXPECT_EQ(parse_step_list("-2").last, 2U);
  for (const char* text : {"10,3,0", "-2"}) EXPECT_FALSE(parse_step_list(text).all) << text;
  EXPECT_EQ(parse_step_list("3").last, 0U);
  EXPECT_TRUE(parse_step_list("-2").numbers.empty());
}

TEST(StepList, AnythingElseIsAnErrorOfUsage) {
  for (const char* text :
       {"", "-", "-0", "--2", "-1,2", "3,", ",3", "3,,4", "3, 4", "+3", "0x3", "3-5", "all,3",
        "ALL", "1.5", "1e3", "18446744073709551616", "-18446744073709551616"}) {
    try {
      parse_step_list(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << text;
    }
  }
}

}  // namespace
}  // namespace hfshard
