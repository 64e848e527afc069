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

/// How a linked output refers to the source's files.
enum class ShardLinks : std::uint8_t {
  automatic,  ///< hard links if possible, else symbolic ones
  hard,
  symbolic,
  reflink,  ///< copies that share blocks
};

/// Options of a run that never affect bytes.
struct RunOptions {
  std::string out;  ///< ignored if the target discards
  std::uint64_t max_memory_bytes = std::uint64_t{2} << 30;
  unsigned jobs = 0;        ///< kernel threads; 0: one per usable CPU
  unsigned io_threads = 2;  ///< additional, for reads and writes
  IoMode io = IoMode::automatic;
  bool resume = false;
  bool overwrite = false;
  std::uint32_t worker = 0;  ///< --worker I/N
  std::uint32_t workers = 1;
  ShardLinks shards = ShardLinks::automatic;  ///< for `link`
  /// Ctrl-C sets it. The run then drains, commits, and throws cancelled.
  const std::atomic<bool>* stop = nullptr;
  /// Directory for unpacked arrays that don't fit in memory, for commands without a staging
  /// directory. A run with too little space there fails with `limit` before it reads anything.
  std::string scratch_directory = "/var/tmp";
  const Limits* limits = nullptr;  ///< changed by tests only
};

/// The time that a run spent in each stage, divided by the stage's threads. Work that one thread
/// does for all, such as waiting for the disk, isn't divided. The largest time is the limiting
/// stage's. Mapped bytes are read while kernels use them, and count as kernel time.
struct StageTimes {
  double read_seconds = 0;    ///< for a remote source, waiting for it
  double kernel_seconds = 0;  ///< decoding, casting, moving, hashing, encoding
  double write_seconds = 0;
};

/// Work of earlier runs of the same plan, within the share that a run will write.
struct FoundWork {
  std::uint64_t bytes = 0;  ///< output bytes, skipped by the run
  std::uint64_t total_bytes = 0;
  std::uint32_t workers = 0;  ///< that wrote the journals
  bool asked = false;         ///< RunOptions::resume
  /// Source bytes that came over the network and aren't in the output yet.
  std::uint64_t arrived_bytes = 0;
};

/// Receives progress events, from one thread at a time. The default implementation ignores them.
class Reporter {
 public:
  virtual ~Reporter() = default;
  /// Receives the plan before anything is written.
  virtual void planned(const PlanSummary& /*plan*/) {}
  /// Receives the work of earlier runs, before `started`. Also called after --resume without
  /// earlier work.
  virtual void resumed(const FoundWork& /*found*/) {}
  /// Announces a stage of work. For a worker, the bytes are those of its share.
  virtual void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) {}
  /// Receives, before `started`, a function that returns the bytes received over the network. Any
  /// thread may call it. Only runs with a remote source call this; at the end they pass an empty
  /// function.
  virtual void linked(const std::function<std::uint64_t()>& /*bytes*/) {}
  /// Receives the times since `started`, before each call of `advanced`, if the run measures them.
  virtual void timed(const StageTimes& /*times*/) {}
  /// Receives the bytes that were committed or read since the last call.
  virtual void advanced(std::uint64_t /*bytes*/) {}
  virtual void note(const std::string& /*text*/) {}
};

/// A file of the source that a linked output needs, and that doesn't exist yet.
struct AwaitedFile {
  std::string path;
  std::uint64_t size_bytes = 0;
};

/// The result of a run.
struct RunResult {
  bool already_done = false;  ///< the output was complete before
  bool published = false;     ///< false for a worker's share
  std::string path;           ///< of the item directory: OUT/0/items
  /// Bytes in all data files. With compression, an upper bound until the output is published.
  std::uint64_t output_bytes = 0;
  std::uint64_t written_bytes = 0;  ///< to data files, by this run
  std::uint64_t skipped_bytes = 0;  ///< already in the journals
  std::uint64_t source_bytes = 0;   ///< read by this run
  std::uint64_t peak_arena_bytes = 0;
  std::uint64_t journal_records = 0;
  std::uint64_t overflows = 0;        ///< finite values cast to infinity
  std::string root_digest;            ///< hex; empty for a worker's share
  std::vector<IoChoice> reads;        ///< how source files were read
  std::vector<IoChoice> writes;       ///< how data files were written
  std::optional<NetworkUse> network;  ///< for a remote source
  std::vector<AwaitedFile> awaited;   ///< files that `link` still needs
  double seconds = 0;
};

}  // namespace hfshard
