// Outputs of convert and link: what finalize and clean report of them, and what can't be linked.

#include <atomic>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(FinalizeComplete, TheReportIsThatOfTheRecord) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3-moe", dir / "source");
  Reporter quiet;
  PlanOptions orbax = small_options();
  orbax.mapping.stacked = false;
  PlanOptions stacked = small_options();
  PlanOptions modules;
  modules.target = "dcp";
  modules.mapping.scheme = "hf";
  modules.mapping.dialect = "modules";
  PlanOptions files;
  files.target = "safetensors";
  files.mapping.scheme = "hf";
  int runs = 0;
  for (const PlanOptions& options : {orbax, stacked, modules, files}) {
    const std::string out = dir / ("out" + std::to_string(++runs));
    const ConvertReport made = convert(source, options, to_output(out), quiet);
    const ConvertReport again = finalize(to_output(out), quiet);
    EXPECT_TRUE(again.run.already_done);
    EXPECT_EQ(again.run.path, made.run.path);
    EXPECT_EQ(again.run.root_digest, made.run.root_digest);
    EXPECT_EQ(again.plan.id, made.plan.id);
    EXPECT_EQ(again.plan.identity, made.plan.identity);
    EXPECT_EQ(again.plan.family, made.plan.family);
    EXPECT_EQ(again.plan.scheme, options.mapping.scheme);
    EXPECT_EQ(again.plan.dialect, made.plan.dialect);
    EXPECT_EQ(again.plan.dialect, runs == 3 ? "modules" : "");
    EXPECT_EQ(again.plan.stacked, made.plan.stacked);
    EXPECT_EQ(again.plan.stacked, runs == 2);
  }
}

// A staging directory stands for its output.
TEST(CleanStaging, AnInterruptedOutputIsFoundByEitherName) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  const std::atomic<bool> stop = true;
  RunOptions run = to_output(dir / "out");
  run.stop = &stop;
  const std::string staging = dir / ".out.hfshard";
  for (const std::string& name : {run.out, staging}) {
    EXPECT_EQ(catch_error([&] { convert(source, {}, run, quiet); }).code(), ErrorCode::cancelled);
    ASSERT_TRUE(exists(staging));
    const CleanReport cleaned = clean(name);
    EXPECT_EQ(cleaned.path, staging);
    EXPECT_TRUE(cleaned.removed);
    EXPECT_FALSE(exists(staging));
  }
  const CleanReport nothing = clean(run.out);
  EXPECT_EQ(nothing.path, staging);
  EXPECT_FALSE(nothing.removed);
}

TEST(LinkData, AModelWithoutDataThatCanBeLinkedIsRefused) {
  const TempDir dir;
  const std::string source = dir / "model.safetensors";
  SafetensorsBuilder().tensor("b", DType::bf16, {2}).tensor("a", DType::bf16, {2}).write(source);
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.dtype = DType::f32;
  options.encoding.checksum = false;
  Reporter quiet;
  const Error error = catch_error(
      [&] { link(source, options, {.side_file = true}, to_output(dir / "out"), quiet); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(),
            "no data in this checkpoint can be linked; a: it is cast from bf16 to f32");
  EXPECT_EQ(error.file(), source);
  EXPECT_EQ(error.hint_text(), "use convert");
  EXPECT_FALSE(exists(dir / "out"));
}

TEST(LinkData, DigestsOfLinkedDataAreRecordedIfTheUserAsks) {
  const TempDir dir;
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.encoding.checksum = false;
  Reporter quiet;
  for (const bool digests : {false, true}) {
    const std::string source = dir / (digests ? "with" : "without") + "/model.safetensors";
    SafetensorsBuilder().tensor("x", DType::u8, {4}, "abcd").write(source);
    const auto written = std::filesystem::last_write_time(source);
    LinkOptions asked;
    asked.digests = digests;
    const std::string out = dir / (digests ? "out-with" : "out-without");
    link(source, options, asked, to_output(out), quiet);
    EXPECT_TRUE(verify(out, {}, to_output(""), quiet).differences.empty());
    std::string bytes = read_file(source);
    bytes.back() = 'x';
    write_text(source, bytes);
    std::filesystem::last_write_time(source, written);
    EXPECT_EQ(verify(out, {}, to_output(""), quiet).differences.empty(), !digests);
  }
}

TEST(LinkData, AModelIsLinkedInPlaceUnderItsOwnName) {
  const TempDir dir;
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir / "model/model.safetensors");
  std::filesystem::create_directory_symlink("model", dir / "other");
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.encoding.checksum = false;
  Reporter quiet;
  const ConvertReport report =
      link(dir / "other/../model/.", options, {.in_place = true}, {}, quiet);
  const std::string own = std::filesystem::canonical(dir / "model").string();
  EXPECT_EQ(report.run.path, own);
  EXPECT_EQ(report.plan.linked_leaves, 1U);
  EXPECT_TRUE(exists(dir / "model/hfshard.json"));
}

}  // namespace
}  // namespace hfshard
