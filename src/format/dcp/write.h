#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "catalog/format.h"

namespace hfshard::format::dcp {

inline constexpr std::string_view kDataPrefix = "__";
inline constexpr std::string_view kDataSuffix = "_0.distcp";

/// What surrounds a piece: an archive, whose pickle is that of the largest piece. Throws:
/// unsupported (a dtype that torch lacks, rows of packed elements that do not fill its units, a
/// coding), with the leaf's name.
PieceForm piece_form(const Leaf& leaf, const Grid& grid, const Encoding& encoding);

/// Makes a filled piece the archive of its tensor. At the far edges that is shorter: its elements
/// move together, and what is left behind the archive is zero. Returns how long it is.
std::uint64_t seal_piece(const PieceForm& form, const ChunkOf& chunk, std::span<std::byte> stored);

/// Streams `.metadata`.
void write_metadata(const TreeSpec& tree, const Placements& placed, const ByteSink& sink);

/// Whether a file of that name is one that a run writes.
bool is_written_name(std::string_view name);

}  // namespace hfshard::format::dcp
