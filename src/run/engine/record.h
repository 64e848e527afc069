#pragma once

#include <cstdint>
#include <vector>

#include "base/digest.h"

namespace hfshard {

/// A unit's share of the digest of one (rule, source tensor).
struct SlotDigest {
  std::uint64_t slot = 0;
  Digest128 sum;
};

/// One committed run of output. The data files have [begin, end) of the plan's address space
/// durably. The digests are of the data that it read.
struct JournalRecord {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<SlotDigest> digests;
  std::uint64_t overflows = 0;           ///< finite values that became infinite
  std::vector<std::uint32_t> lengths{};  ///< of compressed chunks
};

/// The combined contents of a staging directory's journals: disjoint intervals, ascending, and the
/// digest sums of exactly those.
struct JournalState {
  std::vector<JournalRecord> done;  ///< disjoint, ascending; digests moved into `sums`
  std::vector<Digest128> sums;      ///< per slot
  std::uint64_t records = 0;        ///< valid ones
  std::uint64_t overflows = 0;      ///< of exactly those
  std::uint32_t workers = 0;        ///< that wrote the journals
  bool covers(std::uint64_t begin, std::uint64_t end) const;
  std::uint64_t done_bytes(std::uint64_t begin = 0, std::uint64_t end = UINT64_MAX) const;
};

}  // namespace hfshard
