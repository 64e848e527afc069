#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  const Limits* limits = nullptr;             ///< sizes that only tests change; null: the product's
};

/// Told how far a run is; this one does not listen. Called from one thread at a time.
class Reporter {
 public:
  virtual ~Reporter() = default;
  /// What is going to be done, before anything is written.
  virtual void planned(const PlanSummary& /*plan*/) {}
  virtual void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) {}
  /// Bytes of output committed, or read, since the last call.
  virtual void advanced(std::uint64_t /*bytes*/) {}
  virtual void note(const std::string& /*text*/) {}
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
  std::uint64_t overflows = 0;   ///< finite values that a cast made infinite, whole output
  std::string root_digest;       ///< hex; empty for a worker's share
  std::vector<IoChoice> reads;   ///< how source files were read
  std::vector<IoChoice> writes;  ///< how data files were written
  double seconds = 0;
};

}  // namespace hfshard
