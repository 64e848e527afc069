#include "run/commit/staging.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/owned_directory.h"
#include "bytes/local/syscalls.h"
#include "run/commit/recover.h"
#include "support/catch_error.h"
#include "unit/run/commit/staging_fixture.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// `clean` removes the directory after a run opens its lock, and before it holds it.
std::string g_removed_meanwhile;
int remove_at_flock(const char* call, const char* /*path*/) {
  if (std::string_view(call) == "flock" && !g_removed_meanwhile.empty())
    std::filesystem::remove_all(std::exchange(g_removed_meanwhile, {}));
  return 0;
}

// An equal run publishes after this one checks OUT, and before it holds its lock.
std::string g_winner;
std::string g_winners_out;
int publish_at_flock(const char* call, const char* /*path*/) {
  if (std::string_view(call) == "flock" && !g_winner.empty())
    std::filesystem::rename(std::exchange(g_winner, {}), g_winners_out);
  return 0;
}

// A staging directory from elsewhere can have any record.
TEST_F(StagingTest, ADamagedRecordIsRefusedAndStays) {
  leave_halfway(small_plan(source_), out_);
  const std::string path = join_path(out_paths(out_).staging, kPlanRecordName);
  const Json record = parse_json(read_file(path), path);
  const auto expect_refused = [&](const std::string& text) {
    SCOPED_TRACE(text.substr(0, 200));
    write_text(path, text);
    const auto before = tree_of(out_paths(out_).staging);
    const Error error = refused(small_plan(source_), to_output(out_));
    EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::conflict)
        << error.format();
    EXPECT_EQ(differing(before, tree_of(out_paths(out_).staging)), "");
  };
  for (const char* value : {"null", "[]", "{}", "\"\"", "7", "[7]"}) {
    Json forged = record;
    forged["plan_id"] = parse_json(value, "value");
    expect_refused(dump_json(forged));
    forged = record;
    forged["sources"] = parse_json(value, "value");
    expect_refused(dump_json(forged));
    forged = record;
    forged["identity"] = parse_json(value, "value");
    write_text(path, dump_json(forged));  // finalize uses this
    EXPECT_EQ(catch_error([&] { read_staged_plan(out_); }).code(), ErrorCode::corrupt) << value;
  }
  Json renamed = record;
  renamed["sources"].array()[0]["name"] = "other.safetensors";
  expect_refused(dump_json(renamed));
  Json cut = record;
  cut["sources"].array()[0]["inodes"] = parse_json("[[1, 2, 3, 4]]", "value");
  expect_refused(dump_json(cut));
  Json shorter = record;
  shorter["sources"].array().pop_back();
  expect_refused(dump_json(shorter));
  Json longer = record;
  longer["sources"].array().push_back(record.at("sources").as_array()[0]);
  expect_refused(dump_json(longer));
  for (const char* text : {"", "{}", "[]", "{", "null"}) expect_refused(text);
  write_text(path, dump_json(record));
  EXPECT_TRUE(convert(small_plan(source_), to_output(out_)).published);
}

TEST_F(StagingTest, AnotherMeshIsRefusedAndNamed) {
  leave_halfway(small_plan(source_), out_);
  PlanOptions other = small_options();
  other.meshes = {"fsdp=2"};
  const Error error = refused(small_plan(source_, other), to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_NE(error.sentence().find("options.mesh"), std::string::npos) << error.sentence();
}

// Data is only written after the journal exists. A crash of the system can still lose the journal's
// name and keep data, so nothing of the old run may stay.
TEST_F(StagingTest, WithoutAJournalARunStartsWithTheSourceOfNowAndNothingOld) {
  const std::string file = join_path(source_, "model-00002-of-00002.safetensors");
  const std::string staging = out_paths(out_).staging;
  leave_halfway(small_plan(source_), out_);
  std::string text = read_file(file);
  text.back() ^= 1;
  write_text(file, text);
  EXPECT_EQ(refused(small_plan(source_), to_output(out_)).code(), ErrorCode::conflict);
  for (const std::string& name : list_directory(staging)) {
    if (name.starts_with("journal.")) write_text(join_path(staging, name), "");
  }
  EXPECT_EQ(refused(small_plan(source_), to_output(out_)).code(), ErrorCode::conflict);
  for (const std::string& name : list_directory(staging)) {
    if (name.starts_with("journal.")) remove_tree(join_path(staging, name));
  }
  write_text(join_path(out_paths(out_).tree, "stale"), "of the old run");
  RunOptions resume = to_output(out_);
  resume.resume = true;
  const RunResult result = convert(small_plan(source_), resume);
  EXPECT_EQ(result.skipped_bytes, 0U);
  EXPECT_FALSE(exists(staging));
  convert(small_plan(source_), to_output(dir_ / "fresh"));
  EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "fresh")), "");
}

TEST_F(StagingTest, AChangedSourceIsRefusedByName) {
  leave_halfway(small_plan(source_), out_);
  const std::string file = join_path(source_, "model-00002-of-00002.safetensors");
  const auto before = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, before + std::chrono::seconds(1));
  RunOptions resume = to_output(out_);
  resume.resume = true;
  const Error error = refused(small_plan(source_), resume);
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
  EXPECT_TRUE(exists(out_paths(out_).staging));
  // A program that restores the time can have written before.
  std::filesystem::last_write_time(file, before);
  EXPECT_EQ(refused(small_plan(source_), resume).code(), ErrorCode::conflict);
  EXPECT_TRUE(exists(out_paths(out_).staging));
}

TEST_F(StagingTest, ASourceThatChangesAfterPlanningIsRefused) {
  const Plan plan = small_plan(source_);
  const std::string file = join_path(source_, "model-00001-of-00002.safetensors");
  write_text(file, read_file(file));  // the same bytes with another time
  const Error error = refused(plan, to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
  EXPECT_FALSE(exists(out_));
}

TEST_F(StagingTest, OutputAndInputMayNotLieInsideEachOther) {
  const Plan plan = small_plan(source_);
  for (const std::string& out :
       {source_, join_path(source_, "out"), join_path(source_, "a/b"), dir_.path()}) {
    SCOPED_TRACE(out);
    const auto before = tree_of(dir_.path());
    EXPECT_EQ(refused(plan, to_output(out)).code(), ErrorCode::conflict);
    EXPECT_EQ(differing(before, tree_of(dir_.path())), "");
  }
}

TEST_F(StagingTest, ALinkIntoTheInputIsSeenThrough) {
  std::filesystem::create_directory_symlink(source_, dir_ / "link");
  const Error error = refused(small_plan(source_), to_output(dir_ / "link/out"));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_FALSE(exists(join_path(source_, "out")));
}

// Publishing renames over OUT, and staging is its sibling. Both would miss the link's target.
TEST_F(StagingTest, ALinkIsNoOutput) {
  make_directories(dir_ / "elsewhere");
  std::filesystem::create_directory_symlink(dir_ / "elsewhere", out_);
  for (const bool overwrite : {false, true}) {
    RunOptions options = to_output(out_);
    options.overwrite = overwrite;
    const Error error = refused(small_plan(source_), options);
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_NE(error.hint_text().find("elsewhere"), std::string::npos) << error.hint_text();
  }
  EXPECT_FALSE(exists(out_paths(out_).staging));
}

TEST_F(StagingTest, AnOutputThatIsNoCheckpointIsLeftAlone) {
  const Plan plan = small_plan(source_);
  write_text(dir_ / "full/notes.txt", "mine");
  write_text(dir_ / "file", "mine");
  for (const std::string name : {"full", "file"}) {
    SCOPED_TRACE(name);
    RunOptions options = to_output(dir_ / name);
    options.overwrite = true;
    EXPECT_EQ(refused(plan, options).code(), ErrorCode::conflict);
    EXPECT_FALSE(exists(out_paths(options.out).staging));
  }
  EXPECT_EQ(read_file(dir_ / "full/notes.txt"), "mine");
  EXPECT_EQ(read_file(dir_ / "file"), "mine");
}

TEST_F(StagingTest, CopiedFilesAreReplacedWithTheirOutput) {
  write_text(join_path(source_, "tokenizer.json"), "{}");
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const Plan plan = small_plan(source_, options);
  convert(plan, to_output(out_));
  EXPECT_TRUE(exists(join_path(out_, "tokenizer.json")));
  RunOptions overwrite = to_output(out_);
  overwrite.overwrite = true;
  EXPECT_TRUE(convert(plan, overwrite).published);
}

TEST_F(StagingTest, AnEmptyDirectoryIsAnOutput) {
  make_directories(out_);
  EXPECT_TRUE(convert(small_plan(source_), to_output(out_)).published);
}

TEST_F(StagingTest, TwoRunsOfOneOutputAreRefusedWhileTheFirstLives) {
  const Plan plan = small_plan(source_);
  int asked = 0;
  const Hook hook = [&](Stage stage, const Tile&) {
    if (stage != Stage::commit || asked++ > 0) return;
    RunOptions second = to_output(out_);
    second.resume = true;
    const Error error = catch_error([&] { convert(plan, second); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    RunOptions worker = to_output(out_);
    worker.workers = 2;
    EXPECT_EQ(catch_error([&] { convert(plan, worker); }).code(), ErrorCode::conflict);
  };
  EXPECT_TRUE(convert(plan, to_output(out_), hook).published);
  EXPECT_GT(asked, 0);
}

TEST_F(StagingTest, WorkersShareTheStagingAndOnlyFinalizePublishes) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(dir_ / "alone"));
  RunOptions options = to_output(out_);
  options.workers = 3;
  QuietReporter reporter;
  const Format& target = format_of("orbax");
  for (const std::uint32_t worker : {2U, 0U}) {
    options.worker = worker;
    EXPECT_FALSE(convert(plan, options).published);
    EXPECT_FALSE(exists(out_));
  }
  const Error error = catch_error([&] { run_finalize(plan, target, to_output(out_), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  const std::uint64_t file = plan.file_at(worker_share(plan, 1, 3).begin);
  EXPECT_NE(error.sentence().find(fmt::format("from data file {} on", file)), std::string::npos)
      << error.sentence();
  EXPECT_FALSE(exists(out_));
  options.worker = 1;
  convert(plan, options);
  convert(plan, options);  // a restarted worker
  const StagedPlan staged = read_staged_plan(out_);
  EXPECT_EQ(small_plan(staged.source, staged.options).id(), plan.id());
  EXPECT_TRUE(run_finalize(plan, target, to_output(out_), reporter).published);
  EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "alone")), "");
}

// `.out.hfshard` can be anything: a source, a user's work, a link to either.
TEST_F(StagingTest, WhatHfshardDidNotMakeIsNeverEmptied) {
  const std::string staging = out_paths(out_).staging;
  PlanOptions linked;
  linked.link = true;
  const std::string elsewhere = copy_fixture("gemma2", dir_ / "elsewhere");
  for (const bool is_link : {false, true}) {
    SCOPED_TRACE(is_link ? "a link" : "a directory");
    if (is_link) {
      std::filesystem::create_directory_symlink(elsewhere, staging);
    } else {
      copy_fixture("gemma2", staging);
    }
    const auto before = tree_of(dir_.path());
    const std::string file = join_path(staging, "model.safetensors");
    for (const std::string& source : {staging, file, source_}) {
      for (const PlanOptions& options : {PlanOptions{}, linked}) {
        EXPECT_EQ(refused(small_plan(source, options), to_output(out_)).code(),
                  ErrorCode::conflict);
        RunOptions resume = to_output(out_);
        resume.resume = true;
        EXPECT_EQ(refused(small_plan(source, options), resume).code(), ErrorCode::conflict);
      }
    }
    const Error error = catch_error([&] { clean_staging(out_paths(out_)); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), staging);
    EXPECT_EQ(differing(before, tree_of(dir_.path())), "");
    remove_tree(staging);
  }
}

// The directory of another version has no marker, so it can be anything too.
TEST_F(StagingTest, ARecordWithoutTheMarkerIsNoStaging) {
  const Plan plan = small_plan(source_);
  leave_halfway(plan, out_);
  const std::string staging = out_paths(out_).staging;
  remove_tree(join_path(staging, OwnedDirectory::kMarker));
  const auto before = tree_of(staging);
  EXPECT_EQ(refused(plan, to_output(out_)).code(), ErrorCode::conflict);
  EXPECT_EQ(catch_error([&] { clean_staging(out_paths(out_)); }).code(), ErrorCode::conflict);
  EXPECT_EQ(differing(before, tree_of(staging)), "");
}

TEST_F(StagingTest, ASourceInsideOurOwnStagingIsRefused) {
  leave_halfway(small_plan(source_), out_);
  const std::string staging = out_paths(out_).staging;
  const std::string inside = copy_fixture("gemma2", join_path(staging, "out/source"));
  make_directories(dir_ / "links");
  for (const std::string& name : list_directory(inside))
    std::filesystem::create_symlink(join_path(inside, name), dir_ / ("links/" + name));
  for (const std::string& source : {inside, dir_ / "links"}) {
    const auto before = tree_of(staging);
    const Error error = refused(small_plan(source, {}), to_output(out_));
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_NE(error.sentence().find("inside the output's staging"), std::string::npos)
        << error.sentence();
    EXPECT_EQ(differing(before, tree_of(staging)), "");
  }
}

TEST_F(StagingTest, AnEmptyDirectoryOfItsNameBecomesStaging) {
  make_directories(out_paths(out_).staging);  // of a run that died at once
  EXPECT_TRUE(convert(small_plan(source_), to_output(out_)).published);
  EXPECT_FALSE(exists(out_paths(out_).staging));
}

TEST_F(StagingTest, ALateLockIsNotWonOnADirectoryThatIsGone) {
  const Plan plan = small_plan(source_);
  leave_halfway(plan, out_);
  g_removed_meanwhile = out_paths(out_).staging;
  sys::set_fault_hook(&remove_at_flock);
  bool asked = false;
  const RunResult result = convert(plan, to_output(out_), [&](Stage stage, const Tile&) {
    if (stage != Stage::commit || std::exchange(asked, true)) return;
    EXPECT_EQ(catch_error([&] { clean_staging(out_paths(out_)); }).code(), ErrorCode::conflict);
  });
  sys::set_fault_hook(nullptr);
  EXPECT_TRUE(asked);
  EXPECT_EQ(result.skipped_bytes, 0U);
  EXPECT_TRUE(result.published);
}

TEST_F(StagingTest, TheLoserOfTwoEqualRunsLeavesNothing) {
  const Plan plan = small_plan(source_);
  g_winners_out = out_;
  for (const bool resume : {false, true}) {
    convert(plan, to_output(dir_ / "winner"));
    g_winner = dir_ / "winner";
    RunOptions options = to_output(out_);
    options.resume = resume;
    sys::set_fault_hook(&publish_at_flock);
    if (resume) {
      EXPECT_TRUE(convert(plan, options).already_done);
    } else {
      EXPECT_EQ(refused(plan, options).code(), ErrorCode::conflict);
    }
    sys::set_fault_hook(nullptr);
    EXPECT_TRUE(g_winner.empty());
    EXPECT_FALSE(exists(out_paths(out_).staging));
    EXPECT_TRUE(exists(join_path(out_, "0/hfshard.json")));
    remove_tree(out_);
  }
}

TEST_F(StagingTest, CleanLooksFirst) {
  const OutPaths paths = out_paths(out_);
  EXPECT_FALSE(clean_staging(paths));
  EXPECT_FALSE(exists(paths.staging));
  const Plan plan = small_plan(source_);
  bool asked = false;
  convert(plan, to_output(out_), [&](Stage stage, const Tile&) {
    if (stage != Stage::commit || std::exchange(asked, true)) return;
    EXPECT_EQ(catch_error([&] { clean_staging(paths); }).code(), ErrorCode::conflict);
    EXPECT_TRUE(exists(join_path(paths.staging, kPlanRecordName)));
  });
  EXPECT_TRUE(asked);
  const auto published = tree_of(out_);
  EXPECT_FALSE(clean_staging(paths));
  leave_halfway(small_plan(source_, options_of_step(4)), out_);
  EXPECT_TRUE(clean_staging(paths));
  EXPECT_FALSE(exists(paths.staging));
  EXPECT_EQ(differing(published, tree_of(out_)), "");
}

// Overwriting a step removes its items, so the new step must have each of them.
TEST_F(StagingTest, AnItemIsReplacedByOneOfTheSameNameOnly) {
  PlanParts parts(small_plan(source_));
  convert(parts.build(), to_output(out_));
  write_text(join_path(out_, "0/iter/state"), "mine");
  RunOptions options = to_output(out_);
  options.overwrite = true;
  const Format& target = format_of("orbax");
  for (const char* copied : {"iterator/state", "ite/state", "other/iter/state"}) {
    parts.catalog.beside.files = {copied};
    const Error error = catch_error([&] { check_output(parts.build(), target, options); });
    EXPECT_EQ(error.code(), ErrorCode::conflict) << copied;
    EXPECT_EQ(error.file(), join_path(out_, "0/iter"));
  }
  for (const char* copied : {"iter", "iter/state"}) {
    parts.catalog.beside.files = {copied};
    EXPECT_NO_THROW(check_output(parts.build(), target, options)) << copied;
  }
  parts.catalog.beside.files = {};
  parts.catalog.beside.empty = {"ite"};
  EXPECT_EQ(catch_error([&] { check_output(parts.build(), target, options); }).file(),
            join_path(out_, "0/iter"));
  parts.catalog.beside.empty = {"iter"};
  EXPECT_NO_THROW(check_output(parts.build(), target, options));
}

TEST_F(StagingTest, AWorkerKeepsFilesThatAnotherStagedBeforeItsJournal) {
  const Plan plan = small_plan(source_);
  const OutPaths paths = out_paths(plan, out_);
  const std::string staged = join_path(paths.step, "staged");
  {
    Staging first(paths, true);
    first.begin(plan);
    write_text(staged, "by the first");
    Staging second(paths, true);
    second.begin(plan);
    EXPECT_EQ(read_file(staged), "by the first");
  }
  Staging alone(paths, false);
  alone.begin(plan);
  EXPECT_FALSE(exists(staged));
}

TEST_F(StagingTest, FinalizeWithoutARunIsNotFound) {
  EXPECT_EQ(catch_error([&] { read_staged_plan(out_); }).code(), ErrorCode::not_found);
}

// Each worker reads config.json. Llama's `rope_type` changes the interleaving of rows but no shape,
// so two shares of one output could have different rotary layouts.
TEST(Staging, AConfigEditedBetweenTheSharesOfTwoWorkersIsRefused) {
  const TempDir dir;
  const std::string source = copy_fixture("llama3.1", dir / "source");
  const std::string config = join_path(source, "config.json");
  const std::string before = read_file(config);
  const Plan first = small_plan(source);
  RunOptions options = to_output(dir / "out");
  options.workers = 2;
  convert(first, options);

  std::string after = before;
  const std::size_t at = after.find("\"llama3\"");
  ASSERT_NE(at, std::string::npos);
  write_text(config, after.replace(at, 8, "\"linear\""));
  const Plan second = small_plan(source);
  ASSERT_EQ(second.file_begin(), first.file_begin());
  const auto map_of_query = [](const Plan& plan) {
    const auto leaf = std::ranges::find_if(
        plan.model().leaves, [](const Leaf& one) { return one.name.ends_with("query.kernel"); });
    return plan.model()
        .leading_to(static_cast<std::uint32_t>(leaf - plan.model().leaves.begin()))[0]
        ->map;
  };
  ASSERT_NE(map_of_query(first), map_of_query(second)) << "the edit changes no layout";

  options.worker = 1;
  const Error share = refused(second, options);
  EXPECT_EQ(share.code(), ErrorCode::conflict);
  EXPECT_NE(share.sentence().find("source.config"), std::string::npos) << share.sentence();
  QuietReporter reporter;
  const Format& target = format_of("orbax");
  const StagedPlan staged = read_staged_plan(options.out);
  const Plan again = small_plan(staged.source, staged.options);
  EXPECT_EQ(catch_error([&] { run_finalize(again, target, options, reporter); }).code(),
            ErrorCode::conflict);
  EXPECT_FALSE(exists(options.out));

  write_text(config, before);
  convert(first, options);
  EXPECT_TRUE(run_finalize(first, target, options, reporter).published);
  convert(first, to_output(dir / "alone"));
  EXPECT_EQ(differing(tree_of(options.out), tree_of(dir / "alone")), "");
}

TEST(OutPaths, NamesOfTheirOwnAreWanted) {
  for (const std::string out : {"", "/", ".", "..", "a/..", "./."}) {
    SCOPED_TRACE(out);
    EXPECT_EQ(catch_error([&] { out_paths(out); }).code(), ErrorCode::usage);
  }
  const OutPaths paths = out_paths("a/b//", "7");
  EXPECT_EQ(paths.out, "a/b");
  EXPECT_EQ(paths.staging, "a/.b.hfshard");
  EXPECT_EQ(paths.step, "a/.b.hfshard/out/7");
}

}  // namespace
}  // namespace hfshard
