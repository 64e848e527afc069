// A source that is written to, replaced or extended during a run: what was read before and after
// must not be published together, in whatever way it is read.

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "run/checking/read_back.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

class ChangedSource : public testing::TestWithParam<IoMode> {
 protected:
  std::string file() const { return join_path(source_, "model-00002-of-00002.safetensors"); }
  RunOptions options() const {
    RunOptions out = to_output(out_);
    out.io = GetParam();
    return out;
  }
  // Changes the file when about half is committed.
  void expect_refused(const Plan& plan, const std::function<void()>& change) const {
    bool changed = false;
    const Error error = catch_error([&] {
      convert(plan, options(), [&](Stage stage, const Tile& tile) {
        if (stage != Stage::commit || changed || tile.begin_address < plan.end_address() / 2)
          return;
        changed = true;
        change();
      });
    });
    EXPECT_TRUE(changed);
    // What shrinks in the moment that it is read is said as such.
    EXPECT_TRUE(error.code() == ErrorCode::conflict || error.code() == ErrorCode::corrupt)
        << error.format();
    EXPECT_EQ(error.file(), file());
    EXPECT_FALSE(exists(out_));
    remove_tree(out_paths(out_).staging);
  }
  void edit_in_place() const {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-1, std::ios::end);
    stream << 'x';
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

TEST_P(ChangedSource, IsRefusedHoweverItChanges) {
  const std::string text = read_file(file());
  std::string other = text;
  other.back() ^= 1;
  expect_refused(small_plan(source_), [&] { edit_in_place(); });
  expect_refused(small_plan(source_), [&] { write_text(file(), other); });
  expect_refused(small_plan(source_), [&] {
    write_text(dir_ / "new", text);
    rename_path(dir_ / "new", file());
  });
  expect_refused(small_plan(source_), [&] { remove_tree(file()); });
  write_text(file(), text);
  expect_refused(small_plan(source_), [&] { std::ofstream(file(), std::ios::app) << "more"; });
}

// Every record is looked at on its own: what a resumed run believes is of one source.
TEST_P(ChangedSource, NoRecordSpeaksOfWhatWasReadLater) {
  const Plan plan = small_plan(source_);
  std::uint64_t changed_at = 0;
  EXPECT_THROW(convert(plan, options(),
                       [&](Stage stage, const Tile& tile) {
                         if (stage != Stage::commit || changed_at != 0) return;
                         if (tile.begin_address < plan.end_address() / 4) return;
                         changed_at = tile.end_address;
                         edit_in_place();
                       }),
               Error);
  const JournalState state =
      read_journals(out_paths(out_).staging, plan.id(), plan.model().digest_slots());
  EXPECT_GT(state.done_bytes(), 0U);
  EXPECT_FALSE(state.covers(0, changed_at));
}

// After the last record too: linked files are part of what is published.
TEST_P(ChangedSource, IsRefusedWhilePublishing) {
  const Plan plan = small_plan(source_);
  bool noted = false;
  const Error error = catch_error([&] {
    convert(plan, options(), [&](Stage stage, const Tile& tile) {
      if (stage != Stage::commit || tile.end_address != plan.end_address()) return;
      noted = true;
      edit_in_place();
    });
  });
  EXPECT_TRUE(noted);
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_FALSE(exists(out_));
}

TEST_P(ChangedSource, IsNotOneThatIsLinkedToMeanwhile) {
  const Plan plan = small_plan(source_);
  EXPECT_TRUE(convert(plan, options(), [&](Stage stage, const Tile& tile) {
                if (stage == Stage::commit && tile.begin_address == 0)
                  std::filesystem::create_hard_link(file(), dir_ / "second");
              }).published);
}

TEST_P(ChangedSource, IsRefusedWhereNothingIsWritten) {
  PlanOptions wanted = small_options();
  wanted.target = "null";
  expect_refused(small_plan(source_, wanted), [&] { edit_in_place(); });
}

INSTANTIATE_TEST_SUITE_P(Modes, ChangedSource,
                         testing::Values(IoMode::automatic, IoMode::direct, IoMode::buffered,
                                         IoMode::mmap),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

// A finalize publishes what others have read.
TEST(ChangedSourceOfWorkers, IsRefusedByFinalize) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.workers = 2;
  for (options.worker = 0; options.worker < 2; ++options.worker) convert(plan, options);
  const std::string file = plan.catalog().files[0].path.name();
  write_text(file, read_file(file));
  QuietReporter reporter;
  const Error error = catch_error(
      [&] { run_finalize(plan, format_of("orbax"), to_output(dir / "out"), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
  EXPECT_FALSE(exists(dir / "out"));
}

// What is carried along is what was read: config.json decides about the layout.
TEST(ChangedSourceOfConfig, IsRefused) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::string file = dir / "source/config.json";
  write_text(file, read_file(file) + "\n");
  const Error error = catch_error([&] { convert(plan, to_output(dir / "out")); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
  EXPECT_FALSE(exists(dir / "out"));
}

// `verify OUT SOURCE`: differences between an output and two versions would mean nothing.
class ChangingReporter final : public Reporter {
 public:
  explicit ChangingReporter(std::string path) : path_(std::move(path)) {}
  void started(std::uint64_t, std::uint64_t) override {}
  void advanced(std::uint64_t) override { write_text(path_, read_file(path_)); }
  void note(const std::string&) override {}

 private:
  std::string path_;
};

TEST(ChangedSourceOfVerify, IsRefused) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  convert(plan, to_output(dir / "out"));
  ChangingReporter reporter(plan.catalog().files[0].path.name());
  const auto opened = format_of("orbax").open(dir / "out");
  const Error error =
      catch_error([&] { verify_source(*opened, plan, to_output(dir / "out"), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), plan.catalog().files[0].path.name());
}

}  // namespace
}  // namespace hfshard
