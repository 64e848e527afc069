#include "service/step.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

// Writes complete steps of Orbax.
void write_orbax_steps(const std::string& root, const std::vector<std::string>& steps) {
  for (const std::string& step : steps) {
    for (const char* file : {"/_CHECKPOINT_METADATA", "/items/_METADATA"})
      write_text(join_path(root, step) + file, "{}");
    write_text(join_path(root, step) + "/items/manifest.ocdbt", "");
  }
}

TEST(ReadStepOf, TheHighestOrTheNumberThatIsAskedForIsRead) {
  const TempDir dir;
  write_orbax_steps(dir.path(), {"3", "10", "7"});
  const StorePath root(dir.path());
  const auto read = [&](std::optional<std::uint64_t> asked) {
    const ReadStep step = read_step(root, asked);
    EXPECT_EQ(step.place.name(), dir / std::to_string(step.taken.value()));
    return std::pair(step.taken, step.others);
  };
  using Others = std::vector<std::uint64_t>;
  EXPECT_EQ(read(std::nullopt), std::pair(std::optional<std::uint64_t>(10), Others{3, 7}));
  EXPECT_EQ(read(7), std::pair(std::optional<std::uint64_t>(7), Others{3, 10}));
  const Error error = catch_error([&] { read_step(root, 8); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "step 8 doesn't exist");
}

TEST(ReadStepOf, AStepsOwnDirectoryTakesItsOwnNumber) {
  const TempDir dir;
  write_orbax_steps(dir.path(), {"7"});
  write_text(dir / "model/config.json", "{}");
  for (const std::string& place : {dir / "7", dir / "7/items"}) {
    EXPECT_FALSE(read_step(StorePath(place), std::nullopt).taken);
    const ReadStep own = read_step(StorePath(place), 7);
    EXPECT_EQ(own.taken, 7U);
    EXPECT_EQ(own.place.name(), place);
    const Error other = catch_error([&] { read_step(StorePath(place), 3, "a hint"); });
    EXPECT_EQ(other.code(), ErrorCode::usage);
    EXPECT_EQ(other.sentence(), "--step 3 was asked for, but this is step 7");
    EXPECT_EQ(other.file(), place);
    EXPECT_EQ(other.hint_text(), "a hint");
  }
  const Error none = catch_error([&] { read_step(StorePath(dir / "model"), 0); });
  EXPECT_EQ(none.code(), ErrorCode::usage);
  EXPECT_EQ(none.sentence(), "--step 0 selects a step of the source, and the source has no steps");
  EXPECT_EQ(none.hint_text(), "leave out --step");
  TreeOptions asked;
  asked.step = 4;
  EXPECT_EQ(catch_error([&] { read_source_step(StorePath(dir / "model"), asked); }).hint_text(),
            "pass --output-step 4 for the step to write");
  EXPECT_EQ(read_step(StorePath(dir / "model"), std::nullopt).place.name(), dir / "model");
}

TEST(StepChoiceOf, TheDirectoryThatIsTakenIsAStepOfThePlaceOrNone) {
  const TempDir dir;
  write_orbax_steps(dir.path(), {"3", "10", "7"});
  const StepChoice some = step_choice(dir.path(), dir / "7");
  EXPECT_EQ(some.taken, 7U);
  EXPECT_EQ(some.others, (std::vector<std::uint64_t>{3, 10}));
  const StepChoice other = step_choice(dir.path(), dir / "elsewhere");
  EXPECT_FALSE(other.taken);
  EXPECT_TRUE(other.others.empty());
  EXPECT_TRUE(has_steps(StorePath(dir.path())));
  EXPECT_FALSE(has_steps(StorePath(dir / "7")));
}

TEST(RefuseUnfinishedSource, AnOutputOfWorkersIsNotRead) {
  const TempDir dir;
  QuietReporter quiet;
  RunOptions run = to_output(dir / "out");
  run.workers = 2;
  hfshard::convert(copy_fixture("qwen3", dir / "source"), small_options(), run, quiet);
  for (const std::string& place : {dir / "out", dir / ".out.hfshard"}) {
    const Error error = catch_error([&] { refuse_unfinished_source(StorePath(place)); });
    EXPECT_EQ(error.code(), ErrorCode::not_found) << place;
    EXPECT_TRUE(error.sentence().starts_with("the output isn't finished: ")) << error.sentence();
  }
  EXPECT_NO_THROW(refuse_unfinished_source(StorePath(dir / "source")));
  EXPECT_NO_THROW(refuse_unfinished_source(StorePath(dir / "nothing")));
}

}  // namespace
}  // namespace hfshard
