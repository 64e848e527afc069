// Several steps that are converted one after the other.

#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// A root with the steps 3 and 12, whose tensors differ.
class SeveralSteps : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [step, bytes] : {std::pair(3U, "abcd"), {12U, "efgh"}}) {
      SafetensorsBuilder().tensor("x", DType::u8, {4}, bytes).write(dir_ / "model.safetensors");
      PlanOptions options;
      options.mapping.scheme = "hf";
      options.step = step;
      hfshard::convert(dir_ / "model.safetensors", options, to_output(root_), quiet_);
    }
    options_.mapping.scheme = "hf";
    options_.tree.same = true;
  }
  std::vector<ConvertReport> convert_all(const SourceName& source, const RunOptions& run,
                                         const StepList& steps = {
                                             .all = true, .last = 0, .numbers = {}}) {
    return convert_steps(source, options_, steps, run, quiet_,
                         [](const ConvertReport& /*report*/) {});
  }

  TempDir dir_;
  std::string root_ = dir_ / "root";
  Reporter quiet_;
  PlanOptions options_;
};

TEST_F(SeveralSteps, ANumberOrAnotherProcessIsRefusedWithItsReason) {
  const auto sentence = [&](const SourceName& source, const RunOptions& run) {
    return catch_error([&] { convert_all(source, run); }).sentence();
  };
  RunOptions run = to_output(dir_ / "out");
  SourceName named(root_);
  named.step = 3;
  EXPECT_EQ(sentence(named, run), "several steps keep their numbers");
  run.workers = 2;
  EXPECT_EQ(sentence(root_, run), "one process writes several steps");
  run.workers = 1;
  options_.step = 7;
  EXPECT_EQ(sentence(root_, run), "several steps keep their numbers");
  options_.step.reset();
  const Error file = catch_error([&] { convert_all(dir_ / "model.safetensors", run); });
  EXPECT_EQ(file.file(), dir_ / "model.safetensors");
  EXPECT_EQ(file.hint_text(), "leave out --steps");
}

TEST_F(SeveralSteps, EachStepHasItsOwnValuesAndPlan) {
  for (const char* target : {"orbax", "safetensors"}) {
    options_.target = target;
    const RunOptions run = to_output(dir_ / target);
    const std::vector<ConvertReport> made = convert_all(root_, run);
    ASSERT_EQ(made.size(), 2U);
    EXPECT_NE(made[0].plan.id, made[1].plan.id);
    EXPECT_EQ(made[0].plan.step, 3U);
    EXPECT_EQ(made[1].plan.step, 12U);
    for (const auto& [report, step] : {std::pair(made[0], "3"), {made[1], "12"}}) {
      const std::string place =
          *target == 'o' ? dir_ / "orbax" + "/" + step : dir_ / "safetensors" + "/step-" + step;
      EXPECT_TRUE(report.run.path.starts_with(place)) << report.run.path;
      const DiffResult found = diff(place, root_ + "/" + step, {}, to_output(""), quiet_);
      EXPECT_TRUE(found.equal()) << place;
      EXPECT_EQ(found.compared_tensors, 1U);
    }
    const std::vector<ConvertReport> again = convert_all(root_, run);
    ASSERT_EQ(again.size(), 2U);
    for (std::size_t i = 0; i < again.size(); ++i) {
      EXPECT_TRUE(again[i].run.already_done);
      EXPECT_EQ(again[i].plan.id, made[i].plan.id);
      EXPECT_EQ(again[i].run.path, made[i].run.path);
      EXPECT_EQ(again[i].run.output_bytes, made[i].plan.output_bytes);
    }
  }
}

TEST_F(SeveralSteps, AStepThatIsAddedLaterIsConvertedAlone) {
  const RunOptions run = to_output(dir_ / "out");
  ASSERT_EQ(convert_all(root_, run, {.all = false, .last = 1, .numbers = {}}).size(), 1U);
  EXPECT_EQ(list_directory(run.out), std::vector<std::string>{"12"});
  const std::vector<ConvertReport> all = convert_all(root_, run);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(all[0].run.already_done);
  EXPECT_TRUE(all[1].run.already_done);
  EXPECT_EQ(all[1].plan.other_steps, std::vector<std::uint64_t>{3});
}

// Stops at the plan of a step.
class StopAtStep final : public Reporter {
 public:
  StopAtStep(std::uint64_t step, std::atomic<bool>& stop) : step_(step), stop_(stop) {}
  void planned(const PlanSummary& plan) override {
    if (plan.step == step_) stop_ = true;
  }

 private:
  std::uint64_t step_;
  std::atomic<bool>& stop_;
};

TEST_F(SeveralSteps, AnInterruptedStepComesFirst) {
  std::atomic<bool> stop = false;
  RunOptions run = to_output(dir_ / "out");
  run.stop = &stop;
  const StepList all{.all = true, .last = 0, .numbers = {}};
  std::vector<std::uint64_t> others;
  const auto convert_with = [&](Reporter& reporter) {
    return convert_steps(root_, options_, all, run, reporter, [&](const ConvertReport& report) {
      others.push_back(report.plan.other_steps.at(0));
    });
  };
  StopAtStep stopping(12, stop);
  EXPECT_EQ(catch_error([&] { convert_with(stopping); }).code(), ErrorCode::cancelled);
  EXPECT_EQ(others, std::vector<std::uint64_t>{12});
  EXPECT_EQ(list_directory(run.out), std::vector<std::string>{"3"});
  std::filesystem::remove_all(run.out);
  stop = false;
  others.clear();
  EXPECT_EQ(convert_with(quiet_).size(), 2U);
  EXPECT_EQ(others, (std::vector<std::uint64_t>{3, 12})) << "first step 12";
  EXPECT_FALSE(exists(dir_ / ".out.hfshard"));
}

TEST_F(SeveralSteps, TheStagingDirectoryOfAnotherRunIsLeftAlone) {
  RunOptions run = to_output(dir_ / "out");
  convert_all(root_, run);
  const std::atomic<bool> stop = true;
  RunOptions other = run;
  other.stop = &stop;
  PlanOptions more;
  more.mapping.scheme = "hf";
  more.step = 99;
  EXPECT_EQ(catch_error([&] {
              hfshard::convert(dir_ / "model.safetensors", more, other, quiet_);
            }).code(),
            ErrorCode::cancelled);
  ASSERT_TRUE(exists(dir_ / ".out.hfshard"));
  for (const ConvertReport& report : convert_all(root_, run)) {
    EXPECT_TRUE(report.run.already_done);
    EXPECT_FALSE(report.run.path.empty());
  }
  EXPECT_TRUE(exists(dir_ / ".out.hfshard"));
}

// The plan of the workers has the step's number.
TEST_F(SeveralSteps, AStepThatAppearsMeanwhileChangesNoRun) {
  RunOptions run = to_output(dir_ / "out");
  run.workers = 2;
  for (run.worker = 0; run.worker < run.workers; ++run.worker)
    EXPECT_FALSE(hfshard::convert(root_, options_, run, quiet_).run.published);
  std::filesystem::copy(root_ + "/3", root_ + "/20", std::filesystem::copy_options::recursive);
  const ConvertReport report = finalize(to_output(dir_ / "out"), quiet_);
  EXPECT_TRUE(report.run.published);
  EXPECT_EQ(report.plan.step, 12U);
  EXPECT_EQ(report.run.path, dir_ / "out/12/items");
  EXPECT_TRUE(diff(dir_ / "out/12", root_ + "/12", {}, to_output(""), quiet_).equal());
}

TEST_F(SeveralSteps, MetadataOfTheRunAreCopiedWithAllItems) {
  const std::string metadata = R"({"custom_metadata": {"run": 1}})";
  write_text(root_ + "/metadata/_ROOT_METADATA", metadata);
  options_.tree.all_items = true;
  NotesReporter noted;
  convert_steps(root_, options_, {.all = true, .last = 0, .numbers = {}}, to_output(dir_ / "out"),
                noted, [](const ConvertReport& /*report*/) {});
  EXPECT_EQ(noted.notes, std::vector<std::string>());
  EXPECT_EQ(read_text(dir_ / "out/metadata/_ROOT_METADATA"), metadata);
}

TEST_F(SeveralSteps, AStepThatDoesntExistIsRefusedBeforeAnythingIsWritten) {
  const Error error = catch_error([&] {
    convert_all(root_, to_output(dir_ / "out"), {.all = false, .last = 0, .numbers = {12, 4}});
  });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "step 4 doesn't exist");
  EXPECT_FALSE(exists(dir_ / "out"));
}

// Either one alone would fit. A run that begins would be stopped.
TEST(DiskOfSteps, TheDiskMustHaveSpaceForAllSteps) {
  const TempDir dir;
  constexpr std::uint64_t kRowBytes = 32768;
  // In quarters of a power of two, so that some bytes more print the same.
  const std::uint64_t free = free_bytes(dir.path());
  const std::uint64_t quarter = std::bit_floor(free) / 4;
  const std::uint64_t rows = free / 8 * 7 / quarter * quarter / kRowBytes;
  Reporter quiet;
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.encoding.checksum = false;
  for (const char* step : {"0", "5"}) {
    const std::string header =
        fmt::format(R"({{"x":{{"dtype":"BF16","shape":[{},{}],"data_offsets":[0,{}]}}}})", rows,
                    kRowBytes / 2, rows * kRowBytes);
    const std::string file = dir / "root" + "/" + step + "/model.safetensors";
    SafetensorsBuilder().raw_header(header).write(file);
    std::filesystem::resize_file(file, 8 + header.size() + rows * kRowBytes);  // sparse
    link(dir / "root" + "/" + step, options, {.in_place = true}, {}, quiet);
  }
  options.tree.same = true;
  const std::atomic<bool> stop = true;
  RunOptions run = to_output(dir / "out");
  run.stop = &stop;
  const Error error = catch_error([&] {
    convert_steps(dir / "root", options, {.all = true, .last = 0, .numbers = {}}, run, quiet,
                  [](const ConvertReport& /*report*/) {});
  });
  EXPECT_EQ(error.code(), ErrorCode::limit) << error.format();
  EXPECT_TRUE(error.sentence().starts_with(
      fmt::format("2 steps need {} more, and the disk has ", human_bytes(2 * rows * kRowBytes))))
      << error.sentence();
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_EQ(error.hint_text(), "free some space, or pass fewer steps; hfshard has written nothing");
  EXPECT_FALSE(exists(dir / "out"));
}

}  // namespace
}  // namespace hfshard
