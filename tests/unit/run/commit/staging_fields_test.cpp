#include <gtest/gtest.h>

#include "base/json.h"
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
}

}  // namespace
}  // namespace hfshard
