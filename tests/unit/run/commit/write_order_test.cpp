// kill -9 can't show the effects of a power cut, since the page cache survives. So this checks the
// order of system calls: a journal record follows the sync of its data.

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

enum class What { committed, synced, journaled };
struct Event {
  What what;
  std::string file;           // synced
  std::uint64_t address = 0;  // committed: end of the tile
};

std::mutex events_mutex;
std::vector<Event> events;

void note(Event event) {
  const std::lock_guard lock(events_mutex);
  events.push_back(std::move(event));
}

// Calls are recorded before they happen. That suffices for a sync, since the journal's thread makes
// it.
int watch_syncs(const char* call, const char* path) {
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
  const std::string staging = out_paths(dir / "out").staging;
  std::vector<JournalRecord> done;
  events.clear();
  sys::set_fault_hook(watch_syncs);
  // The last tile isn't committed, so that the journal still exists.
  EXPECT_THROW(convert(plan, to_output(dir / "out"),
                       [&](Stage stage, const Tile& tile) {
                         if (stage != Stage::commit) return;
                         if (tile.end_address == plan.end_address())
                           throw std::runtime_error("planted");
                         note({What::committed, {}, tile.end_address});
                       }),
               std::runtime_error);
  sys::set_fault_hook(nullptr);
  done = read_journals(staging, plan.id(), plan.model().digest_slots()).done;
  ASSERT_GT(done.size(), 20U);
  std::size_t record = 0;
  std::uint64_t committed = 0;
  std::vector<std::string> synced;  // since the last commit
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
        if (plan.file_begin()[file] >= speaks_of.end ||
            plan.file_begin()[file + 1] <= speaks_of.begin)
          continue;
        EXPECT_NE(std::ranges::find(synced, plan.file_path(file)), synced.end())
            << "record " << record << " speaks of " << plan.file_path(file);
      }
    }
  }
  EXPECT_EQ(record, done.size());
}

bool removes(std::string_view call) { return call == "unlink" || call == "rmdir"; }

// The losses of a power cut: changed bytes and names without a sync. Calls are recorded before they
// happen, so a name is new if it doesn't exist yet.
class Durability {
 public:
  // `to` is for a rename to another directory, or empty.
  void call(const std::string& name, const std::string& path, const std::string& to) {
    if (name == "pwrite" || name == "truncate") {
      changed_bytes_.insert(path);
    } else if (name == "fdatasync") {
      changed_bytes_.erase(path);
    } else if (name == "fsync") {
      changed_bytes_.erase(path);
      changed_names_.erase(path);
    } else if (name == "mkdir" || name == "open" || name == "link" || name == "symlink") {
      if (!exists(path) && exists(parent_path(path))) changed_names_.insert(parent_path(path));
    } else if (name.starts_with("rename") || (removes(name) && exists(path))) {
      changed_names_.insert(parent_path(path));
      if (!to.empty()) changed_names_.insert(parent_path(to));
    }
  }
  // Returns lost files and directories at or below a path.
  std::string lost(const std::string& below, const std::string& beside = "") const {
    std::string out;
    for (const auto* all : {&changed_bytes_, &changed_names_}) {
      for (const std::string& path : *all) {
        if (path.starts_with(below) && (beside.empty() || !path.starts_with(beside)))
          out += path.substr(below.size()) + " ";
      }
    }
    return out;
  }

 private:
  std::set<std::string> changed_bytes_;
  std::set<std::string> changed_names_;
};

// Moments that others rely on, and the losses of a power cut at each.
struct Moment {
  std::string what;
  std::string lost;
};

Durability durability;
OutPaths watched;
std::vector<Moment> moments;

int follow(const char* call, const char* path) {
  const std::lock_guard lock(events_mutex);
  const std::string name(call);
  const std::string at(path);
  const std::string above = parent_path(parent_path(watched.parent));
  if (name == "pwrite" && at.find("/journal.") != std::string::npos)
    moments.push_back({"record", durability.lost(above)});
  if (name.starts_with("rename") && (at == watched.tree || at == watched.step))
    moments.push_back({"publish", durability.lost(watched.staging)});
  const bool journal = at.find("/journal.") != std::string::npos;
  if (removes(name) && journal)
    moments.push_back({"clean", exists(at) ? durability.lost(above, watched.staging) : ""});
  // The first removal after the journals.
  if (removes(name) && !journal && !moments.empty() && moments.back().what == "clean")
    moments.push_back({"remove", durability.lost(watched.staging, watched.tree)});
  const std::string to = at == watched.tree   ? watched.out
                         : at == watched.step ? join_path(watched.out, "0")
                                              : "";
  durability.call(name, at, name.starts_with("rename") ? to : "");
  return 0;
}

// Two levels above OUT are missing too. Their names must be as durable as those below.
std::vector<Moment> moments_of(const TempDir& dir, bool overwrite) {
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "made/here/out");
  if (overwrite) {
    PlanOptions wanted = small_options();
    wanted.chunk_bytes = 128;
    convert(small_plan(dir / "source", wanted), options);
    options.overwrite = true;
  }
  options.jobs = 1;  // one thread: written means committed
  options.io_threads = 0;
  durability = {};
  moments.clear();
  watched = out_paths(options.out, "0");
  sys::set_fault_hook(follow);
  convert(plan, options);
  sys::set_fault_hook(nullptr);
  return moments;
}

TEST(WriteOrder, NothingThatIsReliedOnIsLostInAPowerCut) {
  for (const bool overwrite : {false, true}) {
    SCOPED_TRACE(overwrite);
    const TempDir dir;
    std::map<std::string, int> seen;
    for (const Moment& moment : moments_of(dir, overwrite)) {
      ++seen[moment.what];
      EXPECT_EQ(moment.lost, "") << moment.what << " " << seen[moment.what];
    }
    EXPECT_GT(seen["record"], 20);
    EXPECT_EQ(seen["publish"], 1);
    EXPECT_GE(seen["clean"], 1);
    EXPECT_EQ(seen["remove"], 1);
  }
}

}  // namespace
}  // namespace hfshard
