#pragma once

#include <cstdint>
#include <string>

#include "bytes/output.h"
#include "run/moving/record.h"

namespace hfshard {

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

/// Reads every journal of `staging`, each up to its first bad record or foreign plan id. Records
/// that overlap (two copies of one worker) count once: the selection that covers most is kept.
/// Throws: io.
JournalState read_journals(const std::string& staging, const std::string& plan_id,
                           std::uint64_t slots);

}  // namespace hfshard
