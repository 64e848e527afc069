#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "plan/plan.h"
#include "run/moving/cells.h"
#include "run/moving/sources.h"

namespace hfshard {

/// What one unit adds to the digest of one (rule, source tensor).
struct SlotDigest {
  std::uint64_t slot = 0;
  Digest128 sum;
};

/// Reads the sources of a unit and lays its chunks out as they will be on disk (suffixes and tails
/// are the target's). Const and thread-safe; uses no memory but what it is given, beyond a few
/// kilobytes of bookkeeping.
class UnitFiller {
 public:
  UnitFiller(const Plan& plan, const OpenSources& sources) : plan_(plan), sources_(sources) {}
  /// Bytes that fill() needs beside the region.
  std::uint64_t scratch_bytes(const UnitRef& ref) const;
  /// Tells the operating system which source bytes the unit will read.
  void hint(const UnitRef& ref) const;
  /// Fills `region` and appends one digest contribution per source tensor read. Returns how many
  /// finite values became infinite. Throws: what the sources throw, with the tensor's name and
  /// rule.
  std::uint64_t fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
                     std::vector<SlotDigest>& digests) const;

 private:
  void fill_constants(const UnitRef& ref, const std::vector<Cell>& cells,
                      std::span<std::byte> region) const;
  const Plan& plan_;
  const OpenSources& sources_;
};

}  // namespace hfshard
