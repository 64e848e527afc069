#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/grid.h"
#include "catalog/piece.h"
#include "format/orbax/zarr/chunk_key.h"

#include "hfshard/dtype.h"
#include "hfshard/encoding.h"

namespace hfshard::format::orbax::zarr {

/// What makes a cell one frame or stream, of a length that only decoding tells.
enum class Compressor : std::uint8_t { none, zstd, gzip, zlib };
std::string_view to_string(Compressor compressor) noexcept;

/// What `zarr.json` or `.zarray` says about one array, as far as this release reads it.
struct Array {
  DType dtype = DType::bf16;
  Shape shape;
  Shape chunk;           ///< every extent at least 1
  Shape inner;           ///< equal to chunk when not sharded; divides it
  bool sharded = false;  ///< `sharding_indexed`
  Compressor compressor = Compressor::none;
  int level = 0;              ///< of the compressor
  bool inner_crc32c = false;  ///< after each cell, inside of the compressor
  bool crc32c = true;         ///< after each cell
  bool index_first = false;   ///< of inner chunks: in front of them, else behind them
  bool index_crc32c = true;
  std::vector<std::uint8_t> order{};        ///< axes as a cell is stored; empty: as they are
  std::vector<std::uint8_t> index_order{};  ///< axes by which inner chunks are counted in the index
  KeyEncoding keys;
  /// An element of what is not stored, from the front; nothing: its bytes are not known.
  std::optional<std::array<std::byte, 8>> fill = std::array<std::byte, 8>{};
  /// Chunks and inner chunks that are not stored have the fill value, else they are missing: the
  /// tree says so, not the array.
  bool may_lack = false;
  friend bool operator==(const Array&, const Array&) = default;

  /// What a chunk looks like on disk; compressed, before encoding. scratch_bytes is not set.
  /// Throws: limit (beyond 64-bit sizes or 2^27 inner chunks).
  PieceForm form() const;
  /// How long a stored chunk may be that has all its cells; both are the form's size unless there
  /// is a compressor. Throws: limit.
  struct StoredBytes {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
  };
  StoredBytes stored_bytes() const;
  /// The same of the chunk at a place of the grid, if its inner chunks that may be missing are.
  std::uint64_t least_stored_bytes(const Shape& at) const;
  /// What a cell has after decompression: its elements, and a checksum if that is inside.
  std::uint64_t content_bytes(const PieceForm& form) const noexcept {
    return form.cell_bytes + (inner_crc32c ? 4 : 0);
  }
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
/// Parses `.zarray`, of zarr v2. Throws: as parse_array.
Array parse_array_v2(std::string_view text, std::string_view file, std::string_view leaf);

}  // namespace hfshard::format::orbax::zarr
