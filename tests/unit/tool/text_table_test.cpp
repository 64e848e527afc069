#include "tool/text_table.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "support/variables.h"

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

TEST(TextTable, WhatDoesNotFitStandsBelowTheFirstCellInColumns) {
  TextTable table({"name", "one", "two"});
  table.add({"a.long.name.of.a.leaf", "1234567", "12"});
  table.add({"b", "1", "1234567890"});
  EXPECT_EQ(table.lines(2, 44).size(), 3U);  // 2 + 21 + 2 + 7 + 2 + 10
  EXPECT_EQ(table.lines(2, 43),
            (std::vector<std::string>{"  name", "    one      two", "  a.long.name.of.a.leaf",
                                      "    1234567  12", "  b", "    1        1234567890"}));
  EXPECT_EQ(table.lines(2, 20),
            (std::vector<std::string>{"  name", "    one", "    two", "  a.long.n..f.a.leaf",
                                      "    1234567", "    12", "  b", "    1", "    1234567890"}));
}

TEST(TextTable, ACellThatJustFitsStaysInTheLine) {
  TextTable table({"name", "one", "two"});
  table.add({"a.long.name.of.a.leaf", "1234567", "1234567890"});
  EXPECT_EQ(table.lines(2, 23).at(3), "    1234567  1234567890");  // 4 + 7 + 2 + 10
  EXPECT_EQ(table.lines(2, 22).at(4), "    1234567");
  EXPECT_EQ(table.lines(2, 22).at(5), "    1234567890");
}

TEST(TextTable, InAPipeAFewLongCellsDoNotWidenTheirColumn) {
  TextTable table({"name", "n"});
  for (int i = 0; i < 20; ++i) table.add({"layer", "1"});
  table.add({std::string(60, 'x'), "2"});
  const std::vector<std::string> lines = table.lines(0);
  EXPECT_EQ(lines[0], "name   n");
  EXPECT_EQ(lines[1], "layer  1");
  EXPECT_EQ(lines[21], std::string(60, 'x') + "  2");
  EXPECT_EQ(table.lines(0, 80)[1], "layer" + std::string(57, ' ') + "1")
      << "a terminal has columns";
  EXPECT_EQ(table.lines(0, 99999)[1], table.lines(0, 80)[1]);
  EXPECT_EQ(table.lines(0, 100000)[1], "layer  1");
}

TEST(TextTable, ARowMayHaveFewerCells) {
  TextTable table({"name", "n"});
  table.add({"a long name", "1"});
  table.add({"short"});
  EXPECT_EQ(table.lines(0),
            (std::vector<std::string>{"name         n", "a long name  1", "short"}));
  EXPECT_EQ(table.lines(0, 11),
            (std::vector<std::string>{"name", "  n", "a long name", "  1", "short"}));
}

TEST(TextTable, ElidedKeepsBothEnds) {
  EXPECT_EQ(elided("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(elided("abcdefgh", 7), "ab..fgh");
  EXPECT_EQ(elided("abcdefgh", 2), "..");
  EXPECT_EQ(elided("\u6a21\u578babc\u6a21\u578b", 8), "\u6a21..\u578b");
}

TEST(PrintParts, APartThatDoesNotFitBeginsTheNextLine) {
  const auto printed = [](std::string_view begin, const std::vector<std::string>& parts) {
    const Variables variables("COLUMNS", "20");
    testing::internal::CaptureStdout();
    print_parts(begin, parts);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed("", {"aaaaaaaaaa", "bbbbbbbb"}), "aaaaaaaaaa  bbbbbbbb\n");
  EXPECT_EQ(printed("", {"aaaaaaaaaa", "", "bbbbbbbb"}), "aaaaaaaaaa  bbbbbbbb\n");
  EXPECT_EQ(printed("", {"aaaaaaaaaa", "bbbbbbbbb"}), "aaaaaaaaaa\n     bbbbbbbbb\n");
  EXPECT_EQ(printed("-> ", {"aaaaaaaaaaaaaaaaaaaaa", "b", "c"}),
            "-> aaaaaaaaaaaaaaaaaaaaa\n     b  c\n");
}

TEST(TextTable, OneIsNotMany) {
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(2, "file"), "2 files");
  EXPECT_EQ(counted(1, "leaf", "leaves"), "1 leaf");
  EXPECT_EQ(counted(21, "leaf", "leaves"), "21 leaves");
}

}  // namespace
}  // namespace hfshard
