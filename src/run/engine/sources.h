#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bytes/local/read_ahead.h"
#include "bytes/local/source.h"
#include "catalog/catalog.h"
#include "plan/layout/limits.h"

#include "hfshard/io.h"

namespace hfshard {

/// The source files of a plan, opened once. Index = CatalogFile index.
using OpenSources = std::vector<std::unique_ptr<SourceFile>>;
/// Returns which files of a catalog come over a network.
std::vector<bool> far_files(const Catalog& catalog);

/// Reads the data of a run's sources, from read-ahead memory or from the file. Const and
/// thread-safe.
class SourceReads {
 public:
  /// `ahead` can be null.
  SourceReads(const OpenSources& files, ReadAhead* ahead = nullptr)
      : files_(files), ahead_(ahead) {}
  const SourceFile& file(std::uint32_t number) const { return *files_[number]; }
  struct Bytes {
    View view;
    bool ahead = false;  ///< in read-ahead memory
  };
  /// Returns a view like Source::view. Valid until `release`.
  Bytes view(const FileRange& range, std::span<std::byte> scratch) const;
  /// Releases bytes after their use. Throws: as SourceFile::check_used.
  void release(const FileRange& range, Bytes bytes) const;
  /// Fills the front of `out`. Throws: as Source::read_at.
  void copy(const FileRange& range, std::span<std::byte> out) const;

 private:
  std::optional<std::span<const std::byte>> take(const FileRange& range) const;
  const OpenSources& files_;
  ReadAhead* ahead_;
};

/// Opens every file of the catalog and compares its identity with the catalog's. About
/// `cached_bytes` of the data stay in the page cache, and pages that were there before. Throws:
/// not_found, io, conflict (the file changed since it was planned).
OpenSources open_sources(const Catalog& catalog, IoMode mode = IoMode::automatic,
                         std::uint64_t cached_bytes = Limits{}.cached_bytes);
/// Compares every file with its state at opening, by descriptor and by name. If it is unchanged,
/// all reads were from one version. Throws: conflict (naming the file), io.
void check_unchanged(const OpenSources& sources);
/// Returns what a file is now, compared by name with the catalog. Throws: as above.
FileIdentity unchanged_identity(const CatalogFile& file);
/// Compares the files by name with the catalog. Throws: as above.
void check_unchanged(const std::vector<CatalogFile>& files);
/// Returns how they are read.
std::vector<IoChoice> choices_of(const OpenSources& sources);

}  // namespace hfshard
