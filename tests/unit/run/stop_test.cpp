// A run checks for Ctrl-C at every step that can take longer than an instant. Until the last rename
// nothing is published.

#include "run/engine/stop.h"

#include <atomic>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include "run/check/gaps.h"
#include "run/check/output_manifest.h"
#include "run/commit/publish.h"
#include "support/catch_error.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// Simulates Ctrl-C at the N-th call with a name, on a path with that ending.
std::atomic<bool> stop = false;
std::atomic<int> calls_before = 0;
std::atomic<int> calls_after = 0;
std::string wanted_call;
std::string wanted_part;

int press(const char* call, const char* path) {
  if (wanted_call != call || std::string_view(path).find(wanted_part) == std::string_view::npos)
    return 0;
  if (stop) ++calls_after;
  if (--calls_before == 0) stop = true;
  return 0;
}

void press_at(const std::string& call, int nth, const std::string& part) {
  stop = false;
  calls_before = nth;
  calls_after = 0;
  wanted_call = call;
  wanted_part = part;
  sys::set_fault_hook(&press);
}

class StopTest : public testing::Test {
 protected:
  ~StopTest() override { sys::set_fault_hook(nullptr); }
  RunOptions stoppable() const {
    RunOptions options = to_output(out_);
    options.stop = &stop;
    return options;
  }
  // Stops at that call. Nothing is at OUT, and resuming gives the result of one run.
  void expect_resumable(const Plan& plan, const RunOptions& options) {
    const Error error = catch_error([&] { convert(plan, options); });
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
    EXPECT_EQ(error.sentence(), "stopped; hfshard kept everything written so far");
    EXPECT_NE(error.hint_text().find("--resume"), std::string::npos);
    EXPECT_TRUE(stop) << "the call never came";
    sys::set_fault_hook(nullptr);
    EXPECT_FALSE(exists(out_));
    stop = false;
    RunOptions resumed = options;
    resumed.resume = true;
    EXPECT_TRUE(convert(plan, resumed).published);
    RunOptions alone = options;
    alone.out = dir_ / "alone";
    convert(plan, alone);
    EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "alone")), "");
    for (const char* name : {"out", "alone"}) remove_tree(dir_ / name);
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

// Drops the largest tensor as a copy of another one.
PlanParts with_copy(const Plan& plan) {
  std::uint32_t largest = 0;
  for (std::uint32_t i = 0; i < plan.catalog().tensors.size(); ++i) {
    if (plan.catalog().tensors[i].size_bytes > plan.catalog().tensors[largest].size_bytes)
      largest = i;
  }
  Drop drop;
  drop.source = largest;
  drop.same_as = largest;
  PlanParts out(plan);
  out.model.drops.push_back(drop);
  return out;
}

TEST_F(StopTest, IsSeenWhileCopiesAreCompared) {
  const Plan plan = with_copy(small_plan(source_)).build();
  ASSERT_GT(plan.catalog().tensors[plan.model().drops.back().source].size_bytes, 6 * 256U);
  press_at("pread", 5, ".safetensors");
  const Error error = catch_error([&] { convert(plan, stoppable()); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(error.sentence(), "stopped; hfshard kept nothing");
  EXPECT_EQ(error.hint_text(), "run the same command again to start over");
  EXPECT_LE(calls_after, 1);  // the other copy of the same segment
}

TEST_F(StopTest, WhatAnEarlierRunPublishedIsNotWhatThisOneKept) {
  const Plan plan = with_copy(small_plan(source_)).build();
  convert(plan, to_output(out_));
  RunOptions again = stoppable();
  again.overwrite = true;
  press_at("pread", 5, ".safetensors");
  EXPECT_EQ(catch_error([&] { convert(plan, again); }).sentence(), "stopped; hfshard kept nothing");
}

TEST_F(StopTest, IsSeenWhilePublishing) {
  write_text(join_path(source_, "tokenizer.json"), "{}");
  const Plan plan = small_plan(source_);
  for (const auto& [call, part] : std::vector<std::pair<const char*, const char*>>{
           {"pwrite", "hfshard.json.tmp"},  // side files
           {"pwrite", "/items/d/btree.tmp"},
           {"open", "/hf/tokenizer"},  // copied files
           {"fsync", "/out/hf"},
           {"pread", "/items/manifest.ocdbt"}}) {  // checking the staged tree
    SCOPED_TRACE(part);
    press_at(call, 1, part);
    expect_resumable(plan, stoppable());
  }
}

// Metadata grow with the chunks. After a stop, none are written.
TEST_F(StopTest, IsSeenBetweenPiecesOfMetadata) {
  press_at("pwrite", 1, ".tmp");
  expect_resumable(small_plan(source_), stoppable());
  EXPECT_EQ(calls_after, 0);
}

TEST_F(StopTest, IsSeenByFinalize) {
  const Plan plan = small_plan(source_);
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  for (worker.worker = 0; worker.worker < 2; ++worker.worker) convert(plan, worker);
  QuietReporter reporter;
  press_at("pwrite", 1, ".tmp");
  const Error error =
      catch_error([&] { run_finalize(plan, format_of("orbax"), stoppable(), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(calls_after, 0);
  EXPECT_FALSE(exists(out_));
  stop = false;
  EXPECT_TRUE(run_finalize(plan, format_of("orbax"), stoppable(), reporter).published);
}

// Stops when the second chunk is looked up.
class Stopping final : public Checkpoint {
 public:
  explicit Stopping(const Checkpoint& of) : whole_(of) {}
  const Catalog& catalog() const override { return whole_.catalog(); }
  bool has_piece(std::uint32_t, const Shape&) const override {
    stop = ++asked == 2;
    return true;
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t, const Shape&, PieceSteps,
                                          std::span<std::byte>) const override {
    return nullptr;
  }
  std::uint64_t scratch_bytes(std::uint32_t, PieceSteps) const override { return 0; }
  mutable std::uint64_t asked = 0;

 private:
  const Checkpoint& whole_;
};

TEST_F(StopTest, IsSeenWhileChunksAreLookedUp) {
  convert(small_plan(source_), to_output(out_));
  const auto opened = format_of("orbax").open(out_);
  const Stopping stopping(*opened);
  stop = false;
  check_complete(
      stopping, [](std::uint32_t, const Shape&) { ADD_FAILURE(); }, &stop);
  EXPECT_EQ(stopping.asked, 2U);
}

TEST_F(StopTest, IsSeenBetweenTheGapsOfAFile) {
  convert(small_plan(source_), to_output(out_));
  const std::string step = join_path(out_, "0");
  const auto opened = format_of("orbax").open(step);
  const Manifest manifest = read_manifest(join_path(step, "hfshard.json"));
  VerifyResult result;
  press_at("pread", 1, "/items/d/00000");
  const Error error =
      catch_error([&] { verify_gaps(*opened, manifest.files.data, step, stoppable(), result); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(calls_after, 0);
}

TEST_F(StopTest, IsSeenWhileALinkIsHashed) {
  PlanOptions wanted = small_options();
  wanted.mapping.scheme = "hf";
  wanted.link = true;
  wanted.digests = true;
  wanted.meshes.clear();
  press_at("pread", 3, "/items/d/model-");
  expect_resumable(small_plan(source_, wanted), stoppable());
}

// Copied files can be large, so each is copied in pieces.
TEST_F(StopTest, IsSeenWithinACarriedFile) {
  write_text(join_path(source_, "tokenizer.model"), std::string(std::size_t{8} << 20, 't'));
  const Plan plan = small_plan(source_);
  press_at("pread", 2, "/source/tokenizer.model");
  expect_resumable(plan, stoppable());
  EXPECT_LE(calls_after, 1);
}

// After the note, a run counts as published.
TEST_F(StopTest, ComesTooLateOnceTheRenameIsNear) {
  const Plan plan = small_plan(source_);
  press_at("rename", 1, "publishing.json.tmp");
  EXPECT_TRUE(convert(plan, stoppable()).published);
  EXPECT_TRUE(stop);
  EXPECT_FALSE(exists(out_paths(out_).staging));
}

// The comparison covers more than the first segment, and the last byte too.
TEST_F(StopTest, CopiesAreComparedToTheirLastByte) {
  PlanParts plan = with_copy(small_plan(source_));
  const TensorInfo one = plan.catalog.tensors[plan.model.drops.back().source];
  std::string text = plan.catalog.files[one.file].path.read();
  const auto add_file = [&](const std::string& name) {
    const std::string path = dir_ / name;
    write_text(path, text);
    CatalogFile file = plan.catalog.files[one.file];
    file.path = path;
    const FileIdentity now = file.path.find()->identity;
    file.version = now.version;
    file.inodes = now.inodes;
    TensorInfo other = one;
    other.name = "copy in " + name;
    other.file = static_cast<std::uint32_t>(plan.catalog.files.size());
    plan.catalog.files.push_back(file);
    plan.catalog.tensors.push_back(other);
    plan.model.drops.back().same_as = static_cast<std::uint32_t>(plan.catalog.tensors.size() - 1);
  };
  add_file("equal");
  EXPECT_TRUE(convert(plan.build(), to_output(dir_ / "one")).published);
  text[one.begin_bytes + one.size_bytes - 1] ^= 1;
  add_file("last");
  const Error error = catch_error([&] { convert(plan.build(), to_output(dir_ / "two")); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), one.name);
  EXPECT_EQ(error.range().value().end, one.begin_bytes + one.size_bytes);
}

}  // namespace
}  // namespace hfshard
