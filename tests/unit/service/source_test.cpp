// What convert and link take as a source.

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class SourceTest : public testing::Test {
 protected:
  ConvertReport convert_from(const std::string& source, const std::string& out) {
    QuietReporter reporter;
    const Limits limits = small_limits();
    RunOptions run = to_output(out);
    run.limits = &limits;
    return hfshard::convert(source, small_options(), run, reporter);
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

TEST_F(SourceTest, ACheckpointOfAnotherFormatIsRefusedByName) {
  convert_from(source_, dir_ / "out");
  for (const std::string& place : {dir_ / "out", dir_ / "out/0", dir_ / "out/0/items"}) {
    const Error error = catch_error([&] { convert_from(place, dir_ / "again"); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << place;
    EXPECT_EQ(error.file(), place);
    EXPECT_NE(error.sentence().find("\"orbax\""), std::string::npos) << error.sentence();
    EXPECT_FALSE(exists(dir_ / "again"));
  }
}

// An index in place makes the directory a checkpoint of both formats: what it was is still there.
TEST_F(SourceTest, ADirectoryWithAnIndexInPlaceIsStillASource) {
  const std::string before = convert_from(source_, dir_ / "one").run.root_digest;
  QuietReporter reporter;
  const Limits limits = small_limits();
  RunOptions run;
  run.limits = &limits;
  PlanOptions options;
  options.mapping.scheme = "hf";
  link(source_, options, {.in_place = true}, run, reporter);
  ASSERT_TRUE(exists(join_path(source_, "manifest.ocdbt")));
  EXPECT_EQ(convert_from(source_, dir_ / "two").run.root_digest, before);
}

}  // namespace
}  // namespace hfshard
