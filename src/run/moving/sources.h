#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bytes/source.h"
#include "catalog/catalog.h"
#include "plan/layout/limits.h"

#include "hfshard/io.h"

namespace hfshard {

/// The source files of a plan, opened once. Index = CatalogFile index.
using OpenSources = std::vector<std::unique_ptr<SourceFile>>;
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
