#include "service/enclosing.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Runs in a directory, and returns to the one before it.
class Inside {
 public:
  explicit Inside(const std::string& directory) { std::filesystem::current_path(directory); }
  ~Inside() { std::filesystem::current_path(before_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

// Converts one tensor without a model.
class RefuseInCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    SafetensorsBuilder().tensor("x", DType::u8, {4}).write(source_);
    plain_.mapping.scheme = "hf";
    convert_to(dir_ / "root");
  }
  void convert_to(const std::string& out) {
    hfshard::convert(source_, plain_, to_output(out), quiet_);
  }

  TempDir dir_;
  std::string source_ = dir_ / "model.safetensors";
  Reporter quiet_;
  PlanOptions plain_;
};

TEST_F(RefuseInCheckpoint, ARelativeOutputInsideACheckpointIsRefused) {
  const auto refusal = [&](const std::string& inside, const std::string& out) {
    const Inside directory(dir_ / inside);
    const Error error = catch_error([&] { convert_to(out); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), out);
    EXPECT_EQ(catch_error([&] { plan(source_, plain_, to_output(out), {}); }).sentence(),
              error.sentence());
    return error.sentence() + "; " + error.hint_text();
  };
  EXPECT_EQ(refusal("root", "7"),
            "the output would be a step of the checkpoint around it; pass ., and the step with "
            "--output-step 7");
  EXPECT_EQ(
      refusal("root/0", "more"),
      "the output is inside a step of a checkpoint; pass an output outside of " + dir_ / "root/0");
}

// A run tells what is there.
TEST_F(RefuseInCheckpoint, AnOutputThatExistsIsRefusedForItself) {
  for (const char* out : {"root/0", "root/0/items"}) {
    const Error error = catch_error([&] { convert_to(dir_ / out); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.sentence().find("step of"), std::string::npos) << error.sentence();
  }
  std::filesystem::create_directory(dir_ / "root/0/empty");
  EXPECT_EQ(catch_error([&] { convert_to(dir_ / "root/0/empty"); }).sentence(),
            "the output is inside a step of a checkpoint");
}

// hfshard doesn't write such files, so they have no steps.
TEST_F(RefuseInCheckpoint, AnOutputNextToAFileOfTorchSaveCanBeInsideACheckpoint) {
  write_text(dir_ / "root/0/other/pytorch_model.bin", torch_archive(DType::u8, {4}, "abcd"));
  const Error error = catch_error([&] { convert_to(dir_ / "root/0/other/more"); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output is inside a step of a checkpoint");
}

}  // namespace
}  // namespace hfshard
