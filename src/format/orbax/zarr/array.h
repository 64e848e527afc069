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

/// Makes a cell one frame or stream, whose length only decoding shows.
enum class Compressor : std::uint8_t { none, zstd, gzip, zlib };
std::string_view to_string(Compressor compressor) noexcept;

/// The contents of `zarr.json` or `.zarray` for one array, as far as hfshard reads them.
struct Array {
  DType dtype = DType::bf16;
  Shape shape;
  Shape chunk;           ///< every extent at least 1
  Shape inner;           ///< divides chunk; equal if not sharded
  bool sharded = false;  ///< `sharding_indexed`
  Compressor compressor = Compressor::none;
  int level = 0;              ///< of the compressor
  bool inner_crc32c = false;  ///< per cell, inside the compressor
  bool crc32c = true;         ///< after each cell
  bool index_first = false;   ///< index is before the inner chunks
  bool index_crc32c = true;
  std::vector<std::uint8_t> order{};        ///< of axes in a cell, or empty
  std::vector<std::uint8_t> index_order{};  ///< of axes in the index, or empty
  KeyEncoding keys;
  /// The first bytes of a missing element. Empty if they aren't known.
  std::optional<std::array<std::byte, 8>> fill = std::array<std::byte, 8>{};
  /// Missing chunks and inner chunks have the fill value. If false, they are an error. The tree
  /// decides this, not the array.
  bool may_lack = false;
  friend bool operator==(const Array&, const Array&) = default;

  /// Returns the form of a chunk on disk; if compressed, before encoding. scratch_bytes isn't set.
  /// Throws: limit (beyond 64-bit sizes or 2^27 inner chunks).
  PieceForm form() const;
  /// The allowed sizes of a stored chunk with all its cells. Without a compressor, both are the
  /// form's size. Throws: limit.
  struct StoredBytes {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
  };
  StoredBytes stored_bytes() const;
  /// Returns the minimum size of the chunk at a grid place, without the inner chunks that may be
  /// missing.
  std::uint64_t least_stored_bytes(const Shape& at) const;
  /// Returns the bytes of a decompressed cell: its elements, and a checksum if that is inside.
  std::uint64_t content_bytes(const PieceForm& form) const noexcept {
    return form.cell_bytes + (inner_crc32c ? 4 : 0);
  }
};

/// Returns an array with `shape` and these chunks. Extents of 0 become 1, as zarr requires. Throws:
/// unsupported (a dtype that zarr lacks).
Array make_array(DType dtype, const Shape& shape, const Shape& chunk, const Shape& inner,
                 const Encoding& encoding);
/// Returns the array of a leaf with `grid`. A linked leaf isn't encoded: its bytes are the
/// source's.
Array make_array(DType dtype, const Shape& shape, const Grid& grid, const Encoding& encoding);

/// Returns the name in `data_type`. Empty for packed 4-bit and 6-bit types, which zarr can't store.
std::optional<std::string_view> data_type_name(DType dtype) noexcept;
std::optional<DType> data_type_from_name(std::string_view name) noexcept;

/// Returns the text of `zarr.json`: compact, with sorted members, as TensorStore writes it.
std::string write_array(const Array& array);
/// Parses `zarr.json`. Errors name `file` and `leaf`. Throws: corrupt, unsupported.
Array parse_array(std::string_view text, std::string_view file, std::string_view leaf);
/// Parses `.zarray`, of zarr v2. Throws: as parse_array.
Array parse_array_v2(std::string_view text, std::string_view file, std::string_view leaf);

}  // namespace hfshard::format::orbax::zarr
