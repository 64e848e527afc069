#include "run/conversion.h"

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "run/commit/staging.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// A system call of a run, in order.
struct Call {
  std::string name;
  std::string path;
  bool on_journal() const { return path.find("/journal.") != std::string::npos; }
  // Returns whether it is for a data file, not for the database's own node file.
  bool on_data() const {
    const std::size_t at = path.rfind("/items/d/");
    return at != std::string::npos && path.find_first_not_of("0123456789", at + 9) == path.npos;
  }
};

std::mutex g_mutex;
std::vector<Call> g_calls;

int record_call(const char* call, const char* path) {
  const std::lock_guard lock(g_mutex);
  g_calls.push_back({call, path == nullptr ? "" : path});
  return 0;
}

std::vector<Call> calls_of(const Plan& plan, const std::string& out) {
  g_calls.clear();
  sys::set_fault_hook(&record_call);
  convert(plan, to_output(out));
  sys::set_fault_hook(nullptr);
  return g_calls;
}

// A record may only cover durable data. A power cut would show a missing sync, but a kill can't.
TEST(Convert, DataAndItsNameAreDurableBeforeTheRecordThatSpeaksOfThem) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  std::uint64_t records = 0;
  std::uint64_t data_syncs = 0;
  bool journal_synced = true;
  bool names_synced = false;
  std::set<std::string> ever_synced;
  for (const Call& call : calls_of(plan, dir / "out")) {
    if (call.name == "fdatasync" && call.on_data()) {
      ++data_syncs;
      ever_synced.insert(call.path);
    }
    names_synced = names_synced || (call.name == "fsync" && call.path.ends_with("/items/d"));
    if (call.name == "fdatasync" && call.on_journal()) journal_synced = true;
    if (call.name != "pwrite" || !call.on_journal()) continue;
    ++records;
    EXPECT_TRUE(journal_synced) << "record " << records << " follows one that is not durable";
    EXPECT_TRUE(names_synced) << "record " << records << " speaks of a file without a name";
    EXPECT_GT(data_syncs, 0U) << "record " << records << " speaks of data that is not durable";
    data_syncs = 0;
    journal_synced = false;
  }
  EXPECT_TRUE(journal_synced);
  EXPECT_GE(records, 20U);
  EXPECT_EQ(ever_synced.size(), plan.file_count());
}

// A data file without bytes of tensors still has its header.
TEST(Convert, AnEmptyTensorHasItsFile) {
  const TempDir dir;
  SafetensorsBuilder().tensor("w", DType::f32, {0, 4}).write(dir / "source/model.safetensors");
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const RunResult made = convert(small_plan(dir / "source", options), to_output(dir / "out"));
  EXPECT_TRUE(made.published);
  const auto opened = open_checkpoint(dir / "out");
  ASSERT_EQ(opened->catalog().tensors.size(), 1U);
  EXPECT_EQ(opened->catalog().tensors[0].shape, (Shape{0, 4}));
}

// A slow run loses at most this much time, even if it has written little.
TEST(Convert, ARecordIsWrittenWhenItsTimeIsUp) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Limits limits = small_limits();
  limits.commit_bytes = UINT64_MAX;
  const Plan rare = small_plan(source, small_options(), limits);
  EXPECT_LE(convert(rare, to_output(dir / "rare")).journal_records, 2U);
  limits.commit_ms = 0;
  const Plan often = small_plan(source, small_options(), limits);
  EXPECT_GE(convert(often, to_output(dir / "often")).journal_records, 20U);
}

// Everything that publishing makes visible is durable before the rename.
TEST(Convert, TheTreeIsDurableBeforeItIsRenamed) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const OutPaths paths = out_paths(dir / "out");
  std::set<std::string> synced;
  bool published = false;
  bool parent_synced = false;
  for (const Call& call : calls_of(plan, paths.out)) {
    if (call.name == "fsync" && !published) synced.insert(call.path);
    if (call.name == "fsync" && published) parent_synced |= call.path == paths.parent;
    if (call.name == "pwrite" && !call.on_journal()) {
      EXPECT_FALSE(published) << call.path << " is written after the rename";
    }
    published = published || (call.name.starts_with("rename") && call.path == paths.tree);
  }
  EXPECT_TRUE(published);
  EXPECT_TRUE(parent_synced);
  for (const char* below : {"", "/0", "/0/items", "/0/items/d", "/hf"}) {
    EXPECT_TRUE(synced.contains(paths.tree + below)) << below;
  }
}

// The output is also correct: the digests are those of the source, for any way of cutting the run.
TEST(Convert, WhatIsWrittenIsWhatTheSourceSays) {
  const TempDir dir;
  const std::string source = copy_fixture("mixtral", dir / "source");
  for (const bool stacked : {true, false}) {
    PlanOptions options = small_options();
    options.mapping.stacked = stacked;
    const Plan plan = small_plan(source, options);
    const std::string out = dir / (stacked ? "stacked" : "separate");
    const RunResult result = convert(plan, to_output(out));
    EXPECT_EQ(result.written_bytes, plan.end_address());
    QuietReporter reporter;
    const auto opened = format_of("orbax").open(out);
    const VerifyResult verified = verify_source(*opened, plan, to_output(out), reporter);
    EXPECT_TRUE(verified.differences.empty());
    EXPECT_EQ(verified.chunks, plan.totals().chunks);
    Manifest manifest = read_manifest(join_path(join_path(out, "0"), kManifestName));
    EXPECT_EQ(manifest.digests.root, result.root_digest);
    EXPECT_TRUE(
        verify_digests(*opened, std::move(manifest), to_output(out), reporter).differences.empty());
  }
}

// Source: pytorch/pytorch torch/distributed/tensor/placement_types.py, Shard (torch.chunk).
TEST(Convert, ADcpIsSplitAsShardSplitsIt) {
  const TempDir dir;
  SafetensorsBuilder().tensor("w", DType::f32, {10, 2}).write(dir / "model.safetensors");
  PlanOptions options = small_options();
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.meshes = {"fsdp=4"};
  EXPECT_EQ(small_plan(dir.path(), options).grids()[0].shard, (Shape{3, 2})) << "3, 3, 3, 1 rows";
}

TEST(Convert, ADiscardedOutputIsAnnouncedAndCounted) {
  struct Counter : Reporter {
    void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
      announced.push_back(total_bytes);
      EXPECT_EQ(already_done_bytes, 0U);
    }
    void advanced(std::uint64_t bytes) override {
      EXPECT_FALSE(announced.empty());
      done += bytes;
    }
    std::vector<std::uint64_t> announced;
    std::uint64_t done = 0;
  };
  const TempDir dir;
  PlanOptions options = small_options();
  options.target = "null";
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan plan = make_plan(source, options, format_of("null"), small_limits());
  Counter reporter;
  run_convert(plan, format_of("null"), to_output(""), reporter, {});
  EXPECT_EQ(reporter.announced, std::vector<std::uint64_t>{plan.end_address()});
  EXPECT_EQ(reporter.done, plan.end_address());
}

// Leaves the staging directory of a run that has no journal yet.
void leave_staging(const Plan& plan, const OutPaths& paths) {
  Staging staging(paths, false);
  staging.begin(plan);
  write_text(join_path(paths.step, "old"), "old");
}

// A kill after the rename leaves the staging directory.
TEST(Convert, AResumedRunThatIsDoneRemovesItsStagingDirectory) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan plan = small_plan(source);
  RunOptions options = to_output(dir / "out");
  convert(plan, options);
  const auto published = tree_of(options.out);
  const OutPaths paths = out_paths(plan, options.out);
  options.resume = true;
  leave_staging(plan, paths);
  EXPECT_TRUE(convert(plan, options).already_done);
  EXPECT_FALSE(exists(paths.staging));
  PlanOptions other = small_options();
  other.meshes = {"fsdp=2"};
  leave_staging(small_plan(source, other), paths);
  EXPECT_EQ(catch_error([&] { convert(plan, options); }).code(), ErrorCode::conflict);
  EXPECT_TRUE(exists(join_path(paths.step, "old"))) << "another run's";
  EXPECT_EQ(differing(published, tree_of(options.out)), "");
}

TEST(Convert, FinalizeOfAPublishedOutputRemovesAStagingDirectoryWithoutJournals) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const RunOptions options = to_output(dir / "out");
  convert(plan, options);
  const auto published = tree_of(options.out);
  const OutPaths paths = out_paths(plan, options.out);
  leave_staging(plan, paths);
  QuietReporter reporter;
  const RunResult result = run_finalize(plan, format_of("orbax"), options, reporter);
  EXPECT_TRUE(result.already_done);
  EXPECT_FALSE(result.published);
  EXPECT_FALSE(exists(paths.staging));
  EXPECT_EQ(differing(published, tree_of(options.out)), "");
}

}  // namespace
}  // namespace hfshard
