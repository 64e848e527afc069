#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/grid.h"
#include "catalog/piece.h"

#include "hfshard/dtype.h"
#include "hfshard/encoding.h"

namespace hfshard::format::orbax::zarr {

/// How the grid indices of a chunk become its key.
/// Source: google/tensorstore tensorstore/driver/zarr3/metadata.cc.
struct KeyEncoding {
  bool leading_c = true;  ///< "default" (`c/0/1`, scalar `c`) or "v2" (`0.1`, scalar `0`)
  char separator = '/';
  friend bool operator==(const KeyEncoding&, const KeyEncoding&) = default;
};

/// What `zarr.json` says about one array, as far as this release reads and writes it.
struct Array {
  DType dtype = DType::bf16;
  Shape shape;
  Shape chunk;                        ///< every extent at least 1
  Shape inner;                        ///< equal to chunk when not sharded; divides it
  bool sharded = false;               ///< `sharding_indexed`, index at the end with crc32c
  std::optional<int> zstd;            ///< each cell is one frame of this level
  bool crc32c = true;                 ///< after each cell
  std::vector<std::uint8_t> order{};  ///< codec `transpose`: axes as stored; empty: as they are
  KeyEncoding keys;
  friend bool operator==(const Array&, const Array&) = default;

  /// What a chunk looks like on disk; with zstd, before encoding. scratch_bytes is not set. Throws:
  /// limit (beyond 64-bit sizes or 2^27 inner chunks).
  PieceForm form() const;
  /// How long a stored chunk may be that has all its cells; both are the form's size unless there
  /// is zstd. Throws: limit.
  struct StoredBytes {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
  };
  StoredBytes stored_bytes() const;
  /// The same of the chunk at a place of the grid, if its inner chunks outside of the array are
  /// missing.
  std::uint64_t least_stored_bytes(const Shape& at) const;
};

/// The array that holds `shape` cut as told; extents of 0 become 1, as the format demands.
/// Throws: unsupported (a dtype that zarr lacks).
Array make_array(DType dtype, const Shape& shape, const Shape& chunk, const Shape& inner,
                 const Encoding& encoding);
/// The array of a leaf cut by `grid`. A linked leaf is not encoded: its bytes are the source's.
Array make_array(DType dtype, const Shape& shape, const Grid& grid, const Encoding& encoding);

/// Name in `data_type`; nothing for packed 4-bit and 6-bit types, which zarr cannot store.
std::optional<std::string_view> data_type_name(DType dtype) noexcept;
std::optional<DType> data_type_from_name(std::string_view name) noexcept;

/// The text of `zarr.json`: compact, members sorted; the form that TensorStore itself writes.
std::string write_array(const Array& array);
/// Parses `zarr.json`. Errors name `file` and `leaf`. Throws: corrupt, unsupported.
Array parse_array(std::string_view text, std::string_view file, std::string_view leaf);

/// Key of a chunk below the array's path: `c/3/0`.
std::string chunk_key(const KeyEncoding& keys, const Shape& chunk);
/// The reverse; nothing if it is no canonical key of this rank.
std::optional<Shape> parse_chunk_key(const KeyEncoding& keys, std::size_t rank,
                                     std::string_view key);

}  // namespace hfshard::format::orbax::zarr
