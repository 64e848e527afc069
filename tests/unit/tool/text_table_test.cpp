#include "tool/text_table.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(TextTable, PadsColumnsAndCutsTrailingBlanks) {
  TextTable table({"a", "long heading", "c"});
  table.add({"wide cell", "x", "1"});
  table.add({"y", "", ""});
  EXPECT_EQ(table.lines(1), (std::vector<std::string>{" a          long heading  c",
                                                      " wide cell  x             1", " y"}));
}

TEST(TextTable, PadsByColumnsOfATerminalNotByBytes) {
  TextTable table({"\u6a21\u578b", "1"});
  table.add({"abc", "2"});
  EXPECT_EQ(table.lines(0), (std::vector<std::string>{"\u6a21\u578b  1", "abc   2"}));
}

}  // namespace
}  // namespace hfshard
