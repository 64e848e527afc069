#include "service/parts.h"

#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"

namespace hfshard {
namespace {

TEST(AddParts, APartThatIsTakenStaysWhileOthersAreTried) {
  MappingOptions last;
  add_parts({}, [&](const MappingOptions& more) {
    last = more;
    return !more.options.contains("vision");
  });
  EXPECT_EQ(last.options.count("mtp"), 1U);
  EXPECT_EQ(last.options.size(), 2U) << "the other parts weren't taken";
}

TEST(AddParts, AnErrorMeansNoUnlessItIsABug) {
  std::size_t calls = 0;
  const auto thrower = [&](ErrorCode code) {
    return [&calls, code](const MappingOptions& more) -> bool {
      EXPECT_EQ(more.options.size(), 1U) << "no part was taken";
      ++calls;
      throw Error(code, "why");
    };
  };
  add_parts({}, thrower(ErrorCode::bad_input));
  EXPECT_GT(calls, 1U);
  calls = 0;
  EXPECT_EQ(catch_error([&] { add_parts({}, thrower(ErrorCode::internal)); }).code(),
            ErrorCode::internal);
  EXPECT_EQ(calls, 1U);
}

TEST(AddParts, APartThatIsAskedForIsNotTried) {
  MappingOptions asked;
  asked.options["mtp"] = "true";
  add_parts(asked, [&](const MappingOptions& more) {
    EXPECT_EQ(more.options.count("mtp"), 1U);
    EXPECT_EQ(more.options.size(), 2U);
    for (const auto& [name, value] : more.options) EXPECT_EQ(value, "true") << name;
    return false;
  });
}

}  // namespace
}  // namespace hfshard
