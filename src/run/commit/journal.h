#pragma once

#include <cstdint>
#include <string>

#include "bytes/local/output.h"
#include "plan/plan.h"
#include "run/engine/record.h"

namespace hfshard {

/// Append-only journal of one attempt of one worker: `journal.<worker>-<workers>.<attempt>`.
/// A record has the magic "HFJ2", the payload's size as u32, the payload, and a u32 with the crc32c
/// of all of them. The payload has the plan id (32 bytes), and begin, end, overflows and count as
/// u64. Then come a slot (u64) and a digest (16 bytes) for each of `count`, and a u32 for each
/// chunk length. Numbers are little-endian. Not thread-safe.
class JournalWriter {
 public:
  /// Creates the next free attempt number. Throws: io.
  JournalWriter(const std::string& staging, std::string plan_id, std::uint32_t worker,
                std::uint32_t workers);
  /// Appends a record and makes it durable. Its data must be durable already.
  void append(const JournalRecord& record);

 private:
  OutputFile file_;
  std::string plan_id_;
  std::uint64_t size_bytes_ = 0;
};

/// Reads all journals in `staging`. Each one ends at its first record that is bad, has another plan
/// id, or begins before the end of the last one. Overlapping records (two copies of one worker)
/// count once: the selection with the largest coverage is kept. Memory grows with the kept records,
/// not with the files. Throws: io.
JournalState read_journals(const std::string& staging, const std::string& plan_id,
                           std::uint64_t slots);
/// Reads them too, but each journal also ends at a record that no run of the plan can write. A
/// record has whole units, digests of the plan's transfers, and the length of each compressed
/// chunk.
JournalState read_journals(const std::string& staging, const Plan& plan);

}  // namespace hfshard
