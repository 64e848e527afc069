#include "service/step.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(StepDirectory, IsTheHighestStepByNumberThatHasAManifest) {
  const TempDir dir;
  EXPECT_EQ(step_directory(dir.path()), "");
  EXPECT_EQ(step_directory(dir / "nothing"), "");
  write_text(dir / "9/hfshard.json", "{}");
  write_text(dir / "hf/config.json", "{}");
  EXPECT_EQ(step_directory(dir.path()), dir / "9");
  write_text(dir / "10/hfshard.json", "{}");
  EXPECT_EQ(step_directory(dir.path()), dir / "10");  // not the last by text
  write_text(dir / "100000/items/x", "");             // another tool's
  write_text(dir / "11x/hfshard.json", "{}");
  EXPECT_EQ(step_directory(dir.path()), dir / "10");
  write_text(dir / "1000000000/hfshard.json", "{}");
  EXPECT_EQ(step_directory(dir.path()), dir / "1000000000");
}

TEST(StepDirectory, IsFoundFromTheStepAndFromItsItems) {
  const TempDir dir;
  write_text(dir / "9/hfshard.json", "{}");
  write_text(dir / "9/items/manifest.ocdbt", "");
  EXPECT_EQ(step_directory(dir / "9"), dir / "9");
  EXPECT_EQ(step_directory(dir / "9/items"), dir / "9");
  EXPECT_EQ(step_directory(dir / "9/optimizer"), "") << "an item that doesn't exist";
}

TEST(OwnStep, IsThatOfTheStepsDirectlyAround) {
  const TempDir dir;
  for (const char* file : {"7/_CHECKPOINT_METADATA", "7/items/_METADATA", "7/items/manifest.ocdbt"})
    write_text(dir / ("run/" + std::string(file)), "{}");
  for (const char* place : {"run/7", "run/7/items"}) {
    const auto found = own_step(StorePath(dir / place));
    ASSERT_TRUE(found) << place;
    EXPECT_EQ(found->number, 7U);
    EXPECT_EQ(found->directory, "7");
  }
  EXPECT_FALSE(own_step(StorePath(dir / "run")));
  EXPECT_FALSE(own_step(StorePath(dir / "run/hf")));
}

TEST(StepChoiceOf, APlaceWithoutACheckpointHasNoSteps) {
  const TempDir dir;
  EXPECT_FALSE(step_choice(dir.path(), dir.path()).taken);
  EXPECT_FALSE(has_steps(StorePath(dir.path())));
}

TEST(ReadStepOf, AnIncompleteStepIsNamedWithOneThatIsComplete) {
  const TempDir dir;
  const auto failure = [&](std::optional<std::uint64_t> step) {
    return catch_error([&] { read_step(StorePath(dir.path()), step); });
  };
  const std::string parts = "/items/ocdbt.process_0/manifest.ocdbt";
  const std::string why = " is unfinished: its processes wrote their parts, but didn't merge them";
  for (const std::string& step : {dir / "3", dir / "7"}) {
    write_text(step + "/_CHECKPOINT_METADATA", "{}");
    write_text(step + "/items/_METADATA", "{}");
    write_text(step + parts, "");
  }
  EXPECT_EQ(failure(std::nullopt).sentence(), "step 7, the highest," + why);
  EXPECT_EQ(failure(3).sentence(), "step 3" + why);
  EXPECT_EQ(failure(3).hint_text(), "");
  write_text(dir / "7/items/manifest.ocdbt", "");
  EXPECT_EQ(failure(3).hint_text(), "pass --step 7 to read the highest complete step");
}

TEST(RefuseUnfinished, ARunNextToACheckpointIsNotedAndAnyOtherIsRefused) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  QuietReporter quiet;
  const std::string out = dir / "out";
  RunOptions run = to_output(out);
  run.workers = 2;
  hfshard::convert(source, small_options(), run, quiet);
  NotesReporter reporter;
  const auto refused = [&] {
    reporter.notes.clear();
    return catch_error([&] { refuse_unfinished(out, reporter); }).sentence();
  };
  const std::string sentence = refused();
  EXPECT_TRUE(sentence.starts_with("the output isn't finished: ")) << sentence;
  PlanOptions files;
  files.target = "safetensors";
  files.mapping.scheme = "hf";
  for (const PlanOptions& options : {files, small_options()}) {
    std::filesystem::remove_all(out);
    hfshard::convert(source, options, to_output(dir / "done"), quiet);
    std::filesystem::rename(dir / "done", out);
    reporter.notes.clear();
    refuse_unfinished(out, reporter);
    ASSERT_EQ(reporter.notes.size(), 1U);
    EXPECT_TRUE(reporter.notes[0].starts_with("step 0 of " + out + " isn't finished: "));
  }
  std::filesystem::remove(out + "/0/_CHECKPOINT_METADATA");
  EXPECT_EQ(refused(), sentence) << "its only step has no commit file";
  EXPECT_TRUE(reporter.notes.empty());
}

TEST(OpenRemains, AFileThatIsAwaitedIsNotDamage) {
  const TempDir dir;
  write_text(dir / "hfshard.links.json",
             R"({"files": [{"path": "a.safetensors", "bytes": 4, "source": "/cache/model/a"}]})");
  std::vector<bool> asked;
  const auto open = [&](bool despite_loss) -> std::unique_ptr<Checkpoint> {
    asked.push_back(despite_loss);
    if (despite_loss) return nullptr;
    throw Error(ErrorCode::not_found, "a data file of the checkpoint is missing");
  };
  const Error awaited = catch_error([&] { open_remains(open, dir.path()); });
  EXPECT_EQ(awaited.hint_text(), "it isn't in the cache yet; run: hfshard fetch /cache/model");
  EXPECT_EQ(asked, std::vector<bool>{false});
  // Without a list of linked files, or if they are there, it is damage.
  open_remains(open, "");
  write_text(dir / "a.safetensors", "abcd");
  open_remains(open, dir.path());
  EXPECT_EQ(asked, (std::vector<bool>{false, false, true, false, true}));
}

}  // namespace
}  // namespace hfshard
