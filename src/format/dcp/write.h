#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "catalog/format.h"

namespace hfshard::format::dcp {

inline constexpr std::string_view kDataPrefix = "__";
inline constexpr std::string_view kDataSuffix = "_0.distcp";

/// Returns the archive around a piece, with the pickle of the largest piece. Throws: unsupported (a
/// dtype that torch lacks, rows of packed elements that do not fill its units, a coding), with the
/// leaf's name.
PieceForm piece_form(const Leaf& leaf, const Grid& grid, const Encoding& encoding);

/// Turns a filled piece into the archive of its tensor. At the far edges the archive is shorter:
/// its elements are packed, and zeros follow it. Returns its length.
std::uint64_t seal_piece(const PieceForm& form, const ChunkOf& chunk, std::span<std::byte> stored);

/// Streams `.metadata`.
void write_metadata(const TreeSpec& tree, const Placements& placed, const ByteSink& sink);

/// Returns whether a run writes a file with that name.
bool is_written_name(std::string_view name);

}  // namespace hfshard::format::dcp
