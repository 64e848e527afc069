#include "tool/error_report.h"

#include <string>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(ErrorText, ALongCommandHasItsOwnLine) {
  const std::string why = "to find out more about what this directory holds";
  const std::string command = "hfshard inspect a/directory/with/a/long/name --summary";
  const auto hint_of = [](const std::string& hint) {
    const std::string text = error_text(Error(ErrorCode::usage, "no").hint(hint), 80);
    return text.substr(text.find("  hint "));
  };
  EXPECT_EQ(hint_of(why), "  hint    " + why + "\n");
  const std::string fits = "run: hfshard inspect " + std::string(49, 'x');
  EXPECT_EQ(hint_of(fits), "  hint    " + fits + "\n");  // 80 columns
  EXPECT_EQ(hint_of(fits + "x"),
            "  hint    run:\n          hfshard inspect " + std::string(50, 'x') + "\n");
  for (const std::string& before : {why + ", run:", why + ":", std::string("did you mean:")}) {
    const std::string hint = before + " " + command + " --data";
    EXPECT_EQ(hint_of(hint), "  hint    " + before + "\n          " + command + " --data\n");
  }
}

}  // namespace
}  // namespace hfshard
