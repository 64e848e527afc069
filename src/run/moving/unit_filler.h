#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/layout/layout.h"
#include "run/moving/cells.h"
#include "run/moving/piece_filler.h"
#include "run/moving/record.h"
#include "run/moving/sources.h"
#include "run/moving/stage_meter.h"

namespace hfshard {

/// Reads the sources of a unit and lays its chunks out as they will be on disk (suffixes and tails
/// are the target's). Const and thread-safe; uses no memory but what it is given, beyond a few
/// kilobytes of bookkeeping.
class UnitFiller {
 public:
  /// `meter` is told how long reads take.
  UnitFiller(const Layout& layout, const SourceReads& sources, StageMeter* meter = nullptr)
      : layout_(layout), sources_(sources), meter_(meter), pieces_(layout, sources, meter) {}
  /// Bytes that fill() needs beside the region.
  std::uint64_t scratch_bytes(const UnitRef& ref) const;
  /// Tells the operating system which source bytes the unit will read.
  void hint(const UnitRef& ref) const;
  /// Fills `region` and appends one digest contribution per source tensor read. Returns how many
  /// finite values became infinite. Throws: what the sources throw, with the tensor's name and
  /// rule.
  std::uint64_t fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
                     std::vector<SlotDigest>& digests) const {
    return fill(ref, region, scratch, &digests);
  }
  /// The same for who wants the bytes alone. Throws: as fill.
  void fill_only(const UnitRef& ref, std::span<std::byte> region,
                 std::span<std::byte> scratch) const {
    fill(ref, region, scratch, nullptr);
  }

 private:
  // `digests`: null if nobody wants them.
  std::uint64_t fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
                     std::vector<SlotDigest>* digests) const;
  // Of a part whose source is plain. Returns overflows.
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
