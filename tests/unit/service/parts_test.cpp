#include "service/parts.h"

#include <string>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hfshard
