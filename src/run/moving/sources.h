#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bytes/read_ahead.h"
#include "bytes/source.h"
#include "catalog/catalog.h"
#include "plan/layout/limits.h"

#include "hfshard/io.h"

namespace hfshard {

/// The source files of a plan, opened once. Index = CatalogFile index.
using OpenSources = std::vector<std::unique_ptr<SourceFile>>;
/// Which files of a catalog come over a network.
std::vector<bool> far_files(const Catalog& catalog);

/// How the data of a run's sources is read: what was read ahead, or the file. Const and
/// thread-safe.
class SourceReads {
 public:
  /// `ahead` may be null.
  SourceReads(const OpenSources& files, ReadAhead* ahead = nullptr)
      : files_(files), ahead_(ahead) {}
  const SourceFile& file(std::uint32_t number) const { return *files_[number]; }
  struct Bytes {
    View view;
    bool ahead = false;  ///< they lie where they were read ahead
  };
  /// As Source::view. Valid until `release`.
  Bytes view(const FileRange& range, std::span<std::byte> scratch) const;
  /// They were used. Throws: as SourceFile::check_used.
  void release(const FileRange& range, Bytes bytes) const;
  /// Fills the front of `out`. Throws: as Source::read_at.
  void copy(const FileRange& range, std::span<std::byte> out) const;

 private:
  std::optional<std::span<const std::byte>> take(const FileRange& range) const;
  const OpenSources& files_;
  ReadAhead* ahead_;
};

/// Opens every file of the catalog and compares its identity with what it was there. About
/// `cached_bytes` of what is read stay in the page cache, and what was there before. Throws:
/// not_found, io, conflict (the file changed since it was planned).
OpenSources open_sources(const Catalog& catalog, IoMode mode = IoMode::automatic,
                         std::uint64_t cached_bytes = Limits{}.cached_bytes);
/// Compares every file with what it was when it was opened, by descriptor and by name: what was
/// read until now is of one version. Throws: conflict (naming the file), io.
void check_unchanged(const OpenSources& sources);
/// The same by name, with the catalog. Throws: as above.
void check_unchanged(const Catalog& catalog);
/// How they are read.
std::vector<IoChoice> choices_of(const OpenSources& sources);

}  // namespace hfshard
