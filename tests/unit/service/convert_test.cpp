#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "bytes/local/owned_directory.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Keeps the size of the planned output.
class Planned final : public Reporter {
 public:
  void planned(const PlanSummary& plan) override { output_bytes = plan.output_bytes; }
  std::uint64_t output_bytes = 0;
};

// Writes two tensors without data: 4 bytes, and rows of 32 KiB.
void write_sparse(const std::string& path, std::uint64_t rows) {
  const std::uint64_t end = 4 + rows * 32768;
  const std::string header =
      fmt::format(R"({{"kept":{{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}},)"
                  R"("cast":{{"dtype":"BF16","shape":[{},16384],"data_offsets":[4,{}]}}}})",
                  rows, end);
  SafetensorsBuilder().raw_header(header).write(path);
  std::filesystem::resize_file(path, 8 + header.size() + end);
}

// An output that exists is refused next, before anything is written.
TEST(Link, CopiesAtMostAGibibyteWithoutASideFile) {
  const TempDir dir;
  write_text(dir / "out/notes.txt", "mine");
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.casts = {{"cast", DType::f32}};
  options.encoding.checksum = false;
  RunOptions run;
  run.out = dir / "out";
  const std::string source = dir / "model.safetensors";
  for (const auto& [rows, code] : std::vector<std::pair<std::uint64_t, ErrorCode>>{
           {16384, ErrorCode::conflict}, {16385, ErrorCode::usage}}) {
    write_sparse(source, rows);
    Planned planned;
    const Error error = catch_error([&] { link(source, options, {}, run, planned); });
    EXPECT_EQ(planned.output_bytes, rows * 65536);
    EXPECT_EQ(error.code(), code) << error.format();
    if (code != ErrorCode::usage) continue;
    EXPECT_EQ(error.sentence(),
              "1 GiB can't be linked, so link would write converted copies; the first is cast: it "
              "is cast from bf16 to f32");
    EXPECT_EQ(error.file(), source);
    EXPECT_EQ(error.hint_text(),
              "link copies more than 1 GiB only with --side-file; hfshard plan --link lists it");
  }
  Reporter quiet;
  const Error error = catch_error([&] { link(source, options, {.side_file = true}, run, quiet); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
}

// With --in-place, nothing is copied without a side file, however small it is.
TEST(Link, InPlaceNamesTheFirstLeavesThatItCannotLink) {
  const TempDir dir;
  for (const int count : {8, 9}) {
    SafetensorsBuilder builder;
    for (int i = 0; i < count; ++i) builder.tensor(fmt::format("cast{}", i), DType::bf16, {2});
    const std::string source = dir / fmt::format("source{}", count);
    write_text(source + "/model.safetensors", builder.tensor("kept", DType::bf16, {2}).build());
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.mapping.casts = {{"cast*", DType::f32}};
    options.encoding.checksum = false;
    RunOptions run;
    Reporter quiet;
    const Error error = catch_error([&] { link(source, options, {.in_place = true}, run, quiet); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    const std::string text = error.sentence();
    EXPECT_TRUE(text.starts_with(fmt::format("{} leaves can't be linked (cast0: ", count))) << text;
    EXPECT_EQ(text.ends_with("; and 1 more)"), count == 9) << text;
    EXPECT_NE(text.find("; cast7: "), std::string::npos) << text;
    EXPECT_EQ(text.find("cast8"), std::string::npos) << text;
    EXPECT_EQ(error.hint_text(),
              "pass --side-file to write converted copies next to the source's files");
  }
}

// Steps get their own numbers, so nothing else may choose one.
TEST(ConvertSteps, NothingElseChoosesAStepAndOneProcessWrites) {
  const TempDir dir;
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir / "model.safetensors");
  Reporter quiet;
  std::size_t calls = 0;
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  RunOptions run;
  run.out = dir / "root";
  hfshard::convert(dir / "model.safetensors", plain, run, quiet);
  const auto reshard = [&](const std::function<void(SourceName&, PlanOptions&, RunOptions&)>& set) {
    SourceName source(dir / "root");
    PlanOptions options = plain;
    options.tree.same = true;
    RunOptions again = run;
    again.out = dir / "again";
    set(source, options, again);
    return convert_steps(source, options, {.all = true, .last = 0, .numbers = {}}, again, quiet,
                         [&](const ConvertReport& /*report*/) { ++calls; });
  };
  const std::function<void(SourceName&, PlanOptions&, RunOptions&)> refused[] = {
      [](auto&, auto& options, auto&) { options.tree.same = false; },
      [](auto&, auto& options, auto&) { options.tree.step = 0; },
      [](auto&, auto& options, auto&) { options.step = 0; },
      [](auto& source, auto&, auto&) { source.step = 0; },
      [](auto& source, auto&, auto&) { source.text += "/0/items"; },
      [&](auto& source, auto&, auto&) { source.text = dir / "model.safetensors"; },
      [](auto&, auto&, auto& again) { again.workers = 2; },
  };
  for (const auto& set : refused) {
    EXPECT_EQ(catch_error([&] { reshard(set); }).code(), ErrorCode::usage) << &set - refused;
    EXPECT_FALSE(std::filesystem::exists(dir / "again"));
  }
  std::filesystem::copy(dir / "root/0", dir / "root/5", std::filesystem::copy_options::recursive);
  for (const bool is_done : {false, true}) {
    const std::vector<ConvertReport> reports = reshard([](auto&, auto&, auto&) {});
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].plan.other_steps, std::vector<std::uint64_t>{5});
    EXPECT_EQ(reports[1].plan.other_steps, std::vector<std::uint64_t>{0});
    for (const ConvertReport& report : reports) EXPECT_EQ(report.run.already_done, is_done);
    EXPECT_EQ(reports[0].run.path, dir / "again/0/items");
    EXPECT_EQ(reports[1].run.path, dir / "again/5/items");
  }
  EXPECT_EQ(calls, 4U);
  // A directory that isn't a checkpoint takes them too.
  write_text(dir / "torch/notes.txt", "mine");
  for (const bool is_done : {false, true}) {
    const std::vector<ConvertReport> reports =
        reshard([&](auto& /*source*/, auto& options, auto& again) {
          options.target = "dcp";
          again.out = dir / "torch";
        });
    ASSERT_EQ(reports.size(), 2U);
    for (const ConvertReport& report : reports) EXPECT_EQ(report.run.already_done, is_done);
  }
}

// A root with the steps 0 and 5.
class StepsTest : public testing::Test {
 protected:
  void SetUp() override {
    SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir_ / "model.safetensors");
    options_.mapping.scheme = "hf";
    hfshard::convert(dir_ / "model.safetensors", options_, run_to("root"), quiet_);
    std::filesystem::copy(dir_ / "root/0", dir_ / "root/5",
                          std::filesystem::copy_options::recursive);
    options_.tree.same = true;
  }
  RunOptions run_to(const std::string& out) const { return to_output(dir_ / out); }
  // Reshards all steps, and returns which ones were already done.
  std::vector<bool> reshard(const RunOptions& run, Reporter& reporter) {
    std::vector<bool> out;
    convert_steps(dir_ / "root", options_, {.all = true, .last = 0, .numbers = {}}, run, reporter,
                  [&](const ConvertReport& report) { out.push_back(report.run.already_done); });
    return out;
  }

  TempDir dir_;
  PlanOptions options_;
  Reporter quiet_;
};

TEST_F(StepsTest, OverwriteWritesAStepAgainThatLostAFile) {
  using Done = std::vector<bool>;
  RunOptions run = run_to("again");
  EXPECT_EQ(reshard(run, quiet_), (Done{false, false}));
  const std::string record = dir_ / "again/5/hfshard.json";
  const std::string lost = dir_ / "again/5/items/_METADATA";
  std::filesystem::remove(lost);
  const Error kept = catch_error([&] { reshard(run, quiet_); });
  EXPECT_EQ(kept.code(), ErrorCode::conflict);
  EXPECT_EQ(kept.sentence(), "the output was complete, but a file is missing");
  EXPECT_EQ(kept.file(), lost);
  run.overwrite = true;
  EXPECT_EQ(reshard(run, quiet_), (Done{true, false}));
  EXPECT_TRUE(std::filesystem::exists(lost));
  EXPECT_EQ(reshard(run, quiet_), (Done{true, true}));
  // A changed record doesn't tell which files the step had.
  std::string text = read_file(record);
  text.replace(text.find("\"x\""), 3, "\"y\"");
  write_text(record, text);
  const Error changed = catch_error([&] { reshard(run, quiet_); });
  EXPECT_EQ(changed.code(), ErrorCode::corrupt) << changed.format();
  EXPECT_EQ(read_file(record), text);
}

TEST_F(StepsTest, TheHintForATakenStepNamesNoOutputStep) {
  const RunOptions run = run_to("again");
  reshard(run, quiet_);
  std::filesystem::remove_all(dir_ / "again/5");
  write_text(dir_ / "again/5/notes.txt", "mine");
  const Error error = catch_error([&] { reshard(run, quiet_); });
  EXPECT_EQ(error.sentence(), "the step's name is taken by something that isn't a checkpoint");
  EXPECT_EQ(error.hint_text(), "pass another output; hfshard deletes only what it wrote");
}

TEST_F(StepsTest, ADirectoryThatIsNotACheckpointHasNoSteps) {
  std::filesystem::remove_all(dir_ / "root");
  write_text(dir_ / "root/notes.txt", "mine");
  const Error error = catch_error([&] { reshard(run_to("again"), quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--steps selects steps of the source, and the source has no steps");
}

TEST_F(StepsTest, OnlyARootWithMoreThanStepsGetsANote) {
  NotesReporter noted;
  options_.tree.all_items = true;
  reshard(run_to("again"), noted);
  EXPECT_EQ(noted.notes, std::vector<std::string>{});
  write_text(dir_ / "root/notes.txt", "mine");
  reshard(run_to("again"), noted);
  ASSERT_EQ(noted.notes.size(), 1U);
  EXPECT_EQ(noted.notes[0],
            fmt::format("left in {}, because hfshard reads only its steps: \"notes.txt\"",
                        dir_ / "root"));
}

TEST_F(StepsTest, TheStepsThatAConversionLeavesAreNamed) {
  const PlanSummary planned = hfshard::plan(dir_ / "root", options_, to_output({})).summary;
  EXPECT_EQ(planned.step, 5U);
  EXPECT_EQ(planned.other_steps, std::vector<std::uint64_t>{0});
  SourceName first(dir_ / "root");
  options_.tree.step = 0;
  const PlanSummary made = hfshard::convert(first, options_, run_to("again"), quiet_).plan;
  EXPECT_EQ(made.step, 0U);
  EXPECT_EQ(made.other_steps, std::vector<std::uint64_t>{5});
}

TEST_F(StepsTest, FinalizeOfACompleteOutputRemovesTheRestOfItsStaging) {
  const std::string staging = dir_ / ".root.hfshard";
  write_text(staging + "/" + OwnedDirectory::kMarker, "");
  write_text(staging + "/journal-0-of-1", "");
  const ConvertReport report = finalize(run_to("root"), quiet_);
  EXPECT_TRUE(report.run.already_done);
  EXPECT_EQ(report.run.path, dir_ / "root/5/items");
  EXPECT_FALSE(std::filesystem::exists(staging));
}

TEST_F(StepsTest, FinalizeWantsTheOutputAndNotItsStep) {
  for (const char* out : {"root/5", "root/5/items", "other"}) {
    const Error error = catch_error([&] { finalize(run_to(out), quiet_); });
    EXPECT_EQ(error.code(), ErrorCode::not_found) << out;
    EXPECT_EQ(error.sentence(), "no run was started for this output; it has no staging directory")
        << out;
  }
}

// Links files in place, and returns the options.
PlanOptions link_in_place(const std::string& directory) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.encoding.checksum = false;
  QuietReporter quiet;
  link(directory, options, {.in_place = true}, {}, quiet);
  return options;
}

// A compressed output can be much smaller than its plan says. Only stopping ends this run early.
TEST(ConvertSteps, CompressedStepsNeedNoFreeDiskForTheirPlannedSize) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "root/0");
  write_sparse(dir / "root/0/model.safetensors", std::uint64_t{1} << 25);  // 1 TiB
  PlanOptions options = link_in_place(dir / "root/0");
  RunOptions run;
  Reporter quiet;
  options.tree.same = true;
  options.encoding.zstd_level = 1;
  const std::atomic<bool> stop = true;
  run.stop = &stop;
  run.out = dir / "again";
  const Error error = catch_error([&] {
    convert_steps(dir / "root", options, {.all = true, .last = 0, .numbers = {}}, run, quiet,
                  [](const ConvertReport& /*report*/) {});
  });
  EXPECT_EQ(error.code(), ErrorCode::cancelled) << error.format();
}

TEST(Finalize, AStepThatWasLinkedInPlaceIsItsOwnItem) {
  const TempDir dir;
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir / "root/0/model.safetensors");
  link_in_place(dir / "root/0");
  Reporter quiet;
  EXPECT_EQ(finalize(to_output(dir / "root"), quiet).run.path, dir / "root/0");
}

TEST(Finalize, AModelThatWasLinkedInPlaceIsComplete) {
  const TempDir dir;
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir / "model/model.safetensors");
  link_in_place(dir / "model");
  Reporter quiet;
  const ConvertReport report = finalize(to_output(dir / "model"), quiet);
  EXPECT_TRUE(report.run.already_done);
  EXPECT_EQ(report.run.path, dir / "model");
}

TEST(ConvertOptimizer, AModelWithOptimizerStatesIsWrittenIfTheUserIncludesThem) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("model.norm.weight", DType::f32, {2})
      .tensor("optimizer.state.norm.exp_avg", DType::f32, {2})
      .write(dir / "model/model.safetensors");
  write_text(dir / "model/config.json", R"({"model_type": "nobody"})");
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  RunOptions run;
  run.out = dir / "out";
  Reporter quiet;
  const auto made = [&] { return hfshard::convert(dir / "model", options, run, quiet).plan; };
  const Error error = catch_error(made);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(
      error.sentence(),
      "1 of 2 tensors are optimizer states, which loaders of a Hugging Face model don't take");
  EXPECT_EQ(error.hint_text(),
            "pass --exclude 'optimizer.*' to leave them out; pass --include '*' to write them "
            "anyway");
  options.mapping.include = {"*"};
  EXPECT_EQ(made().leaves, 2U);
  EXPECT_TRUE(std::filesystem::exists(dir / "out/config.json"));
}

// A root of a trainer that lists its steps gets the number with --output-step.
TEST(ConvertSteps, AConversionOfAStepIsStepZeroAndAReshardKeepsTheNumber) {
  const TempDir dir;
  SafetensorsBuilder().tensor("a.weight", DType::f32, {4}).write(dir / "model.safetensors");
  Reporter quiet;
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.step = 1000;
  RunOptions run;
  run.out = dir / "tree";
  EXPECT_EQ(hfshard::convert(dir / "model.safetensors", options, run, quiet).run.path,
            dir / "tree/1000/items");
  options.step.reset();
  run.out = dir / "again";
  EXPECT_EQ(hfshard::convert(dir / "tree", options, run, quiet).run.path, dir / "again/0/items");
  options.tree.same = true;
  run.out = dir / "same";
  EXPECT_EQ(hfshard::convert(dir / "tree", options, run, quiet).run.path, dir / "same/1000/items");
}

TEST_F(StepsTest, AnEmptyDirectoryInTheCheckpointIsRefusedAsAnOutput) {
  const auto refusal = [&](const std::string& out, const char* target) {
    std::filesystem::create_directories(dir_ / out);
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    const Error error = catch_error(
        [&] { hfshard::convert(dir_ / "model.safetensors", options, run_to(out), quiet_); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), dir_ / out);
    EXPECT_EQ(list_directory(dir_ / out), std::vector<std::string>());
    return error.sentence() + "; " + error.hint_text();
  };
  const std::string inside = "the output is inside a step of a checkpoint; pass an output outside ";
  EXPECT_EQ(refusal("root/0/more", "orbax"), inside + "of " + dir_ / "root/0");
  EXPECT_EQ(refusal("root/5/more/below", "dcp"), inside + "of " + dir_ / "root/5");
  const std::string step = "the output would be a step of the checkpoint around it; pass ";
  EXPECT_EQ(refusal("root/7", "orbax"),
            step + dir_ / "root" + ", and the step with --output-step 7");
  EXPECT_EQ(refusal("root/7", "dcp"), step + "an output outside of " + dir_ / "root");
}

TEST_F(StepsTest, OnlyAnOutputNamedLikeTheStepsWouldBeOneOfThem) {
  for (const char* number : {"0", "5"})
    std::filesystem::rename(dir_ / "root" + "/" + number, dir_ / "root" + "/checkpoint_" + number);
  PlanOptions options;
  options.mapping.scheme = "hf";
  const auto convert_to = [&](const std::string& out) {
    hfshard::convert(dir_ / "model.safetensors", options, run_to(out), quiet_);
    return std::filesystem::exists(dir_ / out);
  };
  const Error error = catch_error([&] { convert_to("root/checkpoint_17"); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output would be a step of the checkpoint around it");
  EXPECT_EQ(error.hint_text(), "pass " + dir_ / "root" + ", and the step with --output-step 17");
  EXPECT_TRUE(convert_to("root/other_17"));
  EXPECT_TRUE(convert_to("root/checkpoint"));
}

TEST_F(StepsTest, ALinkRefusesAnOutputInAStepToo) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.encoding.checksum = false;
  const RunOptions run = run_to("root/0/more");
  const Error error =
      catch_error([&] { link(dir_ / "model.safetensors", options, {}, run, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output is inside a step of a checkpoint");
  EXPECT_EQ(error.file(), run.out);
  EXPECT_FALSE(std::filesystem::exists(run.out));
}

TEST_F(StepsTest, ChosenStepsAreConvertedInOrderAndOnce) {
  using Numbers = std::vector<std::uint64_t>;
  int runs = 0;
  const auto converted = [&](const StepList& steps) {
    Numbers out;
    const auto done = [&](const ConvertReport& report) {
      out.push_back(report.plan.other_steps == Numbers{5} ? 0 : 5);
      EXPECT_GT(report.run.output_bytes, 0U);
    };
    const RunOptions run = run_to("again" + std::to_string(++runs));
    const auto reports = convert_steps(dir_ / "root", options_, steps, run, quiet_, done);
    EXPECT_EQ(reports.size(), out.size());
    EXPECT_EQ(list_directory(run.out).size(), out.size());
    return out;
  };
  EXPECT_EQ(converted({.all = false, .last = 1, .numbers = {}}), Numbers{5});
  EXPECT_EQ(converted({.all = false, .last = 9, .numbers = {}}), (Numbers{0, 5}));
  EXPECT_EQ(converted({.all = false, .last = 0, .numbers = {5, 0, 5}}), (Numbers{0, 5}));
  const Error error = catch_error([&] { converted({.all = false, .last = 0, .numbers = {0, 7}}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
}

TEST_F(StepsTest, AnIncompleteStepIsNamedWithTheCompleteOnesThatWereChosen) {
  const std::string step = dir_ / "root/7";
  write_text(step + "/_CHECKPOINT_METADATA", "{}");
  write_text(step + "/items/_METADATA", "{}");
  write_text(step + "/items/ocdbt.process_0/manifest.ocdbt", "");
  const auto hint = [&](const StepList& steps) {
    const Error error = catch_error([&] {
      convert_steps(dir_ / "root", options_, steps, run_to("again"), quiet_,
                    [](const ConvertReport& /*report*/) {});
    });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.file(), step);
    EXPECT_EQ(error.sentence(),
              "step 7 is unfinished: its processes wrote their parts, but didn't merge them");
    EXPECT_FALSE(exists(dir_ / "again"));
    return error.hint_text();
  };
  EXPECT_EQ(hint({.all = true, .last = 0, .numbers = {}}),
            "pass --steps 0,5 to take complete steps");
  EXPECT_EQ(hint({.all = false, .last = 1, .numbers = {}}),
            "pass --steps 5 to take complete steps");
  EXPECT_EQ(hint({.all = false, .last = 0, .numbers = {0, 7}}),
            "pass --steps 0 to take complete steps");
  EXPECT_EQ(hint({.all = false, .last = 0, .numbers = {7}}), "");
}

TEST_F(StepsTest, AFormatWithoutStepsGetsADirectoryForEach) {
  options_.target = "safetensors";
  for (const bool is_done : {false, true}) {
    EXPECT_EQ(reshard(run_to("files"), quiet_), (std::vector<bool>{is_done, is_done}));
    EXPECT_EQ(list_directory(dir_ / "files"), (std::vector<std::string>{"step-0", "step-5"}));
  }
  const Error error = catch_error([&] { reshard(run_to("files/step-0"), quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output already is a checkpoint; it can't hold steps");
  EXPECT_EQ(error.file(), dir_ / "files/step-0");
  EXPECT_EQ(error.hint_text(), "pass another OUT");
}

}  // namespace
}  // namespace hfshard
