#include "service/step.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

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

}  // namespace
}  // namespace hfshard
