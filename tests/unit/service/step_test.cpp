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

}  // namespace
}  // namespace hfshard
