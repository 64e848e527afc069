#include <gtest/gtest.h>

#include "base/json.h"
#include "format/formats.h"
#include "run/commit/staging.h"
#include "unit/run/commit/staging_fixture.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST_F(StagingTest, AnotherPlanIsRefusedAndTheDifferingFieldNamed) {
  leave_halfway(small_plan(source_), out_);
  const auto before = tree_of(out_paths(out_).staging);
  PlanOptions other = small_options();
  other.chunk_bytes = 128;
  const Error error = refused(small_plan(source_, other), to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_NE(error.sentence().find("options.chunk_bytes: 64 there, 128 here"), std::string::npos)
      << error.sentence();
  EXPECT_EQ(error.file(), out_paths(out_).staging);
  EXPECT_EQ(differing(before, tree_of(out_paths(out_).staging)), "");
  EXPECT_TRUE(convert(small_plan(source_), to_output(out_)).published);
}

TEST_F(StagingTest, AFieldOfAnotherKindIsNamed) {
  leave_halfway(small_plan(source_), out_);
  const std::string path = join_path(out_paths(out_).staging, kPlanRecordName);
  Json record = parse_json(read_file(path), path);
  record["plan_id"] = "another";
  record["identity"]["options"]["chunk_bytes"] = Json::Object{};
  write_text(path, dump_json(record));
  const std::string sentence = refused(small_plan(source_), to_output(out_)).sentence();
  EXPECT_NE(sentence.find("options.chunk_bytes: {} there, 64 here"), std::string::npos) << sentence;
}

// Without --resume, an output of the same plan is an output like any other.
TEST_F(StagingTest, AFinishedOutputIsKnownByItsPlan) {
  PlanOptions exported;
  exported.target = "safetensors";
  exported.mapping.scheme = "hf";
  const Plan plan = small_plan(source_, exported);
  const Format& target = format_of("safetensors");
  convert(plan, to_output(out_));
  RunOptions options = to_output(out_);
  EXPECT_EQ(catch_error([&] { check_output(plan, target, options); }).sentence(),
            "the output already has a checkpoint");
  options.resume = true;
  EXPECT_NO_THROW(check_output(plan, target, options));
}

// /proc is a file system of its own on every Linux. Nothing is written.
TEST_F(StagingTest, AMountPointIsNoOutput) {
  const Error error = refused(small_plan(source_), to_output("/proc"));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output is a mount point, and hfshard publishes by renaming");
  EXPECT_EQ(error.hint_text(), "pass a new directory inside it");
}

TEST_F(StagingTest, AnOutputInsideACheckpointIsNamedWithItsRoot) {
  convert(small_plan(source_), to_output(out_));
  const auto hint = [&](const std::string& out) {
    return refused(small_plan(source_), to_output(out)).hint_text();
  };
  EXPECT_EQ(hint(join_path(out_, "0/items")),
            "it is an item of a step; pass " + out_ + ", and the step with --output-step");
  EXPECT_EQ(hint(join_path(out_, "0")),
            "it is a step; pass " + out_ + ", and the step with --output-step");
}

TEST_F(StagingTest, ADamagedStepIsReplaced) {
  convert(small_plan(source_), to_output(out_));
  RunOptions options = to_output(out_);
  options.overwrite = true;
  remove_tree(join_path(out_, "0/items"));
  EXPECT_TRUE(convert(small_plan(source_), options).published);
}

// Metadata of a training run is next to its steps, and all steps share it.
TEST_F(StagingTest, ARootHasTheMetadataOfOneRun) {
  convert(small_plan(source_), to_output(out_));
  write_text(dir_ / "run/metrics/loss", "1");
  const auto converted = [&](std::uint64_t step) {
    PlanParts parts(small_plan(source_, options_of_step(step)));
    parts.catalog.beside.root = StorePath(dir_ / "run");
    parts.catalog.beside.root_files = {"metrics/loss"};
    return convert(parts.build(), to_output(out_)).published;
  };
  EXPECT_TRUE(converted(1));
  EXPECT_EQ(read_file(join_path(out_, "metrics/loss")), "1");
  EXPECT_TRUE(converted(2));
  write_text(dir_ / "run/metrics/loss", "2");
  const Error error = catch_error([&] { converted(3); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the root's metadata differ from this source's run");
  EXPECT_EQ(error.file(), join_path(out_, "metrics/loss"));
  EXPECT_EQ(error.hint_text(), "the steps of a root must belong to one run; pass another output");
  EXPECT_EQ(read_file(join_path(out_, "metrics/loss")), "1");
}

// The record of the workers is JSON.
TEST_F(StagingTest, WorkersNeedASourceWhosePathIsUtf8) {
  const std::string source = copy_fixture("qwen3", dir_ / "s\xff");
  RunOptions options = to_output(out_);
  options.workers = 2;
  const Error error = refused(small_plan(source), options);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(),
            "the path isn't UTF-8, so finalize couldn't find the file that workers read");
  EXPECT_EQ(error.hint_text(), "pass a link to it whose name is UTF-8");
  EXPECT_EQ(error.file(), source);
  EXPECT_TRUE(convert(small_plan(source), to_output(dir_ / "alone")).published)
      << "one process needs no record to find its source";
  PlanParts parts(small_plan(source_));
  parts.facts.options.tree.config_text = "{}";
  parts.facts.options.tree.config_name = dir_ / "c\xff";
  const OutPaths paths = out_paths(dir_ / "configured");
  EXPECT_EQ(catch_error([&] { Staging(paths, true).begin(parts.build()); }).file(), dir_ / "c\xff");
  EXPECT_NO_THROW(Staging(paths, false).begin(parts.build()));
}

}  // namespace
}  // namespace hfshard
