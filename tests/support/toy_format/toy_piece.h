#pragma once

#include <memory>
#include <string>

#include "bytes/local/source.h"
#include "catalog/checkpoint.h"
#include "catalog/piece.h"

#include "hfshard/encoding.h"

namespace hfshard::toy {

/// The front of every data file.
inline constexpr std::string_view kLeading = "toy format, data file";

/// Returns the form of a leaf's pieces. Throws: unsupported.
PieceForm form_of(const Array& array, const Grid& grid, const Encoding& encoding);
/// Implements Format::encode.
std::uint64_t seal(const PieceForm& form, std::span<std::byte> stored,
                   std::span<std::byte> scratch);
/// Returns a reader of the stored piece at a place. It allocates memory, which is fine in tests.
std::unique_ptr<PieceReader> open_piece(std::shared_ptr<const SourceFile> file, const Place& place,
                                        const PieceForm& form, const std::string& array);

}  // namespace hfshard::toy
