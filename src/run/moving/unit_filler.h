#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bytes/data_source.h"
#include "plan/layout/layout.h"
#include "run/moving/cells.h"
#include "run/moving/record.h"

namespace hfshard {

/// The source files of a plan, opened once. Index = CatalogFile index.
using OpenSources = std::vector<std::unique_ptr<DataSource>>;
/// Opens every file of the catalog and compares size, mtime and inode with it. About `cached_bytes`
/// of what is read stay in the page cache, and what was there before.
/// Throws: not_found, io, conflict (the file changed since it was planned).
OpenSources open_sources(const Catalog& catalog, IoMode mode = IoMode::automatic,
                         std::uint64_t cached_bytes = Limits{}.cached_bytes);
/// Compares every file with what it was when it was opened, by descriptor and by name: what was
/// read until now is of one version. Throws: conflict (naming the file), io.
void check_unchanged(const OpenSources& sources);
/// The same by name, with the catalog. Throws: as above.
void check_unchanged(const Catalog& catalog);
/// How they are read.
std::vector<IoChoice> choices_of(const OpenSources& sources);

/// Reads the sources of a unit and lays its chunks out as they will be on disk (suffixes and tails
/// are the target's). Const and thread-safe; uses no memory but what it is given, beyond a few
/// kilobytes of bookkeeping.
class UnitFiller {
 public:
  UnitFiller(const Layout& layout, const OpenSources& sources)
      : layout_(layout), sources_(sources) {}
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
  const Layout& layout_;
  const OpenSources& sources_;
};

}  // namespace hfshard
