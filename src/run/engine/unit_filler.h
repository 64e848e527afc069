#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/layout/layout.h"
#include "run/engine/cells.h"
#include "run/engine/piece_filler.h"
#include "run/engine/record.h"
#include "run/engine/sources.h"
#include "run/engine/stage_meter.h"

namespace hfshard {

/// Reads the sources of a unit and lays out its chunks as on disk, except suffixes and tails, which
/// are the target's. Const and thread-safe. Only uses the memory that it is given, and a few
/// kilobytes for bookkeeping.
class UnitFiller {
 public:
  /// `meter` receives the time of reads.
  UnitFiller(const Layout& layout, const SourceReads& sources, StageMeter* meter = nullptr)
      : layout_(layout), sources_(sources), meter_(meter), pieces_(layout, sources, meter) {}
  /// Returns the bytes that fill() needs in addition to the region.
  std::uint64_t scratch_bytes(const UnitRef& ref) const;
  /// Tells the operating system which source bytes the unit will read.
  void hint(const UnitRef& ref) const;
  /// Fills `region` and appends one digest contribution per source tensor read. Returns how many
  /// finite values became infinite. Throws: as the sources, with the tensor's name and rule.
  std::uint64_t fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
                     std::vector<SlotDigest>& digests) const {
    return fill(ref, region, scratch, &digests);
  }
  /// Fills `region` without digests. Throws: as fill.
  void fill_only(const UnitRef& ref, std::span<std::byte> region,
                 std::span<std::byte> scratch) const {
    fill(ref, region, scratch, nullptr);
  }

 private:
  // Skips digests if `digests` is null.
  std::uint64_t fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
                     std::vector<SlotDigest>* digests) const;
  // Fills a part whose source is plain. Returns overflows.
  std::uint64_t fill_plain(const UnitRef& ref, const UnitPart& part, const std::vector<Cell>& cells,
                           std::span<std::byte> region, std::span<std::byte> scratch,
                           Digest128* sum) const;
  void fill_constants(const UnitRef& ref, const std::vector<Cell>& cells,
                      std::span<std::byte> region) const;
  const Layout& layout_;
  SourceReads sources_;
  StageMeter* meter_;
  PieceFiller pieces_;
};

}  // namespace hfshard
