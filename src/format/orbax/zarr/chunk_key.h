#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "hfshard/dtype.h"

namespace hfshard::format::orbax::zarr {

/// How the grid indices of a chunk become its key.
/// Source: google/tensorstore tensorstore/driver/zarr3/metadata.cc, tensorstore/driver/zarr.
struct KeyEncoding {
  bool leading_c = true;  ///< "default" (`c/0/1`, scalar `c`) or "v2" (`0.1`, scalar `0`)
  char separator = '/';
  friend bool operator==(const KeyEncoding&, const KeyEncoding&) = default;
};

/// Returns the key of a chunk, relative to the array's path: `c/3/0`.
std::string chunk_key(const KeyEncoding& keys, const Shape& chunk);
/// Returns the chunk of a key. Empty if it isn't a canonical key of this rank.
std::optional<Shape> parse_chunk_key(const KeyEncoding& keys, std::size_t rank,
                                     std::string_view key);

}  // namespace hfshard::format::orbax::zarr
