// Objects of the source are copied once, by the run that publishes.

#include "run/commit/carried_objects.h"

#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "run/check/output_manifest.h"
#include "run/commit/staging.h"
#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

class CarriedObjectsTest : public testing::Test {
 protected:
  CarriedObjectsTest() { write_source(); }
  void write_source() const {
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
    made.object("step", second_).object("epoch", first_);
    made.write(dir_ / "source");
  }
  Plan plan() const {
    PlanOptions options;
    options.target = "dcp";
    options.mapping.scheme = "hf";
    options.tree.same = true;
    return small_plan(dir_ / "source", options);
  }

  // Returns the bytes of the file of objects.
  static std::string written(const Plan& plan, const std::string& out) {
    return read_file(
        join_path(published_step(plan, out_paths(plan, out)), carried_objects(plan).file));
  }

  TempDir dir_;
  std::string out_ = dir_ / "out";
  std::string first_ = torch_archive(DType::u8, {3}, "one");
  std::string second_ = torch_archive(DType::u8, {5}, "other");
};

TEST_F(CarriedObjectsTest, AreInTheirOwnFileSortedByName) {
  const Plan made = plan();
  const CarriedObjects objects = carried_objects(made);
  ASSERT_EQ(objects.items.size(), 2U);
  EXPECT_EQ(objects.items[0]->name, "epoch");
  EXPECT_EQ(objects.items[1]->name, "step");
  EXPECT_EQ(objects.file, made.files().data_file(made.data_files(), made.data_files() + 1));
  const RunResult result = convert(made, to_output(out_));
  EXPECT_EQ(written(made, out_), first_ + second_);
  EXPECT_EQ(result.output_bytes, made.totals().output_bytes + first_.size() + second_.size());
  const Manifest manifest =
      read_manifest(join_path(published_step(made, out_paths(made, out_)), kManifestName));
  EXPECT_EQ(manifest.digests.objects,
            (std::vector<ObjectRecord>{{"epoch", first_.size(), sha256_hex(first_)},
                                       {"step", second_.size(), sha256_hex(second_)}}));
  bool recorded = false;
  for (const FileRecord& file : manifest.files.data)
    recorded = recorded ||
               (file.path == objects.file && file.size_bytes == first_.size() + second_.size());
  EXPECT_TRUE(recorded) << "as a data file";
  RunOptions again = to_output(out_);
  again.resume = true;
  const RunResult found = convert(made, again);
  EXPECT_TRUE(found.already_done);
  EXPECT_EQ(found.output_bytes, result.output_bytes);
}

TEST_F(CarriedObjectsTest, AreWrittenByFinalizeAndNotByWorkers) {
  const Plan made = plan();
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  for (worker.worker = 0; worker.worker < 2; ++worker.worker) convert(made, worker);
  const std::string file = carried_objects(made).file;
  EXPECT_FALSE(exists(join_path(out_paths(made, out_).step, file)));
  QuietReporter reporter;
  const RunResult result = run_finalize(made, format_of("dcp"), to_output(out_), reporter);
  EXPECT_EQ(written(made, out_), first_ + second_);
  EXPECT_EQ(result.output_bytes, made.totals().output_bytes + first_.size() + second_.size());
  convert(made, to_output(dir_ / "alone"));
  EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "alone")), "");
}

TEST_F(CarriedObjectsTest, WithoutObjectsNothingIsWritten) {
  TorchCheckpoint bare;
  bare.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  bare.write(dir_ / "source");
  const Plan made = plan();
  EXPECT_TRUE(carried_objects(made).items.empty());
  const RunResult result = convert(made, to_output(out_));
  const std::string step = published_step(made, out_paths(made, out_));
  EXPECT_FALSE(exists(join_path(step, carried_objects(made).file)));
  EXPECT_EQ(result.output_bytes, made.totals().output_bytes);
}

// The first worker compares the checksums of all objects, before it makes anything.
TEST_F(CarriedObjectsTest, ADamagedOneIsRefusedAtOnce) {
  second_.at(second_.find("other")) = 'O';
  write_source();
  const Plan made = plan();
  const Error error = catch_error([&] { convert(made, to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "step");
  EXPECT_FALSE(exists(out_paths(out_).staging));
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  EXPECT_EQ(catch_error([&] { convert(made, worker); }).tensor(), "step");
  worker.worker = 1;
  EXPECT_NO_THROW(convert(made, worker));
  const std::atomic<bool> stop = true;
  RunOptions stopped = to_output(dir_ / "other");
  stopped.stop = &stop;
  EXPECT_EQ(catch_error([&] { convert(made, stopped); }).sentence(),
            "stopped; hfshard kept nothing");
  EXPECT_FALSE(exists(out_paths(stopped.out).staging));
}

}  // namespace
}  // namespace hfshard
