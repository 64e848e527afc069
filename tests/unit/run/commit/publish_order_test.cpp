// kill -9 can't show the effects of a power cut, so this checks the order of system calls. A file
// is durable before its name. The name is durable before anything that could recreate it is
// removed.

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include "run/commit/staging.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

struct PublishCall {
  std::string name;
  std::string path;
};

std::mutex calls_mutex;
std::vector<PublishCall> calls;

int watch(const char* call, const char* path) {
  const std::lock_guard lock(calls_mutex);
  calls.push_back({call, path});
  return 0;
}

class PublishOrder : public testing::Test {
 protected:
  void run(const Plan& plan, const RunOptions& options) {
    paths_ = out_paths(plan, options.out);
    calls.clear();
    sys::set_fault_hook(watch);
    convert(plan, options);
    sys::set_fault_hook(nullptr);
  }

  static std::optional<std::size_t> find(std::string_view name, const std::string& path,
                                         std::size_t from = 0) {
    for (std::size_t i = from; i < calls.size(); ++i)
      if (calls[i].name == name && calls[i].path == path) return i;
    return std::nullopt;
  }

  // Returns whether a directory is synced between two calls.
  static bool synced(const std::string& directory, std::size_t from, std::size_t before) {
    const auto at = find("fsync", directory, from);
    return at && *at < before;
  }

  // Checks that before a call, every file has its final name with its bytes, and every name of a
  // tree is synced.
  static void expect_durable(const std::string& tree, std::size_t before) {
    int names = 0;
    for (std::size_t i = 0; i < before; ++i) {
      const PublishCall& call = calls[i];
      if (!call.path.starts_with(tree + "/")) continue;
      if (call.name == "pwrite" && !call.path.ends_with(".tmp")) {
        const auto sync = find("fdatasync", call.path, i);
        EXPECT_TRUE(sync && *sync < before) << call.path << " is not synced";
      } else if (call.name == "pwrite") {
        const auto sync = find("fdatasync", call.path, i);
        const auto rename = find("rename", call.path, i);
        EXPECT_TRUE(sync && rename && *sync < *rename) << call.path << " is renamed unsynced";
      } else if (call.name == "rename" || call.name == "mkdir" || call.name == "link" ||
                 call.name == "symlink") {
        ++names;
        EXPECT_TRUE(synced(parent_path(call.path), i, before))
            << call.name << " of " << call.path << " is not durable";
      }
    }
    EXPECT_GT(names, 5);
  }

  // The note is durable before anything leaves staging.
  void expect_noted(std::size_t before) const {
    const std::string note = join_path(paths_.staging, "publishing.json.tmp");
    const auto written = find("fdatasync", note);
    const auto renamed = find("rename", note);
    ASSERT_TRUE(written && renamed);
    EXPECT_LT(*written, *renamed);
    EXPECT_TRUE(synced(paths_.staging, *renamed, before)) << "the note is not durable";
  }

  // The plan's record is the last file that leaves, but for the note and the marker.
  void expect_record_stays(std::size_t from) const {
    const auto record = find("unlink", join_path(paths_.staging, kPlanRecordName), from);
    ASSERT_TRUE(record);
    for (std::size_t i = *record + 1; i < calls.size(); ++i) {
      if (calls[i].name != "unlink") continue;
      const std::string name = entry_name(calls[i].path);
      EXPECT_TRUE(name == kPlanRecordName || name == "publishing.json" ||
                  name == OwnedDirectory::kMarker)
          << calls[i].path;
    }
  }

  // Nothing is removed before the names are durable. Journals go first, the marker last.
  void expect_removed_after(std::size_t published, const std::vector<std::string>& directories) {
    std::optional<std::size_t> first;
    std::optional<std::size_t> last_journal;
    std::optional<std::size_t> other;
    for (std::size_t i = published; i < calls.size(); ++i) {
      const PublishCall& call = calls[i];
      if (call.name != "unlink" && call.name != "rmdir") continue;
      if (!first) first = i;
      const bool journal = call.path.find("/journal.") != std::string::npos;
      if (journal) last_journal = i;
      if (!journal && !other) other = i;
    }
    ASSERT_TRUE(first && last_journal && other);
    for (const std::string& directory : directories)
      EXPECT_TRUE(synced(directory, published, *first)) << directory;
    EXPECT_LT(*last_journal, *other);
    EXPECT_TRUE(synced(paths_.staging, *last_journal, *other)) << "journals may come back";
    expect_record_stays(published);
    const auto marker = find("unlink", join_path(paths_.staging, OwnedDirectory::kMarker));
    ASSERT_TRUE(marker);
    for (std::size_t i = *marker + 1; i < calls.size(); ++i)
      EXPECT_NE(calls[i].name, "unlink") << calls[i].path;
    const auto gone = find("rmdir", paths_.staging);
    ASSERT_TRUE(gone);
    EXPECT_TRUE(synced(paths_.parent, *gone, calls.size()));
  }

  // Once the output is published, the note says so until the plan's record is gone.
  void expect_note_after_record(std::size_t published) const {
    const auto record = find("unlink", join_path(paths_.staging, kPlanRecordName), published);
    const auto note = find("unlink", join_path(paths_.staging, "publishing.json"), published);
    ASSERT_TRUE(record && note);
    EXPECT_TRUE(synced(paths_.staging, *record, *note));
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
  OutPaths paths_;
};

// The plan's record stays until the last file has left staging.
TEST_F(PublishOrder, OfRemovingAnUnfinishedRun) {
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  convert(small_plan(source_), worker);
  paths_ = out_paths(out_);
  write_text(join_path(paths_.staging, "zz/file"), "left");
  calls.clear();
  sys::set_fault_hook(watch);
  clean_staging(paths_);
  sys::set_fault_hook(nullptr);
  EXPECT_FALSE(exists(paths_.staging));
  expect_record_stays(0);
}

TEST_F(PublishOrder, OfANewOutput) {
  run(small_plan(source_), to_output(out_));
  const auto published = find("rename", paths_.tree);
  ASSERT_TRUE(published);
  expect_durable(paths_.tree, *published);
  expect_noted(*published);
  expect_removed_after(*published, {paths_.parent});
  expect_note_after_record(*published);
}

TEST_F(PublishOrder, OfAStepThatIsExchanged) {
  convert(small_plan(source_), to_output(out_));
  PlanOptions other = small_options();
  other.chunk_bytes = 128;
  RunOptions options = to_output(out_);
  options.overwrite = true;
  run(small_plan(source_, other), options);
  const auto published = find("renameat2", paths_.step);
  ASSERT_TRUE(published);
  expect_durable(paths_.tree, *published);
  expect_noted(*published);
  expect_removed_after(*published, {out_});
  expect_note_after_record(*published);
}

// The old index stops being a checkpoint before any of its files moves. The new one becomes a
// checkpoint after all of its files have moved.
TEST_F(PublishOrder, OfAnIndexInPlace) {
  source_ = copy_fixture("llama3.1", dir_ / "scaled");
  PlanOptions link;
  link.link = link.in_place = true;
  convert(small_plan(source_, link), to_output(source_));
  link.encoding.checksum = false;
  RunOptions options = to_output(source_);
  options.overwrite = true;
  run(small_plan(source_, link), options);
  const auto aside = find("rename", join_path(source_, "manifest.ocdbt"));
  const auto published = find("rename", join_path(paths_.step, "manifest.ocdbt"));
  ASSERT_TRUE(aside && published);
  EXPECT_LT(*aside, *published);
  int moved = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PublishCall& call = calls[i];
    const bool old = call.path.starts_with(source_ + "/");
    const bool staged = call.path.starts_with(paths_.step + "/") && !call.path.ends_with(".tmp");
    if (call.name != "rename" || (!old && !staged) || i == *aside || i == *published) continue;
    ++moved;
    EXPECT_TRUE(synced(source_, *aside, i)) << call.path << " moves while the old index may stand";
    const bool data = parent_path(call.path).ends_with("/d");
    EXPECT_TRUE(synced(data ? join_path(source_, "d") : source_, i, *published)) << call.path;
  }
  EXPECT_GT(moved, 10);
  expect_durable(paths_.tree, *aside);
  expect_noted(*aside);
  expect_removed_after(*published, {source_});
  expect_note_after_record(*published);
}

}  // namespace
}  // namespace hfshard
