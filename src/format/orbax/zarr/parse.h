#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "format/orbax/zarr/array.h"

namespace hfshard::format::orbax::zarr {

// What the metadata of both versions of zarr have in common.

/// The extents of `what`. Throws: corrupt (one below `smallest`), unsupported (rank).
Shape parse_extents(const Json& json, std::uint64_t smallest, std::string_view what);

/// An element as a fill value states it: a number, "NaN", "Infinity", "-Infinity" or "0x" and its
/// bits; null is zero. Nothing if this release cannot tell its bytes.
std::optional<std::array<std::byte, 8>> parse_fill(const Json& json, DType dtype);

/// Parses the text of a metadata file called `what`, and gives errors its place.
Array parse_with(Array (*parse)(const Json&), std::string_view what, std::string_view text,
                 std::string_view file, std::string_view leaf);

}  // namespace hfshard::format::orbax::zarr
