#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "catalog/checkpoint.h"

#include "hfshard/convert.h"
#include "hfshard/inspect.h"

namespace hfshard {

/// The search stops after this many missing chunks. A damaged index can claim a grid with any
/// number of chunks, while the index bounds those that exist.
inline constexpr std::uint64_t kMaxMissing = 1'000'000;

/// Returns the number of chunks of an array.
std::uint64_t chunk_total(const Catalog& catalog, std::uint32_t array);
/// Returns a file's name for reports: relative to `root` if the file is below it.
std::string shown_name(const Catalog& catalog, const std::string& root, const std::string& file);
/// Looks up the key of every chunk; lists the first `listed` missing chunks and counts all.
/// `filter`: a pattern for array names (fits).
DamageList find_missing_chunks(const Checkpoint& opened, const std::string& root,
                               std::size_t listed, std::string_view filter = {});
/// Reads every chunk, in the order of the source's files if possible; a damaged chunk doesn't end
/// the search. Memory: a buffer, or one cell up to kWholeCellBytes, and scratch. Throws: errors
/// that aren't damage (limit, internal, ...).
DamageList read_chunks(const Checkpoint& opened, const std::string& root, Reporter& reporter,
                       std::string_view filter = {});
/// Reads every object and adds the damaged ones. Throws: as read_chunks.
void add_damaged_objects(const Checkpoint& opened, const std::string& root, std::string_view filter,
                         DamageList& found);

/// Decodes cells up to this size at once, which every encoder's frames allow; larger ones step by
/// step.
inline constexpr std::uint64_t kWholeCellBytes = std::uint64_t{128} << 20;

}  // namespace hfshard
