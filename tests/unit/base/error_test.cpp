#include "hfshard/error.h"

#include <string_view>
#include <tuple>

#include <gtest/gtest.h>

#include "support/catch_error.h"

namespace hfshard {
namespace {

TEST(Error, FormatPrintsOneFactPerLine) {
  Error error(ErrorCode::corrupt, "tensor data passes the end of the file");
  error.in_file("model-00002-of-00004.safetensors")
      .in_tensor("model.layers.7.mlp.up_proj.weight")
      .at({117440512, 234881024}, 200000000)
      .by_rule("mappings/llama.json#/schemes/maxtext/3")
      .hint("compare the file size with the index");
  EXPECT_EQ(error.format(),
            "error [corrupt]: tensor data passes the end of the file\n"
            "  file    model-00002-of-00004.safetensors\n"
            "  tensor  \"model.layers.7.mlp.up_proj.weight\"\n"
            "  range   [117440512, 234881024) of 200000000 bytes\n"
            "  rule    mappings/llama.json#/schemes/maxtext/3\n"
            "  hint    compare the file size with the index");
}

TEST(Error, FormatSaysWhichLineOfATextFile) {
  Error error(ErrorCode::bad_input, "malformed JSON");
  error.in_file("config.json").on_line({3, 12}).on_line({9, 9});
  EXPECT_EQ(error.format(),
            "error [bad_input]: malformed JSON\n  file    config.json\n  line    3, column 12");
}

TEST(Error, RewordingKeepsEveryFactAndLeavesTheFirstErrorAsItWas) {
  Error error(ErrorCode::bad_input, "x");
  error.in_file("f").in_tensor("t").at({1, 2}, 3).on_line({4, 5}).by_rule("r").hint("h");
  const Error other = error.reworded(ErrorCode::corrupt, "y");
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "x");
  EXPECT_EQ(other.code(), ErrorCode::corrupt);
  EXPECT_EQ(other.format(),
            "error [corrupt]: y\n  file    f\n  line    4, column 5\n  tensor  \"t\"\n"
            "  range   [1, 2) of 3 bytes\n  rule    r\n  hint    h");
}

TEST(Error, AFactOfACopyIsNotOneOfTheOriginal) {
  const Error error(ErrorCode::io, "x");
  Error copy = error;
  copy.in_file("f").in_tensor("t").at({1, 2}, 3).on_line({4, 5}).by_rule("r").hint("h");
  EXPECT_EQ(error.format(), "error [io]: x");
  EXPECT_EQ(error.rehinted("other").format(), "error [io]: x\n  hint    other");
  EXPECT_EQ(copy.format(),
            "error [io]: x\n  file    f\n  line    4, column 5\n  tensor  \"t\"\n"
            "  range   [1, 2) of 3 bytes\n  rule    r\n  hint    h");
}

TEST(Error, FormatLeavesOutWhatIsNotKnown) {
  EXPECT_EQ(Error(ErrorCode::usage, "no source is given").format(),
            "error [usage]: no source is given");
}

TEST(Error, TerminalControlBytesInNamesAreEscaped) {
  const Error error =
      Error(ErrorCode::io, "x").in_file("a\x1b[2J").in_tensor("b\n\"c\\\xff").hint("\x07");
  EXPECT_EQ(
      error.format(),
      "error [io]: x\n  file    a\\x1b[2J\n  tensor  \"b\\x0a\\\"c\\\\\\xff\"\n  hint    \\x07");
}

TEST(Error, TheFirstFactWins) {
  Error error(ErrorCode::io, "x");
  error.in_file("inner").in_tensor("t").at({1, 2}, 3).by_rule("r").hint("h");
  error.in_file("outer").in_tensor("u").at({4, 5}, 6).by_rule("s").hint("i");
  EXPECT_EQ(error.file(), "inner");
  EXPECT_EQ(error.tensor(), "t");
  EXPECT_EQ(error.range(), (ByteRange{1, 2}));
  EXPECT_EQ(error.total_bytes(), 3U);
  EXPECT_EQ(error.rule(), "r");
  EXPECT_EQ(error.hint_text(), "h");
}

TEST(Error, EveryCodeHasANameAndAnExitStatus) {
  const auto last = static_cast<int>(ErrorCode::access);
  for (int i = 0; i <= last; ++i) EXPECT_FALSE(to_string(static_cast<ErrorCode>(i)).empty());
  EXPECT_EQ(to_string(static_cast<ErrorCode>(last + 1)), "internal");
  EXPECT_EQ(exit_status(static_cast<ErrorCode>(last + 1)), 70);
  EXPECT_EQ(to_string(ErrorCode::bad_input), "bad_input");
  EXPECT_EQ(exit_status(ErrorCode::usage), 2);
  EXPECT_EQ(exit_status(ErrorCode::bad_input), 3);
  EXPECT_EQ(exit_status(ErrorCode::limit), 3);
  EXPECT_EQ(to_string(ErrorCode::access), "access");
  EXPECT_EQ(exit_status(ErrorCode::access), 3);
  EXPECT_EQ(exit_status(ErrorCode::io), 4);
  EXPECT_EQ(exit_status(ErrorCode::network), 4);
  EXPECT_EQ(exit_status(ErrorCode::internal), 70);
  EXPECT_EQ(exit_status(ErrorCode::cancelled), 130);
}

TEST(Error, AFailedCheckIsInternalAndNamesTheCondition) {
  const int three = 3;
  const Error error = catch_error([&] { HFSHARD_CHECK(three == 4); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_EQ(error.sentence(), "check failed: three == 4");
  EXPECT_NE(error.format().find(" tests/unit/base/error_test.cpp:"), std::string::npos);
}

TEST(Error, AFailedChecksPathBeginsAtTheProjectsFolder) {
  const auto format = [](const char* path) {
    return catch_error([&] { check_failed("a == b", path, 7); }).format();
  };
  EXPECT_NE(format("/opt/src/hfshard/src/base/a.cpp").find(" src/base/a.cpp:7"), std::string::npos);
  EXPECT_NE(format("/opt/a.cpp").find(" /opt/a.cpp:7"), std::string::npos);
}

TEST(Error, NamesOfCodesAndTheirExitStatusesAreFixed) {
  const std::tuple<ErrorCode, std::string_view, int> codes[] = {
      {ErrorCode::usage, "usage", 2},           {ErrorCode::bad_input, "bad_input", 3},
      {ErrorCode::corrupt, "corrupt", 3},       {ErrorCode::unsupported, "unsupported", 3},
      {ErrorCode::not_found, "not_found", 3},   {ErrorCode::conflict, "conflict", 3},
      {ErrorCode::limit, "limit", 3},           {ErrorCode::io, "io", 4},
      {ErrorCode::network, "network", 4},       {ErrorCode::internal, "internal", 70},
      {ErrorCode::cancelled, "cancelled", 130}, {ErrorCode::access, "access", 3}};
  for (const auto& [code, name, status] : codes) {
    EXPECT_EQ(to_string(code), name);
    EXPECT_EQ(exit_status(code), status) << name;
  }
}

TEST(Error, AnotherHintReplacesTheFirstInACopy) {
  Error error(ErrorCode::io, "x");
  error.hint("").hint("first").hint("second");
  EXPECT_EQ(error.hint_text(), "first") << "an empty text is not a hint";
  const Error other = error.rehinted("other");
  EXPECT_EQ(other.format(), "error [io]: x\n  hint    other");
  EXPECT_EQ(error.hint_text(), "first");
  EXPECT_EQ(error.rehinted("").format(), "error [io]: x");
}

TEST(Error, OnlyAnInternalOneSaysWhereItWasThrown) {
  EXPECT_EQ(Error(ErrorCode::internal, "x", "/a/src/base/b.cpp", 7).format(),
            "error [internal]: x\n  thrown  src/base/b.cpp:7");
  EXPECT_EQ(Error(ErrorCode::internal, "x", "/a/include/hfshard/b.h", 7).format(),
            "error [internal]: x\n  thrown  include/hfshard/b.h:7");
  EXPECT_EQ(Error(ErrorCode::corrupt, "x", "/a/src/base/b.cpp", 7).format(), "error [corrupt]: x");
  const Error failed = catch_error([] { check_failed("a == b", "b.cpp", 7); });
  EXPECT_EQ(failed.hint_text(), "this is a bug in hfshard; please report it with this message");
}

}  // namespace
}  // namespace hfshard
