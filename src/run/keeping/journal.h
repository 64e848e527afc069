#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.h"
#include "bytes/output.h"
#include "run/moving/unit_filler.h"

namespace hfshard {

/// One committed run of output: the data files hold [begin, end) of the plan's address space
/// durably, and these are the digests of what it read.
struct JournalRecord {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<SlotDigest> digests;
  std::uint64_t overflows = 0;           ///< finite values that became infinite
  std::vector<std::uint32_t> lengths{};  ///< of every chunk in the run, if they are compressed
};

/// Append-only journal of one attempt of one worker: `journal.<worker>-<workers>.<attempt>`.
/// Record: magic "HFJ2", u32 payload bytes, payload (plan id 32 bytes, begin u64, end u64,
/// overflows u64, count u64, then slot u64 and digest 16 bytes each, then a u32 for every chunk
/// length), u32 crc32c over all before it; little-endian. Not thread-safe.
class JournalWriter {
 public:
  /// Creates the next free attempt number. Throws: io.
  JournalWriter(const std::string& staging, std::string plan_id, std::uint32_t worker,
                std::uint32_t workers);
  /// Appends and makes durable. The data that the record speaks of must be durable already.
  void append(const JournalRecord& record);

 private:
  OutputFile file_;
  std::string plan_id_;
  std::uint64_t size_bytes_ = 0;
};

/// What the journals of a staging directory prove together: disjoint intervals, ascending, and the
/// digest sums of exactly those.
struct JournalState {
  std::vector<JournalRecord> done;  ///< disjoint, ascending; digests moved into `sums`
  std::vector<Digest128> sums;      ///< per slot
  std::uint64_t records = 0;        ///< valid ones read
  std::uint64_t overflows = 0;      ///< of exactly those
  bool covers(std::uint64_t begin, std::uint64_t end) const;
  std::uint64_t done_bytes() const;
};

/// Reads every journal of `staging`, each up to its first bad record or foreign plan id. Records
/// that overlap (two copies of one worker) count once: the selection that covers most is kept.
/// Throws: io.
JournalState read_journals(const std::string& staging, const std::string& plan_id,
                           std::uint64_t slots);

}  // namespace hfshard
