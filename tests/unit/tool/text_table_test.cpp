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

}  // namespace
}  // namespace hfshard
