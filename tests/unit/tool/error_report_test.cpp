#include "tool/error_report.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "tool/interrupt.h"
#include "tool/tool.h"
#include "unit/tool/run_tool.h"

#include "hfshard/error.h"

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

TEST(ErrorReport, JsonIsPrintedOnlyForAKnownCommand) {
  for (const auto& words : {std::array{"--json", "bogus"}, {"bogus", "--json"}}) {
    const ToolRun run = run_tool({words[0], words[1]});
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_TRUE(run.err.starts_with("hfshard: error [usage]: ")) << run.err;
  }
  for (const auto& words : {std::array{"--json", "--bogus"}, {"--bogus", "--json"}}) {
    const Json object = run_tool({"inspect", words[0], words[1]}).json();
    EXPECT_EQ(object.at("error").at("code").as_string(), "usage");
  }
  EXPECT_EQ(run_tool({"inspect", "--bogus"}).out, "");
}

// Nothing was written, so the command starts over.
TEST(Interrupted, ARunThatKeptNothingIsNotToldToResume) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const std::string source = dir / "x.safetensors";
  write_text(source, SafetensorsBuilder().tensor("x", DType::u8, {2}, "ab").build());
  const auto interrupted = [&](const std::string& out, int number) {
    watch_interrupts();
    std::raise(number);
    const char* const words[] = {"hfshard",  "convert", source.c_str(), out.c_str(),
                                 "--scheme", "hf",      "--quiet"};
    std::exit(tool_main(static_cast<int>(std::size(words)), words));
  };
  for (const int number : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(interrupted(dir / "out", number),
                testing::ExitedWithCode(exit_status(ErrorCode::cancelled)),
                "error \\[cancelled\\]: stopped; hfshard kept nothing\n.*"
                "  hint    run the same command again to start over\n$");
  }
}

// Another worker's part is kept. --overwrite continues too, and excludes --resume.
TEST(Interrupted, ARunThatKeptDataIsToldTheCommandThatContinues) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const std::string source = dir / "x.safetensors";
  const std::string out = dir / "out";
  write_text(source, SafetensorsBuilder().tensor("x", DType::u8, {2}, "ab").build());
  ASSERT_EQ(
      run_tool({"convert", source, out, "--scheme", "hf", "--worker", "1/2", "--quiet"}).status, 0);
  const auto interrupted = [&](const char* option) {
    watch_interrupts();
    std::raise(SIGINT);
    const char* const words[] = {"hfshard", "convert",  source.c_str(), out.c_str(), "--scheme",
                                 "hf",      "--worker", "1/2",          "--quiet",   option};
    std::exit(tool_main(static_cast<int>(std::size(words)), words));
  };
  for (const std::string option : {"--overwrite", "--resume"}) {
    EXPECT_EXIT(interrupted(option.c_str()),
                testing::ExitedWithCode(exit_status(ErrorCode::cancelled)),
                "stopped; hfshard kept everything written so far\n.*\n  hint    to continue, run: "
                "hfshard convert .* --scheme hf --worker 1/2 --quiet " +
                    option + "\n$");
  }
}

TEST(ErrorReport, ARefusalOfTheSystemIsNoBug) {
  const std::string path = std::string(300, 'x') + "/config.json";
  const ToolRun run = run_tool({"convert", "in", "out", "--config", path});
  EXPECT_EQ(run.status, exit_status(ErrorCode::io));
  EXPECT_TRUE(run.err.starts_with("hfshard: error [io]: ")) << run.err;
}

TEST(ErrorReport, JsonHasTheFactsThatAreKnown) {
  EXPECT_EQ(dump_json(error_json(Error(ErrorCode::usage, "no"))),
            sorted(R"({"code": "usage", "message": "no"})"));
  Error all(ErrorCode::corrupt, "damaged");
  all.in_file("file").in_tensor("tensor").by_rule("rule").hint("hint").at({1, 2}, 3);
  all.on_line({4, 5});
  EXPECT_EQ(dump_json(error_json(all)),
            sorted(R"({"begin_bytes": 1, "code": "corrupt", "column": 5, "end_bytes": 2,
      "file": "file", "hint": "hint", "line": 4, "message": "damaged", "rule": "rule",
      "tensor": "tensor", "total_bytes": 3})"));
}

TEST(ErrorText, ALongSentenceGoesOnBelowWithoutBreakingItsFacts) {
  Error error(ErrorCode::bad_input, "one two three four five six seven");
  error.in_file("a/long/name/of/a/file/that/stays/whole").hint("eight nine ten eleven twelve");
  EXPECT_EQ(error_text(error, 34),
            "hfshard: error [bad_input]: one\n"
            "  two three four five six seven\n"
            "  file    a/long/name/of/a/file/that/stays/whole\n"
            "  hint    eight nine ten eleven\n"
            "          twelve\n");
}

}  // namespace
}  // namespace hfshard
