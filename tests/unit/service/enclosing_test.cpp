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

TEST(RefuseInCheckpoint, ARelativeOutputInsideACheckpointIsRefused) {
  const TempDir dir;
  const std::string source = dir / "model.safetensors";
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(source);
  Reporter quiet;
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  const auto convert_to = [&](const std::string& out) {
    RunOptions run;
    run.out = out;
    hfshard::convert(source, plain, run, quiet);
  };
  convert_to(dir / "root");
  const auto refusal = [&](const std::string& inside, const std::string& out) {
    const Inside directory(dir / inside);
    const Error error = catch_error([&] { convert_to(out); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), out);
    RunOptions run;
    run.out = out;
    EXPECT_EQ(catch_error([&] { plan(source, plain, run, {}); }).sentence(), error.sentence());
    return error.sentence() + "; " + error.hint_text();
  };
  EXPECT_EQ(refusal("root", "7"),
            "the output would be a step of the checkpoint around it; pass ., and the step with "
            "--output-step 7");
  EXPECT_EQ(
      refusal("root/0", "more"),
      "the output is inside a step of a checkpoint; pass an output outside of " + dir / "root/0");
}

// hfshard doesn't write such files, so they have no steps.
TEST(RefuseInCheckpoint, AnOutputNextToAFileOfTorchSaveCanBeInsideACheckpoint) {
  const TempDir dir;
  const std::string source = dir / "model.safetensors";
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(source);
  Reporter quiet;
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  RunOptions run;
  run.out = dir / "root";
  hfshard::convert(source, plain, run, quiet);
  write_text(dir / "root/0/other/pytorch_model.bin", torch_archive(DType::u8, {4}, "abcd"));
  run.out = dir / "root/0/other/more";
  const Error error = catch_error([&] { hfshard::convert(source, plain, run, quiet); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output is inside a step of a checkpoint");
}

}  // namespace
}  // namespace hfshard
