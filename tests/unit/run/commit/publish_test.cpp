#include "run/commit/publish.h"

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/run/run_support.h"
#include "unit/run/way_back.h"

namespace hfshard {
namespace {

class PublishTest : public testing::Test {
 protected:
  Plan plan_of_step(std::uint64_t step, std::uint64_t chunk_bytes = 64) const {
    PlanOptions options = small_options();
    options.step = step;
    options.chunk_bytes = chunk_bytes;
    return small_plan(source_, options);
  }
  void expect_verified(std::uint64_t step) const {
    const std::string directory = join_path(out_, std::to_string(step));
    QuietReporter reporter;
    const auto opened = format_of("orbax").open(directory);
    const VerifyResult result = verify_digests(
        *opened, read_manifest(join_path(directory, kManifestName)), to_output(out_), reporter);
    EXPECT_TRUE(result.differences.empty());
    EXPECT_GT(result.chunks, 100U);
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

TEST_F(PublishTest, AStepIsAddedToARootAndTheOtherStepsStay) {
  convert(plan_of_step(3), to_output(out_));
  const auto first = tree_of(join_path(out_, "3"));
  convert(plan_of_step(5), to_output(out_));
  EXPECT_EQ(differing(first, tree_of(join_path(out_, "3"))), "");
  EXPECT_EQ(list_directory(out_), (std::vector<std::string>{"3", "5", "hf"}));
  EXPECT_EQ(list_directory(dir_.path()), (std::vector<std::string>{"out", "source"}));
  expect_verified(3);
  expect_verified(5);
}

TEST_F(PublishTest, AnExistingStepIsRefusedAndStays) {
  convert(plan_of_step(0), to_output(out_));
  const auto before = tree_of(dir_.path());
  const Error error = catch_error([&] { convert(plan_of_step(0, 128), to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(differing(before, tree_of(dir_.path())), "");
}

TEST_F(PublishTest, OverwriteExchangesOneStepAndKeepsTheOthers) {
  convert(plan_of_step(0), to_output(out_));
  convert(plan_of_step(1), to_output(out_));
  const auto other = tree_of(join_path(out_, "1"));
  const auto old = tree_of(join_path(out_, "0"));
  RunOptions options = to_output(out_);
  options.overwrite = true;
  const Plan wanted = plan_of_step(0, 128);
  EXPECT_TRUE(convert(wanted, options).published);
  EXPECT_EQ(differing(other, tree_of(join_path(out_, "1"))), "");
  EXPECT_NE(differing(old, tree_of(join_path(out_, "0"))), "");
  EXPECT_EQ(published_plan_id(format_of("orbax"), join_path(out_, "0")), wanted.id());
  // Only the step's own directory has it, not directories above and below.
  EXPECT_EQ(published_plan_id(format_of("orbax"), out_), "");
  EXPECT_EQ(published_plan_id(format_of("orbax"), join_path(out_, "0/items")), "");
  EXPECT_EQ(list_directory(dir_.path()), (std::vector<std::string>{"out", "source"}));
  expect_verified(0);
}

TEST_F(PublishTest, AnOverwriteThatFailsLeavesTheOldStep) {
  convert(plan_of_step(0), to_output(out_));
  const auto old = tree_of(out_);
  RunOptions options = to_output(out_);
  options.overwrite = true;
  const Hook hook = [](Stage stage, const Tile& tile) {
    if (stage == Stage::commit && tile.begin_address > 0) throw std::runtime_error("planted");
  };
  EXPECT_THROW(convert(plan_of_step(0, 128), options, hook), std::runtime_error);
  EXPECT_EQ(differing(old, tree_of(out_)), "");
}

TEST_F(PublishTest, AStepIsRefusedIfTheConfigOfItsRootIsAnother) {
  convert(plan_of_step(3), to_output(out_));
  const std::string path = join_path(out_, "hf/config.json");
  std::string text = read_file(path);
  const std::size_t at = text.find("bfloat16");
  ASSERT_NE(at, std::string::npos);
  write_text(path, text.replace(at, 8, "bfloat61"));
  const Error error = catch_error([&] { convert(plan_of_step(5), to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the root's Hugging Face files differ from this source's");
  EXPECT_FALSE(exists(out_paths(out_).staging)) << "before anything is written";
  std::filesystem::remove(path);
  EXPECT_EQ(catch_error([&] { convert(plan_of_step(5), to_output(out_)); }).sentence(),
            "the root's Hugging Face files differ from this source's");
}

// Its config.json differs from the source's, and both steps have the same.
TEST_F(PublishTest, StepsWithTheFirstLayersShareTheirConfig) {
  const auto plan_of = [&](std::uint64_t step, std::uint64_t layers) {
    PlanOptions options = small_options();
    options.step = step;
    options.mapping.num_layers = layers;
    return small_plan(source_, options);
  };
  convert(plan_of(3, 1), to_output(out_));
  EXPECT_TRUE(convert(plan_of(5, 1), to_output(out_)).published);
  const Error error = catch_error([&] { convert(plan_of(7, 2), to_output(out_)); });
  EXPECT_EQ(error.sentence(), "the root's Hugging Face files differ from this source's");
}

TEST_F(PublishTest, StepsOfOneRootBelongToOneModel) {
  convert(plan_of_step(0), to_output(out_));
  const auto before = tree_of(out_);
  write_text(join_path(source_, "generation_config.json"), "{}");
  const Error error = catch_error([&] { convert(plan_of_step(1), to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), join_path(out_, "hf"));
  EXPECT_EQ(differing(before, tree_of(out_)), "");
}

TEST_F(PublishTest, CarriedFilesAreComparedByTheirBytes) {
  const std::string rest(kMiB, ' ');
  write_text(join_path(source_, "generation_config.json"), "{}" + rest);
  convert(plan_of_step(0), to_output(out_));
  write_text(join_path(source_, "generation_config.json"), "[]" + rest);
  const auto before = tree_of(out_);
  const Error error = catch_error([&] { convert(plan_of_step(1), to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), join_path(out_, "hf"));
  RunOptions options = to_output(out_);
  options.overwrite = true;
  EXPECT_EQ(catch_error([&] { convert(plan_of_step(1), options); }).code(), ErrorCode::conflict)
      << "hf/ belongs to step 0 as well";
  EXPECT_EQ(differing(before, tree_of(out_)), "");
  EXPECT_TRUE(clean_staging(out_paths(out_)));
  convert(plan_of_step(0, 128), options);
  EXPECT_EQ(read_file(join_path(out_, "hf/generation_config.json")), "[]" + rest);
}

TEST_F(PublishTest, AStepBringsTheHfThatItsRootLacks) {
  convert(plan_of_step(0), to_output(out_));
  const auto carried = tree_of(join_path(out_, "hf"));
  remove_tree(join_path(out_, "hf"));
  EXPECT_TRUE(convert(plan_of_step(1), to_output(out_)).published);
  EXPECT_EQ(tree_of(join_path(out_, "hf")), carried);
}

// hf/ is a common name, and exchanged directories are removed in the end.
TEST_F(PublishTest, AnHfThatHfshardDidNotWriteStays) {
  RunOptions options = to_output(out_);
  options.overwrite = true;
  for (const std::string what : {"a note beside ours", "a directory", "a link", "a link below it",
                                 "a file", "nobody's root"}) {
    SCOPED_TRACE(what);
    convert(plan_of_step(0), to_output(out_));
    const std::string hf = join_path(out_, "hf");
    if (what == "a note beside ours") write_text(join_path(hf, "notes.txt"), "mine");
    if (what == "a directory") write_text(join_path(hf, "sub/config.json"), "mine");
    if (what == "a link") {
      rename_path(hf, dir_ / "theirs");
      write_text(dir_ / "theirs/config.json", "mine");
      std::filesystem::create_directory_symlink(dir_ / "theirs", hf);
    }
    if (what == "a link below it") {
      make_directories(dir_ / "empty");
      std::filesystem::create_directory_symlink(dir_ / "empty", join_path(hf, "theirs"));
    }
    if (what == "a file") {
      remove_tree(hf);
      write_text(hf, "mine");
    }
    if (what == "nobody's root") {
      write_text(join_path(hf, "config.json"), "mine");
      write_text(join_path(out_, "0/_CHECKPOINT_METADATA"), "{}");
    }
    const auto before = tree_of(out_);
    const Error error = catch_error([&] { convert(plan_of_step(0, 128), options); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), hf);
    EXPECT_EQ(differing(before, tree_of(out_)), "");
    EXPECT_TRUE(clean_staging(out_paths(out_)));
    EXPECT_EQ(differing(before, tree_of(out_)), "");
    remove_tree(out_);
  }
}

TEST_F(PublishTest, AnHfWithALinkToNothingStays) {
  convert(plan_of_step(0), to_output(out_));
  const std::string link = join_path(out_, "hf/theirs");
  std::filesystem::create_symlink("nothing", link);
  RunOptions options = to_output(out_);
  options.overwrite = true;
  EXPECT_EQ(catch_error([&] { convert(plan_of_step(0, 128), options); }).file(),
            join_path(out_, "hf"));
  EXPECT_TRUE(is_symlink(link));
}

TEST_F(PublishTest, AStepThatIsNoCheckpointIsNotOverwritten) {
  RunOptions options = to_output(out_);
  options.overwrite = true;
  for (const std::string what : {"alone", "beside a checkpoint", "a link to a checkpoint"}) {
    SCOPED_TRACE(what);
    if (what != "alone") convert(plan_of_step(7), to_output(out_));
    if (what == "a link to a checkpoint") {
      std::filesystem::create_directory_symlink("7", join_path(out_, "0"));
    } else {
      write_text(join_path(out_, "0/notes.txt"), "mine");
    }
    const auto before = tree_of(dir_.path());
    for (const bool resume : {false, true}) {
      options.resume = resume;
      const Error error = catch_error([&] { convert(plan_of_step(0), options); });
      EXPECT_EQ(error.code(), ErrorCode::conflict);
      EXPECT_EQ(differing(before, tree_of(dir_.path())), "");
    }
    remove_tree(out_);
  }
}

// Simulates another program that makes the output's directory.
std::string g_appears;
int appear_meanwhile(const char* call, const char* path) {
  const bool due = std::string_view(call) == "fdatasync" &&
                   std::string_view(path).ends_with("/hfshard.json.tmp") && !g_appears.empty();
  if (due) write_text(std::exchange(g_appears, {}), "mine");
  return 0;
}

// OUT is checked again after everything is written, which can be hours later.
TEST_F(PublishTest, WhatCameToOutMeanwhileStays) {
  RunOptions options = to_output(out_);
  options.overwrite = true;
  const std::string notes = join_path(out_, "0/notes.txt");
  g_appears = notes;
  sys::set_fault_hook(&appear_meanwhile);
  const Error error = catch_error([&] { convert(plan_of_step(0), options); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(read_file(notes), "mine");
  remove_tree(out_);
  EXPECT_TRUE(convert(plan_of_step(0), options).published);
}

// Simulates another program that makes the output's directory when staging's marker is opened.
int appear_at_marker(const char* /*call*/, const char* path) {
  const bool due = std::string_view(path).ends_with(OwnedDirectory::kMarker) && !g_appears.empty();
  if (due) write_text(std::exchange(g_appears, {}), "mine");
  return 0;
}

// An earlier run's work stays, and so does staging that other workers share. Only staging that this
// run just made goes.
TEST_F(PublishTest, StagingGoesOnlyWithTheRunThatMadeIt) {
  const Plan plan = plan_of_step(0);
  const std::string staging = out_paths(out_).staging;
  const auto refused = [&](RunOptions options) {
    options.resume = true;
    g_appears = join_path(out_, "0/notes.txt");
    sys::set_fault_hook(&appear_at_marker);
    const Error error = catch_error([&] { convert(plan, options); });
    sys::set_fault_hook(nullptr);
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(tree_of(out_).size(), 2U);
    remove_tree(out_);
  };
  refused(to_output(out_));
  EXPECT_FALSE(exists(staging));
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  refused(worker);
  EXPECT_TRUE(exists(staging)) << "another worker can be about to begin";
  convert(plan, worker);
  const auto written = tree_of(staging);
  refused(to_output(out_));
  EXPECT_EQ(differing(written, tree_of(staging)), "");
}

// Describing can take long: with digests, finalize reads all linked data first.
TEST_F(PublishTest, FinalizeRefusesAnOutputBeforeItDescribesIt) {
  const Plan plan = plan_of_step(0);
  RunOptions options = to_output(out_);
  options.workers = 2;
  for (options.worker = 0; options.worker < 2; ++options.worker) convert(plan, options);
  const auto written = tree_of(out_paths(out_).staging);
  write_text(join_path(out_, "notes.txt"), "mine");
  QuietReporter reporter;
  const Error error =
      catch_error([&] { run_finalize(plan, format_of("orbax"), to_output(out_), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(differing(written, tree_of(out_paths(out_).staging)), "");
}

int dies_at_removal(const char* call, const char* path) {
  const bool journal = std::string_view(path).find("/journal.") != std::string_view::npos;
  return journal && std::string_view(call) == "unlink" ? EIO : 0;
}

// A finalize that died after its rename left staging, or part of it.
TEST_F(PublishTest, FinalizeKnowsWhatIsPublishedAlready) {
  const Plan plan = plan_of_step(0);
  const Format& target = format_of("orbax");
  QuietReporter reporter;
  RunOptions options = to_output(out_);
  options.workers = 2;
  for (const std::uint32_t worker : {0U, 1U}) {
    options.worker = worker;
    convert(plan, options);
  }
  const std::string staging = out_paths(out_).staging;
  sys::set_fault_hook(&dies_at_removal);
  EXPECT_THROW(run_finalize(plan, target, to_output(out_), reporter), Error);
  sys::set_fault_hook(nullptr);
  const auto published = tree_of(out_);
  EXPECT_TRUE(exists(staging));
  const RunResult result = run_finalize(plan, target, to_output(out_), reporter);
  EXPECT_TRUE(result.already_done);
  EXPECT_FALSE(result.published);
  EXPECT_FALSE(exists(staging));
  EXPECT_EQ(differing(published, tree_of(out_)), "");
}

// Workers wrote the same plan once more, and their data isn't published yet.
TEST_F(PublishTest, FinalizePublishesWhatWorkersWroteAgain) {
  const Plan plan = plan_of_step(0);
  convert(plan, to_output(out_));
  const auto published = tree_of(out_);
  RunOptions options = to_output(out_);
  options.workers = 2;
  options.overwrite = true;
  for (options.worker = 0; options.worker < 2; ++options.worker) convert(plan, options);
  QuietReporter reporter;
  options = to_output(out_);
  options.overwrite = true;
  const RunResult result = run_finalize(plan, format_of("orbax"), options, reporter);
  EXPECT_TRUE(result.published);
  EXPECT_FALSE(result.already_done);
  EXPECT_EQ(differing(published, tree_of(out_)), "");
  EXPECT_FALSE(exists(out_paths(out_).staging));
}

// The leftovers of a published step don't stop the next one.
TEST_F(PublishTest, ANewStepReplacesTheStagingOfAPublishedOne) {
  sys::set_fault_hook(&dies_at_removal);
  EXPECT_THROW(convert(plan_of_step(0), to_output(out_)), Error);
  sys::set_fault_hook(nullptr);
  EXPECT_TRUE(exists(join_path(out_paths(out_).staging, "journal.0-1.0000")));
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  worker.resume = true;
  EXPECT_EQ(catch_error([&] { convert(plan_of_step(1), worker); }).sentence(),
            "a run of this output was interrupted after it published");
  EXPECT_TRUE(convert(plan_of_step(1), to_output(out_)).published);
  EXPECT_FALSE(exists(out_paths(out_).staging));
  expect_verified(0);
  expect_verified(1);
}

TEST_F(PublishTest, ResumeOfAFinishedOutputDoesNothing) {
  const Plan plan = plan_of_step(0);
  convert(plan, to_output(out_));
  const auto before = tree_of(out_);
  RunOptions options = to_output(out_);
  options.resume = true;
  const RunResult result = convert(plan, options);
  EXPECT_TRUE(result.already_done);
  EXPECT_EQ(result.written_bytes, 0U);
  EXPECT_EQ(differing(before, tree_of(out_)), "");
  EXPECT_EQ(catch_error([&] { convert(plan_of_step(0, 128), options); }).code(),
            ErrorCode::conflict);
}

// The identity of a tree covers its values, so no advice to compare them is due.
TEST_F(PublishTest, ResumeOfAFinishedExportOfATreeHasNoNote) {
  struct Notes : Reporter {
    void note(const std::string& text) override { all += text; }
    std::string all;
  } notes;
  const Plan model = plan_of_step(0);
  const Plan back = way_back(dir_, source_);
  convert(back, to_output(dir_ / "back"));
  convert(model, to_output(dir_ / "again"));
  RunOptions resume = to_output(dir_ / "back");
  resume.resume = true;
  EXPECT_TRUE(run_convert(back, format_of("safetensors"), resume, notes, {}).already_done);
  EXPECT_EQ(notes.all, "");
  resume.out = dir_ / "again";
  EXPECT_TRUE(run_convert(model, format_of("orbax"), resume, notes, {}).already_done);
  EXPECT_NE(notes.all.find("but no values"), std::string::npos) << notes.all;
}

// Resuming a finished output looks whether its files are still there.
class FinishedOutput : public PublishTest {
 protected:
  FinishedOutput() {
    write_text(join_path(source_, "tokenizer.json"), "{}");
    convert(plan_of_step(0), to_output(out_));
  }
  Error refused() const {
    RunOptions options = to_output(out_);
    options.resume = true;
    return catch_error([&] { convert(plan_of_step(0), options); });
  }
  // Returns the largest file of the arrays.
  std::string data_file() const {
    std::string largest;
    std::size_t most = 0;
    for (const auto& [path, bytes] : tree_of(join_path(out_, "0/items"))) {
      if (bytes.size() <= most) continue;
      most = bytes.size();
      largest = join_path(join_path(out_, "0/items"), path);
    }
    return largest;
  }
};

TEST_F(FinishedOutput, WithAFileOfAnotherSizeIsRefusedWithBothSizes) {
  const std::string file = data_file();
  const std::size_t written = read_file(file).size();
  for (const std::size_t size : {written - 1, written + 1}) {
    std::filesystem::resize_file(file, size);
    const Error error = refused();
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), file);
    const std::string sizes = std::to_string(size) + " bytes instead of " + std::to_string(written);
    EXPECT_NE(error.sentence().find(sizes), std::string::npos) << error.sentence();
  }
}

TEST_F(FinishedOutput, WithoutAFileOrWithADirectoryInItsPlaceIsRefused) {
  for (const std::string& file : {data_file(), join_path(out_, "hf/tokenizer.json")}) {
    const std::string bytes = read_file(file);
    for (const bool directory : {false, true}) {
      remove_tree(file);
      if (directory) make_directories(file);
      const Error error = refused();
      EXPECT_EQ(error.code(), ErrorCode::conflict);
      EXPECT_EQ(error.file(), file);
      EXPECT_NE(error.sentence().find("missing"), std::string::npos) << error.sentence();
    }
    remove_tree(file);
    write_text(file, bytes);
  }
}

TEST_F(PublishTest, TheNullTargetWritesNothing) {
  PlanOptions options = small_options();
  options.target = "null";
  const Plan plan = small_plan(source_, options);
  const auto before = tree_of(dir_.path());
  const RunResult result = convert(plan, to_output(out_));
  EXPECT_EQ(result.written_bytes, plan.end_address());
  EXPECT_FALSE(result.published);
  EXPECT_EQ(differing(before, tree_of(dir_.path())), "");
}

// Chunks that a checkpoint's database doesn't list are reported, each once.
TEST_F(PublishTest, ACompleteCheckpointLacksNoChunk) {
  convert(plan_of_step(0), to_output(out_));
  const auto opened = format_of("orbax").open(out_);
  std::uint64_t missing = 0;
  check_complete(*opened, [&](std::uint32_t, const Shape&) { ++missing; });
  EXPECT_EQ(missing, 0U);
  struct Lacking final : Checkpoint {
    explicit Lacking(const Checkpoint& of) : whole(of) {}
    const Catalog& catalog() const override { return whole.catalog(); }
    bool has_piece(std::uint32_t leaf, const Shape& chunk) const override {
      return leaf != 1 || chunk[0] != 2;
    }
    std::unique_ptr<PieceReader> open_piece(std::uint32_t, const Shape&, PieceSteps,
                                            std::span<std::byte>) const override {
      return nullptr;
    }
    std::uint64_t scratch_bytes(std::uint32_t, PieceSteps) const override { return 0; }
    const Checkpoint& whole;
  } const lacking(*opened);
  const Catalog& catalog = opened->catalog();
  const Shape counts = chunk_counts(catalog.tensors[1].shape, catalog.grid_of(1).chunk);
  ASSERT_GT(counts[0], 2U);
  check_complete(lacking, [&](std::uint32_t, const Shape&) { ++missing; });
  EXPECT_EQ(missing, counts.numel() / counts[0]);
}

}  // namespace
}  // namespace hfshard
