// What a power cut may leave cannot be seen after kill -9, since the page cache survives. So the
// order of the system calls is looked at: a journal record follows the sync of the data it speaks
// of.

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/syscalls.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

enum class What { committed, synced, journaled };
struct Event {
  What what;
  std::string file;           // synced
  std::uint64_t address = 0;  // committed: where the tile ends
};

std::mutex events_mutex;
std::vector<Event> events;

void note(Event event) {
  const std::lock_guard lock(events_mutex);
  events.push_back(std::move(event));
}

// A call is noted before it happens: for a sync, good enough, since its thread is the journal's.
int watch(const char* call, const char* path) {
  const std::string_view name(path);
  if (std::string_view(call) == "fdatasync" && name.find("/d/") != std::string_view::npos)
    note({What::synced, std::string(name.substr(name.rfind("d/")))});
  if (std::string_view(call) == "pwrite" && name.find("/journal.") != std::string_view::npos)
    note({What::journaled, {}});
  return 0;
}

TEST(WriteOrder, AJournalRecordFollowsTheSyncOfItsData) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::string staging = out_paths(dir / "out", 0).staging;
  std::vector<JournalRecord> done;
  events.clear();
  sys::set_fault_hook(watch);
  // The last tile is not committed, so that the journal is still there to be read.
  EXPECT_THROW(convert(plan, to_output(dir / "out"),
                       [&](Stage stage, const Tile& tile) {
                         if (stage != Stage::commit) return;
                         if (tile.end_address == plan.end_address())
                           throw std::runtime_error("planted");
                         note({What::committed, {}, tile.end_address});
                       }),
               std::runtime_error);
  sys::set_fault_hook(nullptr);
  done = read_journals(staging, plan.id, plan.digest_slots()).done;
  ASSERT_GT(done.size(), 20U);
  std::size_t record = 0;
  std::uint64_t committed = 0;
  std::vector<std::string> synced;  // since the last tile was committed
  for (const Event& event : events) {
    if (event.what == What::committed) {
      committed = event.address;
      synced.clear();
    } else if (event.what == What::synced) {
      synced.push_back(event.file);
    } else {
      ASSERT_LT(record, done.size());
      const JournalRecord& speaks_of = done[record++];
      EXPECT_GE(committed, speaks_of.end) << "record " << record;
      for (std::uint32_t file = 0; file < plan.file_count(); ++file) {
        if (plan.file_begin[file] >= speaks_of.end || plan.file_begin[file + 1] <= speaks_of.begin)
          continue;
        EXPECT_NE(std::ranges::find(synced, plan.file_path(file)), synced.end())
            << "record " << record << " speaks of " << plan.file_path(file);
      }
    }
  }
  EXPECT_EQ(record, done.size());
}

}  // namespace
}  // namespace hfshard
