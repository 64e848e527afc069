#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "format/orbax/zarr/array.h"

namespace hfshard::format::orbax::zarr {

// Parsing that zarr v2 and v3 share.

/// Parses the extents of `what`. Throws: corrupt (one below `smallest`), unsupported (rank).
Shape parse_extents(const Json& json, std::uint64_t smallest, std::string_view what);

/// Parses an element of a fill value: a number, "NaN", "Infinity", "-Infinity" or "0x" and its
/// bits; null is zero. Empty if hfshard can't tell its bytes.
std::optional<std::array<std::byte, 8>> parse_fill(const Json& json, DType dtype);

/// Parses the text of a metadata file called `what`, and adds its place to errors.
Array parse_with(Array (*parse)(const Json&), std::string_view what, std::string_view text,
                 std::string_view file, std::string_view leaf);

}  // namespace hfshard::format::orbax::zarr
