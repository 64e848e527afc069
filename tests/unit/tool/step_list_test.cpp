#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "tool/steps.h"
#include "unit/tool/run_tool.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(StepList, AllNumbersOrTheLastOnesAreRead) {
  EXPECT_TRUE(parse_step_list("all").all);
  EXPECT_EQ(parse_step_list("10,3,0").numbers, (std::vector<std::uint64_t>{10, 3, 0}));
  EXPECT_EQ(parse_step_list("18446744073709551615").numbers,
            std::vector<std::uint64_t>{UINT64_MAX});
  EXPECT_EQ(parse_step_list("-2").last, 2U);
  for (const char* text : {"10,3,0", "-2"}) EXPECT_FALSE(parse_step_list(text).all) << text;
  EXPECT_EQ(parse_step_list("3").last, 0U);
  EXPECT_TRUE(parse_step_list("-2").numbers.empty());
}

TEST(StepList, AnythingElseIsAnErrorOfUsage) {
  for (const char* text :
       {"", "-", "-0", "--2", "-1,2", "3,", ",3", "3,,4", "3, 4", "+3", "0x3", "3-5", "all,3",
        "ALL", "1.5", "1e3", "18446744073709551616", "-18446744073709551616"}) {
    try {
      parse_step_list(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << text;
    }
  }
}

// Steps of a training run, and the output of `reshard --steps all` for them.
class Steps : public testing::Test {
 protected:
  using Values = std::map<std::string, std::vector<float>>;

  // Writes a step of arrays.
  void write_step(const std::string& step, const Values& arrays) const {
    SafetensorsBuilder builder;
    for (const auto& [name, values] : arrays) {
      std::string bytes(values.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), values.data(), bytes.size());
      builder.tensor(name, DType::f32, {values.size()}, bytes);
    }
    const std::string file = dir_ / "step.safetensors";
    write_text(file, builder.build());
    const ToolRun run =
        run_tool({"convert", file, run_, "--scheme", "hf", "--output-step", step, "--quiet"});
    ASSERT_EQ(run.status, 0) << run.err;
  }
  ToolRun reshard(const std::string& option, const std::string& value) const {
    return run_tool({"reshard", run_, out_, "--steps", "all", option, value});
  }

  TempDir dir_;
  std::string run_ = dir_ / "run";
  std::string out_ = dir_ / "out";
};

TEST_F(Steps, StepsThatAreCompleteAreOnlyNamed) {
  write_step("3", {{"x", {1}}});
  write_step("10", {{"x", {2}}});
  const ToolRun first = reshard("--checksum", "none");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("\nnext      hfshard inspect "), std::string::npos) << first.out;
  const ToolRun again = reshard("--checksum", "none");
  EXPECT_EQ(again.status, 0);
  EXPECT_EQ(again.out, "complete  " + out_ + "/3/items is already complete with these options\n" +
                           "complete  " + out_ +
                           "/10/items is already complete with these options\n");
}

TEST_F(Steps, ValuesThatBecomeInfiniteAreCountedForEachStep) {
  write_step("3", {{"x", {1e30F, 1}}});
  write_step("10", {{"x", {1, 2}}});
  write_step("20", {{"x", {1e30F, -1e30F}}});
  const std::string out = reshard("--dtype", "f16").out;
  const auto line_after = [&](const std::string& step) {
    const std::size_t end = out.find('\n', out.find("published " + out_ + "/" + step + "/items"));
    return out.substr(end + 1, out.find('\n', end + 1) - end - 1);
  };
  EXPECT_EQ(line_after("3"),
            "overflow  1 finite value became infinite; the new dtype is too narrow");
  EXPECT_TRUE(line_after("10").starts_with("published ")) << out;
  EXPECT_EQ(line_after("20"),
            "overflow  2 finite values became infinite; the new dtype is too narrow");
}

TEST_F(Steps, TensorsLeftOutAreNamedOnceForStepsThatLackTheSame) {
  write_step("3", {{"x", {1}}, {"y", {1}}});
  write_step("10", {{"x", {2}}, {"y", {2}}});
  write_step("20", {{"x", {3}}, {"z", {3}}});
  EXPECT_EQ(reshard("--include", "x").err,
            "note: reading step 3\nnote: not converted: \"y\": not in --include\n"
            "note: reading step 10\n"
            "note: reading step 20\nnote: not converted: \"z\": not in --include\n");
}

TEST_F(Steps, AWarningIsPrintedOnceForStepsWithTheSame) {
  const std::string model = dir_ / "model";
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", model}).status, 0);
  for (const char* step : {"3", "10"})
    ASSERT_EQ(run_tool({"convert", model, run_, "--output-step", step, "--quiet"}).status, 0);
  const std::string err = reshard("--include", "*.embedding").err;
  const std::string warning =
      "warning: --include and --exclude leave out 13 of the model's 14 arrays: ";
  const std::size_t at = err.find(warning);
  ASSERT_NE(at, std::string::npos) << err;
  EXPECT_EQ(err.find(warning, at + 1), std::string::npos) << err;
}

// The first failed write drops the text, so later writes don't fail.
TEST_F(Steps, OutputThatCannotBePrintedIsAnError) {
  write_step("3", {{"x", {1}}});
  ASSERT_EQ(reshard("--checksum", "none").status, 0);
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, STDOUT_FILENO);
  const char* const words[] = {"hfshard", "reshard", run_.c_str(), out_.c_str(),
                               "--steps", "all",     "--checksum", "none"};
  testing::internal::CaptureStderr();
  const int status = tool_main(static_cast<int>(std::size(words)), words);
  const std::string err = testing::internal::GetCapturedStderr();
  std::clearerr(stdout);
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(full);
  EXPECT_EQ(status, exit_status(ErrorCode::io));
  EXPECT_TRUE(err.ends_with("hfshard: error [io]: can't write to standard output\n")) << err;
}

TEST(StepList, TheErrorShowsWhatCanBeAskedFor) {
  try {
    parse_step_list("3-5");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.sentence(), "--steps can't be \"3-5\"");
    EXPECT_EQ(error.hint_text(), "pass all, numbers such as 3,10, or -2 for the last two");
  }
}

TEST(StepsText, TheEightHighestOfTheOtherStepsAreNamed) {
  EXPECT_EQ(steps_text(5, {}), "5");
  EXPECT_EQ(steps_text(5, {3}), "5; other steps: 3");
  EXPECT_EQ(steps_text(9, {1, 2, 3, 4, 5, 6, 7, 8}), "9; other steps: 1, 2, 3, 4, 5, 6, 7, 8");
  EXPECT_EQ(steps_text(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
            "0; other steps: 2 lower ones, 3, 4, 5, 6, 7, 8, 9, 10");
  Json out = Json::Object{};
  add_steps(std::nullopt, {1}, out);
  EXPECT_EQ(dump_json(out), "{}");
  add_steps(4, {1, 2}, out);
  EXPECT_EQ(dump_json(out), R"({"other_steps":[1,2],"step":4})");
}

TEST_F(Steps, EachStepHasItsResultInJsonAndTheLastOneSaysHowToLoadIt) {
  write_step("3", {{"x", {1}}});
  write_step("10", {{"x", {2}}});
  const ToolRun run = run_tool({"reshard", run_, dir_ / "json", "--steps", "all", "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  const Json object = run.json();
  EXPECT_EQ(object.at("command").as_string(), "reshard");
  ASSERT_EQ(object.at("steps").as_array().size(), 2U);
  const Json& first = object.at("steps").as_array()[0];
  EXPECT_EQ(first.at("step").as_uint(), 3U);
  EXPECT_EQ(first.at("path").as_string(), dir_ / "json/3/items");
  EXPECT_TRUE(first.at("published").as_bool());
  EXPECT_EQ(object.at("steps").as_array()[1].at("step").as_uint(), 10U);
  const ToolRun quiet = run_tool({"reshard", run_, dir_ / "quiet", "--steps", "all", "--quiet"});
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.out + quiet.err, "");
  const ToolRun text = run_tool({"reshard", run_, out_, "--steps", "-1"});
  EXPECT_EQ(text.err, "note: reading step 10\n");
  EXPECT_TRUE(text.out.starts_with("published " + out_ + "/10/items (")) << text.out;
  EXPECT_TRUE(
      text.out.ends_with("family    any (hf: unchanged names and shapes)\nnext      hfshard "
                         "inspect " +
                         out_ + "/10/items\n"))
      << text.out;
}

TEST_F(Steps, ACompleteLastStepHasNoNextCommand) {
  write_step("3", {{"x", {1}}});
  write_step("10", {{"x", {2}}});
  ASSERT_EQ(run_tool({"reshard", run_, out_, "--steps", "10", "--quiet"}).status, 0);
  const ToolRun run = run_tool({"reshard", run_, out_, "--steps", "all"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with("published " + out_ + "/3/items (")) << run.out;
  EXPECT_TRUE(run.out.ends_with("\ncomplete  " + out_ +
                                "/10/items is already complete with these options\n"))
      << run.out;
  EXPECT_EQ(run.out.find("next"), std::string::npos) << run.out;
}

}  // namespace
}  // namespace hfshard
