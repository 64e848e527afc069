// A run whose output is finished compares it with its source.

#include "run/published.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/memory_store.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

constexpr const char* kAnother =
    "pass another output, --output-step N, or --overwrite without --resume";

class PublishedTest : public testing::Test {
 protected:
  PublishedTest() { write_text(join_path(source_, "tokenizer.json"), "{}"); }
  RunOptions resumed(const std::string& out) const {
    RunOptions options = to_output(out);
    options.resume = true;
    return options;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

TEST_F(PublishedTest, AnotherCommitIsNamed) {
  const auto store = std::make_shared<MemoryStore>(source_);
  const auto plan = [&] {
    return make_plan(StorePath(store, "tree"), small_options(), format_of("orbax"), small_limits());
  };
  store->set_commit("first");
  convert(plan(), to_output(out_));
  store->set_commit("second");
  const Error error = catch_error([&] { convert(plan(), resumed(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the output was made from commit first, and the source is at second");
  EXPECT_EQ(error.file(), join_path(out_, "0"));
  EXPECT_EQ(error.hint_text(), kAnother);
}

TEST_F(PublishedTest, CopiedFilesAreComparedUnlessTheCommitIsTheSame) {
  convert(small_plan(source_), to_output(out_));
  EXPECT_TRUE(convert(small_plan(source_), resumed(out_)).already_done);
  write_text(join_path(source_, "tokenizer.json"), "[]");
  const Error error = catch_error([&] { convert(small_plan(source_), resumed(out_)); });
  const std::string copy = join_path(out_, "hf/tokenizer.json");
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(
      error.sentence(),
      "the output was made from another source: the file differs from the source's (" + copy + ")");
  EXPECT_EQ(error.file(), copy);
  EXPECT_EQ(error.hint_text(), kAnother);
  const auto store = std::make_shared<MemoryStore>(source_);
  store->set_commit("one");
  const auto plan = [&] {
    return make_plan(StorePath(store, "tree"), small_options(), format_of("orbax"), small_limits());
  };
  convert(plan(), to_output(dir_ / "other"));
  store->write("tokenizer.json", "{}");
  EXPECT_TRUE(convert(plan(), resumed(dir_ / "other")).already_done) << "a commit is its files";
  store->set_commit("");
  EXPECT_EQ(catch_error([&] { convert(plan(), resumed(dir_ / "other")); }).code(),
            ErrorCode::conflict);
}

// Files of an output without steps are in the output itself.
TEST_F(PublishedTest, CopiesNextToTheDataAreComparedToo) {
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  convert(small_plan(source_, options), to_output(out_));
  EXPECT_TRUE(convert(small_plan(source_, options), resumed(out_)).already_done);
  write_text(join_path(source_, "tokenizer.json"), "[]");
  EXPECT_EQ(catch_error([&] { convert(small_plan(source_, options), resumed(out_)); }).file(),
            join_path(out_, "tokenizer.json"));
}

TEST_F(PublishedTest, ALostFileIsNamedWithTheWayToWriteItAgain) {
  convert(small_plan(source_), to_output(out_));
  const std::string file = join_path(out_, "0/items/d/00000");
  const std::string bytes = read_file(file);
  write_text(file, bytes + "x");
  const std::string hint =
      "pass --overwrite without --resume to write it again; hfshard verify OUT lists all lost "
      "files";
  const Error longer = catch_error([&] { convert(small_plan(source_), resumed(out_)); });
  EXPECT_EQ(longer.sentence(), "the output was complete, but a file now has " +
                                   std::to_string(bytes.size() + 1) + " bytes instead of " +
                                   std::to_string(bytes.size()));
  EXPECT_EQ(longer.file(), file);
  EXPECT_EQ(longer.hint_text(), hint);
  remove_tree(file);
  const Error lost = catch_error([&] { convert(small_plan(source_), resumed(out_)); });
  EXPECT_EQ(lost.sentence(), "the output was complete, but a file is missing");
  EXPECT_EQ(lost.hint_text(), hint);
}

// An index in place is next to the source's own files, whose bytes it doesn't copy.
TEST_F(PublishedTest, AnIndexInPlaceNeedsNoComparison) {
  PlanOptions options;
  options.link = options.in_place = true;
  const Plan plan = small_plan(source_, options);
  convert(plan, to_output(source_));
  NotesReporter reporter;
  const RunResult again = run_convert(plan, format_of("orbax"), resumed(source_), reporter, {});
  EXPECT_TRUE(again.already_done);
  EXPECT_TRUE(reporter.notes.empty());
  NotesReporter converted;
  convert(small_plan(source_), to_output(out_));
  run_convert(small_plan(source_), format_of("orbax"), resumed(out_), converted, {});
  ASSERT_EQ(converted.notes.size(), 1U);
  EXPECT_EQ(converted.notes[0],
            "hfshard compared the names, shapes and copied files of the source with the output, "
            "but no values; hfshard verify OUT SOURCE compares them");
}

TEST_F(PublishedTest, ADamagedRecordIsNotBelieved) {
  convert(small_plan(source_), to_output(out_));
  const std::string record = join_path(out_, "0/hfshard.json");
  std::string text = read_file(record);
  text.replace(text.find("qwen3.json"), 5, "qwen2");
  write_text(record, text);
  const Error error = catch_error([&] { convert(small_plan(source_), resumed(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the record was changed after hfshard wrote it");
  EXPECT_EQ(error.file(), record);
  EXPECT_EQ(error.hint_text(),
            "copy the checkpoint again, or see hfshard verify for what else differs; without this "
            "file, hfshard reads the checkpoint by its names and --config DIR");
}

}  // namespace
}  // namespace hfshard
