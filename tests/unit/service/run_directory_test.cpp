#include "service/run_directory.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

void write_steps(const std::string& root) {
  for (const char* file : {"/7/_CHECKPOINT_METADATA", "/7/items/_METADATA"})
    write_text(root + file, "{}");
  write_text(root + "/7/items/manifest.ocdbt", "");
}

TEST(CheckpointOfRun, OnlyADirectoryWithSuchANameAndATreeIsTheCheckpoint) {
  const TempDir dir;
  const std::string run = dir / "run";
  write_text(run + "/checkpoint", "a file");
  write_text(run + "/pytorch_model_fsdp_0/notes.txt", "no tree");
  write_text(run + "/logs/events", "");
  EXPECT_EQ(checkpoint_of_run(run), run);
  EXPECT_EQ(checkpoint_of_run(dir / "nothing"), dir / "nothing");
  EXPECT_EQ(checkpoint_of_run(run + "/checkpoint"), run + "/checkpoint");
  write_steps(run + "/checkpoints");
  EXPECT_EQ(checkpoint_of_run(run), run + "/checkpoints");
  EXPECT_EQ(checkpoint_of_run(run + "/checkpoints"), run + "/checkpoints") << "it is one";
}

TEST(CheckpointOfRun, DirectoriesOfOtherNamesAreOnlyProposed) {
  const TempDir dir;
  const std::string run = dir / "run";
  write_steps(run + "/.trash");
  write_text(run + "/empty/notes.txt", "");
  EXPECT_EQ(checkpoint_of_run(run), run);
  write_steps(run + "/mine");
  const Error error = catch_error([&] { checkpoint_of_run(run); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), run);
  EXPECT_NE(error.hint_text().find(run + "/mine"), std::string::npos) << error.hint_text();
  EXPECT_EQ(error.hint_text().find(".trash"), std::string::npos) << error.hint_text();
  EXPECT_EQ(error.hint_text().find("empty"), std::string::npos) << error.hint_text();
}

TEST(InRun, OtherDirectoriesAreNamedAndTheModelsFilesAreNot) {
  const TempDir dir;
  const std::string run = dir / "run";
  write_steps(run + "/checkpoints");
  for (const char* name : {"config.json", ".hidden", "tensorboard/events"})
    write_text(run + "/" + name, "{}");
  std::vector<std::string> notes;
  SourceName source(run);
  source.hub.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(in_run(source).text, run + "/checkpoints");
  EXPECT_EQ(notes,
            std::vector<std::string>{"reading " + run + "/checkpoints; not read: \"tensorboard\""});
  EXPECT_EQ(in_run(SourceName(run + "/checkpoints")).text, run + "/checkpoints");
}

TEST(CheckpointOfRun, FourOfManyDirectoriesAreProposed) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c", "d", "e"}) write_steps(dir / name);
  const Error error = catch_error([&] { checkpoint_of_run(dir.path()); });
  EXPECT_EQ(error.hint_text(), "pass one of the checkpoints below it: " + (dir / "a") + ", " +
                                   (dir / "b") + ", " + (dir / "c") + ", " + (dir / "d"));
}

TEST(CheckpointOfRun, SeveralCheckpointsAreAnErrorThatNamesThem) {
  const TempDir dir;
  const std::string run = dir / "run";
  for (const char* name : {"/checkpoint", "/checkpoints", "/pytorch_model_fsdp_1"})
    write_steps(run + name);
  const Error error = catch_error([&] { checkpoint_of_run(run); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "the directory has 3 checkpoints: checkpoints, checkpoint, pytorch_model_fsdp_1");
  EXPECT_EQ(error.file(), run);
  EXPECT_EQ(error.hint_text(), "name one of them: " + run + "/checkpoints");
}

TEST(CheckpointOfRun, ModelsAreProposedNextToATreeOnly) {
  const TempDir dir;
  SafetensorsBuilder builder;
  builder.tensor("w", DType::u8, {4});
  write_text(dir / "model/model.safetensors", builder.build());
  EXPECT_EQ(checkpoint_of_run(dir.path()), dir.path());
  write_steps(dir / "runs/checkpoints");
  EXPECT_EQ(catch_error([&] { checkpoint_of_run(dir.path()); }).hint_text(),
            "pass one of the checkpoints below it: " + (dir / "model") + ", " + (dir / "runs"));
}

TEST(ModelPlace, FilesOfAccelerateAreNextToTheTree) {
  EXPECT_EQ(model_place(StorePath("run/pytorch_model_fsdp_0")).text(), "run");
  EXPECT_EQ(model_place(StorePath("run/checkpoints")).text(), "run/checkpoints");
  EXPECT_EQ(model_place(StorePath("run/pytorch_model_fsdp_x")).text(), "run/pytorch_model_fsdp_x");
}

TEST(InRun, ARunWithNothingElseHasAShortNote) {
  const TempDir dir;
  write_steps(dir / "run/checkpoint");
  std::vector<std::string> notes;
  SourceName source(dir / "run");
  source.step = 7;
  source.hub.note = [&](const std::string& note) { notes.push_back(note); };
  const SourceName found = in_run(source);
  EXPECT_EQ(found.text, dir / "run/checkpoint");
  EXPECT_EQ(found.step, 7U);
  EXPECT_EQ(notes, std::vector<std::string>{"reading " + (dir / "run/checkpoint")});
  source.hub.note = {};
  EXPECT_EQ(in_run(source).text, dir / "run/checkpoint");
}

}  // namespace
}  // namespace hfshard
