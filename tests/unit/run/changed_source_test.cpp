// A source is written to, replaced or extended during a run. Data that was read before and after
// must not be published together, in any way of reading.

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "run/check/read_back.h"
#include "run/engine/sources.h"
#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
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
    // A file that shrinks during a read has its own error.
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

// Every record is checked alone, so a resumed run only trusts data of one source.
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

// The check also comes after the last record, since linked files are published too.
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

// Changes the last byte of a file, and restores its time.
void edit_quietly(const std::string& path) {
  const auto time = std::filesystem::last_write_time(path);
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream << 'x';
  stream.close();
  std::filesystem::last_write_time(path, time);
}

// Edits a linked file when the record is written, which is after it was hashed. Restores its time.
std::string g_linked_file;
int edit_linked(const char* call, const char* path) {
  if (std::string_view(call) != "pwrite" || g_linked_file.empty()) return 0;
  if (std::string_view(path).find(kManifestName) == std::string_view::npos) return 0;
  edit_quietly(std::exchange(g_linked_file, {}));
  return 0;
}

// A hard link of hfshard itself doesn't explain a later change.
TEST(ChangedSourceOfLink, IsRefusedIfTheTimeWasPutBack) {
  const TempDir dir;
  PlanOptions options;
  options.link = options.digests = true;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"), options);
  const std::string file = plan.catalog().files[0].path.name();
  g_linked_file = file;
  sys::set_fault_hook(&edit_linked);
  const Error error = catch_error([&] { convert(plan, to_output(dir / "out")); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(g_linked_file, "");
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
  EXPECT_EQ(error.file(), file);
  EXPECT_FALSE(exists(dir / "out"));
}

// A tree has many files but one identity.
class ChangedTree : public testing::TestWithParam<const char*> {
 protected:
  // Lays a tree out again. Calls `change` with one of its data files when half is committed.
  void lay_out(const std::function<void(const std::string&)>& change) const {
    const bool is_dcp = std::string_view(GetParam()) == "dcp";
    PlanOptions made = small_options();
    made.target = GetParam();
    made.encoding.checksum = is_dcp;
    if (is_dcp) made.mapping.scheme = "hf";
    if (is_dcp) made.meshes = {"fsdp=2"};
    const std::string source = dir_ / "tree";
    convert(small_plan(copy_fixture("qwen3", dir_ / "hf"), made), to_output(source));
    PlanOptions anew = made;
    anew.tree.same = true;
    const Plan plan = small_plan(source, anew);
    bool changed = false;
    convert(plan, to_output(out_), [&](Stage stage, const Tile& tile) {
      if (stage != Stage::commit || changed || tile.begin_address < plan.end_address() / 2) return;
      changed = true;
      change(join_path(source, is_dcp ? "__00001_0.distcp" : "0/items/d/00001"));
    });
    EXPECT_TRUE(changed);
  }

  TempDir dir_;
  std::string out_ = dir_ / "out";
};

TEST_P(ChangedTree, IsRefusedIfTheTimeWasPutBack) {
  const Error error = catch_error([&] { lay_out(edit_quietly); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
  EXPECT_TRUE(error.file().starts_with(dir_ / "tree")) << error.file();
  EXPECT_FALSE(exists(out_));
}

TEST_P(ChangedTree, IsNotOneThatIsLinkedToMeanwhile) {
  lay_out(
      [&](const std::string& file) { std::filesystem::create_hard_link(file, dir_ / "second"); });
  EXPECT_TRUE(exists(out_));
}

INSTANTIATE_TEST_SUITE_P(Formats, ChangedTree, testing::Values("orbax", "dcp"),
                         [](const auto& format) { return std::string(format.param); });

// The plan id depends on the bytes of small files only. The record of a run has the inodes of all
// files.
TEST(ChangedTreeOfResume, IsRefusedIfTheTimeWasPutBack) {
  const TempDir dir;
  const std::string tree = dir / "tree";
  const std::string out = dir / "out";
  const Shape shape{3 << 19};
  TorchCheckpoint torch;
  torch.whole("w", DType::u8, shape);
  torch.write(tree);
  PlanOptions anew;
  anew.target = "dcp";
  anew.mapping.scheme = "hf";
  anew.tree.same = true;
  const auto stopped = [](Stage stage, const Tile& /*tile*/) {
    if (stage == Stage::commit) throw Error(ErrorCode::io, "a test");
  };
  EXPECT_THROW(convert(small_plan(tree, anew), to_output(out), stopped), Error);
  edit_quietly(join_path(tree, TorchCheckpoint::kDataFile));
  const Error error = catch_error([&] { convert(small_plan(tree, anew), to_output(out)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
  EXPECT_FALSE(exists(out));
}

// Data that was read before and after the kill must also be of one version.
class ChangedSourceOfResume : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_THROW(convert(small_plan(source_), to_output(dir_ / "out"),
                         [](Stage stage, const Tile& tile) {
                           if (stage == Stage::commit && tile.begin_address > 0)
                             throw Error(ErrorCode::io, "a test");
                         }),
                 Error);
  }
  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string file_ = join_path(source_, "model-00001-of-00002.safetensors");
};

TEST_F(ChangedSourceOfResume, IsRefusedIfTheTimeWasPutBack) {
  edit_quietly(file_);
  const Error error = catch_error([&] { convert(small_plan(source_), to_output(dir_ / "out")); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file_);
}

TEST_F(ChangedSourceOfResume, IsNotOneThatIsLinkedToMeanwhile) {
  std::filesystem::create_hard_link(file_, dir_ / "second");
  EXPECT_TRUE(convert(small_plan(source_), to_output(dir_ / "out")).published);
}

// Records from before 0.2.0 only have the modification time and the inode's number.
TEST_F(ChangedSourceOfResume, OldRecordsGoOn) {
  const std::string path = dir_ / ".out.hfshard/plan.json";
  Json record = parse_json(read_file(path), path);
  for (Json& file : record["sources"].array()) file.object().erase("inodes");
  write_text(path, dump_json_pretty(record));
  EXPECT_TRUE(convert(small_plan(source_), to_output(dir_ / "out")).published);
}

// Writes to the tokenizer after its first piece was read, and restores its time.
int edit_tokenizer(const char* call, const char* path) {
  static int pieces = 0;
  if (std::string_view(call) != "pread" || !std::string_view(path).ends_with("tokenizer.json"))
    return 0;
  if (++pieces != 2) return 0;
  const auto time = std::filesystem::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(0).write("new", 3);
  std::filesystem::last_write_time(path, time);
  return 0;
}

// Most readers open a source long after it was planned.
TEST(ChangedSourceOfPlan, AFileThatIsGoneIsAChange) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::string file = dir / "source/model-00002-of-00002.safetensors";
  remove_tree(file);
  const Error error = catch_error([&] { check_unchanged(plan.catalog().files); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
}

TEST(ChangedSourceOfPlan, IsRefusedWhenItIsOpened) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::string file = dir / "source/model-00002-of-00002.safetensors";
  EXPECT_EQ(open_sources(plan.catalog(), IoMode::automatic).size(), plan.catalog().files.size());
  std::ofstream(file, std::ios::app) << "more";
  const Error error = catch_error([&] { open_sources(plan.catalog(), IoMode::automatic); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
}

TEST(ChangedSourceOfCarriedFiles, IsRefusedWhileItIsCopied) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  write_text(join_path(source, "tokenizer.json"), std::string(std::size_t{3} << 20, 'o'));
  const Plan plan = small_plan(source);
  sys::set_fault_hook(&edit_tokenizer);
  const Error error = catch_error([&] { convert(plan, to_output(dir / "out")); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(read_file(join_path(source, "tokenizer.json")).substr(0, 4), "newo");
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
  EXPECT_EQ(error.file(), join_path(source, "tokenizer.json"));
  EXPECT_FALSE(exists(dir / "out"));
  EXPECT_TRUE(convert(plan, to_output(dir / "out")).published);
}

// A finalize publishes the data that workers read.
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

// The copied config.json must be the one that was read, since it affects the layout.
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

// `verify OUT SOURCE`: comparing an output with two versions would be meaningless.
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
