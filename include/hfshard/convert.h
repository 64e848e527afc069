#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/io.h"
#include "hfshard/plan.h"

namespace hfshard {

struct Limits;
struct PlanSummary;

/// How the source's files come below an output that is linked.
enum class ShardLinks : std::uint8_t {
  automatic,  ///< a hard link, or else a symbolic one
  hard,
  symbolic,
  reflink,  ///< a copy that shares its blocks, where the file system has them
};

/// Options of a run that never affect bytes.
struct RunOptions {
  std::string out;  ///< ignored by a target that discards
  std::uint64_t max_memory_bytes = std::uint64_t{2} << 30;
  unsigned jobs = 0;        ///< kernel threads; 0: one for each CPU that this process may use
  unsigned io_threads = 2;  ///< more, while those wait for reads and writes
  IoMode io = IoMode::automatic;
  bool resume = false;
  bool overwrite = false;
  std::uint32_t worker = 0;  ///< --worker I/N
  std::uint32_t workers = 1;
  ShardLinks shards = ShardLinks::automatic;  ///< of a plan that links
  const std::atomic<bool>* stop = nullptr;    ///< set by Ctrl-C: drain, commit, throw cancelled
  /// Where arrays are unpacked for a while by what has no staging directory, if memory does not
  /// hold them. Too little room is a limit before anything is read.
  std::string scratch_directory = "/var/tmp";
  const Limits* limits = nullptr;  ///< sizes that only tests change; null: the product's
};

/// Where the time of a run went, by stage: what its threads spent, divided by their number, and for
/// what one of them does for all (waiting for the disk in order) all of it. The largest is the
/// stage that limits. Bytes that are mapped are read while kernels use them, and count as theirs.
struct StageTimes {
  double read_seconds = 0;    ///< of a source that is far: waiting for the link
  double kernel_seconds = 0;  ///< decoding, casting, moving, hashing, encoding
  double write_seconds = 0;
};

/// What earlier runs of the same plan have left, of the share that a run is about to write.
struct FoundWork {
  std::uint64_t bytes = 0;  ///< of output, as Reporter::started counts it; skipped
  std::uint64_t total_bytes = 0;
  std::uint32_t workers = 0;  ///< whose journals say so
  bool asked = false;         ///< RunOptions::resume
};

/// Told how far a run is; this one does not listen. Called from one thread at a time.
class Reporter {
 public:
  virtual ~Reporter() = default;
  /// What is going to be done, before anything is written.
  virtual void planned(const PlanSummary& /*plan*/) {}
  /// Before `started`, by a run that goes on with the work of another, or was to.
  virtual void resumed(const FoundWork& /*found*/) {}
  /// A stage of work begins; of a worker, its share.
  virtual void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) {}
  /// Of a run whose source is far, before `started`: `bytes` says how many have come over the
  /// network, and may be called from any thread. When the run ends, an empty one takes its place.
  virtual void linked(const std::function<std::uint64_t()>& /*bytes*/) {}
  /// Since `started`, where a run knows; before each call of `advanced`.
  virtual void timed(const StageTimes& /*times*/) {}
  /// Bytes of output committed, or read, since the last call.
  virtual void advanced(std::uint64_t /*bytes*/) {}
  virtual void note(const std::string& /*text*/) {}
};

/// A file of the source that an index leads to, and that is not there yet.
struct AwaitedFile {
  std::string path;
  std::uint64_t size_bytes = 0;
};

/// What a run did.
struct RunResult {
  bool already_done = false;        ///< --resume of a finished output
  bool published = false;           ///< false for a worker's share
  std::string path;                 ///< of the item directory: OUT/0/items
  std::uint64_t output_bytes = 0;   ///< of all data files; compressed, at most until published
  std::uint64_t written_bytes = 0;  ///< data files, this run
  std::uint64_t skipped_bytes = 0;  ///< found done in the journals
  std::uint64_t source_bytes = 0;   ///< read by this run (rules' bytes of the tiles it moved)
  std::uint64_t peak_arena_bytes = 0;
  std::uint64_t journal_records = 0;
  std::uint64_t overflows = 0;        ///< finite values that a cast made infinite, whole output
  std::string root_digest;            ///< hex; empty for a worker's share
  std::vector<IoChoice> reads;        ///< how source files were read
  std::vector<IoChoice> writes;       ///< how data files were written
  std::optional<NetworkUse> network;  ///< of a source that is far
  std::vector<AwaitedFile> awaited;   ///< of a link: they are to be fetched
  double seconds = 0;
};

}  // namespace hfshard
