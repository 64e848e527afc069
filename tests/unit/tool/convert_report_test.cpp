#include "tool/convert_report.h"

#include <cstdint>
#include <optional>
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

TEST(PrintNetwork, SaysWhatWasSentAndWhatWasNotChecked) {
  const auto printed = [](std::optional<NetworkUse> use) {
    RunResult run;
    run.network = use;
    testing::internal::CaptureStdout();
    print_network(run);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed(std::nullopt), "");
  NetworkUse use;
  use.bytes = 3072;
  use.requests = 5;
  EXPECT_EQ(printed(use), "network   3 KiB in 5 requests\n");
  use.used_bytes = 2048;
  EXPECT_EQ(printed(use), "network   3 KiB in 5 requests, 1.50x the bytes needed\n");
  use.unchecked_bytes = 1024;
  EXPECT_EQ(printed(use),
            "network   3 KiB in 5 requests, 1.50x the bytes needed\n"
            "unverified 1 KiB were streamed without a checksum; pass --keep-files to verify "
            "whole files\n");
}

}  // namespace
}  // namespace hfshard
