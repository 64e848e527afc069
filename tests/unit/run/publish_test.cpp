#include "run/publish.h"

#include <gtest/gtest.h>

#include "run/manifest.h"
#include "run/verify.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

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
    const auto opened = make_target("orbax")->open(directory);
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
  EXPECT_EQ(published_plan_id(join_path(out_, "0")), wanted.id);
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

TEST_F(PublishTest, StepsOfOneRootBelongToOneModel) {
  convert(plan_of_step(0), to_output(out_));
  const auto before = tree_of(out_);
  write_text(join_path(source_, "generation_config.json"), "{}");
  const Error error = catch_error([&] { convert(plan_of_step(1), to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), join_path(out_, "hf"));
  EXPECT_EQ(differing(before, tree_of(out_)), "");
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

// Chunks that a checkpoint's database does not list are reported, each once.
TEST_F(PublishTest, ACompleteCheckpointLacksNoChunk) {
  convert(plan_of_step(0), to_output(out_));
  const auto opened = make_target("orbax")->open(out_);
  std::uint64_t missing = 0;
  check_complete(*opened, [&](std::uint32_t, const Shape&) { ++missing; });
  EXPECT_EQ(missing, 0U);
  struct Lacking final : OpenedCheckpoint {
    explicit Lacking(const OpenedCheckpoint& of) : whole(of) {}
    const std::vector<OpenedLeaf>& leaves() const override { return whole.leaves(); }
    const Json& custom_metadata() const override { return whole.custom_metadata(); }
    bool has_chunk(std::uint32_t leaf, const Shape& chunk) const override {
      return leaf != 1 || chunk[0] != 2;
    }
    void read_chunk(std::uint32_t, const Shape&, std::span<std::byte>,
                    std::span<std::byte>) const override {}
    std::uint64_t scratch_bytes(std::uint32_t) const override { return 0; }
    const OpenedCheckpoint& whole;
  } const lacking(*opened);
  const OpenedLeaf& leaf = opened->leaves()[1];
  const Shape counts = chunk_counts(leaf.shape, leaf.chunk_shape);
  ASSERT_GT(counts[0], 2U);
  check_complete(lacking, [&](std::uint32_t, const Shape&) { ++missing; });
  EXPECT_EQ(missing, counts.numel() / counts[0]);
}

}  // namespace
}  // namespace hfshard
