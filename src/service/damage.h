#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "catalog/checkpoint.h"

#include "hfshard/convert.h"
#include "hfshard/inspect.h"

namespace hfshard {

/// A checkpoint that lacks more chunks than this is not searched further: a grid that a damaged
/// index makes up can have any number of chunks, those that exist are bounded by the index.
inline constexpr std::uint64_t kMaxMissing = 1'000'000;

/// Number of chunks of an array.
std::uint64_t chunk_total(const Catalog& catalog, std::uint32_t array);
/// A file as reports name it: relative to the checkpoint at `root` where it lies in it.
std::string shown_name(const Catalog& catalog, const std::string& root, const std::string& file);
/// Looks up the key of every chunk; lists the first `listed` that are missing, counts all.
/// `filter`: of which arrays, by name (fits).
DamageList find_missing_chunks(const Checkpoint& opened, const std::string& root,
                               std::size_t listed, std::string_view filter = {});
/// Reads every chunk, in the order of the source's files where it has them; a damaged one does not
/// end it. Memory: a buffer, or one cell up to kWholeCellBytes, and scratch. Throws: what is no
/// damage (limit, internal, ...).
DamageList read_chunks(const Checkpoint& opened, const std::string& root, Reporter& reporter,
                       std::string_view filter = {});

/// Cells up to this are decoded at once, which is what every encoder's frames allow; beyond, step
/// by step.
inline constexpr std::uint64_t kWholeCellBytes = std::uint64_t{128} << 20;

}  // namespace hfshard
