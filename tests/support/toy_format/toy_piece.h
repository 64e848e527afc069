#pragma once

#include <memory>
#include <string>

#include "bytes/source.h"
#include "catalog/checkpoint.h"
#include "catalog/piece.h"

#include "hfshard/encoding.h"

namespace hfshard::toy {

/// In front of every data file.
inline constexpr std::string_view kLeading = "toy format, data file";

/// The form of a leaf's pieces. Throws: unsupported.
PieceForm form_of(const Array& array, const Grid& grid, const Encoding& encoding);
/// Format::encode.
std::uint64_t seal(const PieceForm& form, std::span<std::byte> stored,
                   std::span<std::byte> scratch);
/// A reader of the stored piece at a place. It takes memory of its own: it is a test's.
std::unique_ptr<PieceReader> open_piece(std::shared_ptr<const SourceFile> file, const Place& place,
                                        const PieceForm& form, const std::string& array);

}  // namespace hfshard::toy
