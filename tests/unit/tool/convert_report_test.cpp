#include "tool/convert_report.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(PrintPublished, EachValueThatBecameInfiniteIsTold) {
  const auto tells = [](std::uint64_t overflows) {
    ConvertReport report;
    report.run.path = "/out/0/items";
    report.run.overflows = overflows;
    testing::internal::CaptureStdout();
    print_published(report, "/out");
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_NE(out.find("published /out/0/items"), std::string::npos) << out;
    return out.find("overflow") != std::string::npos;
  };
  EXPECT_FALSE(tells(0));
  EXPECT_TRUE(tells(1));
  EXPECT_TRUE(tells(2));
}

}  // namespace
}  // namespace hfshard
