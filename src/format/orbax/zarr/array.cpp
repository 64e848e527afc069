#include "format/orbax/zarr/array.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/inflate.h"
#include "base/json.h"
#include "base/json_shape.h"
#include "base/zstd.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {
namespace {

struct DTypeName {
  DType dtype;
  std::string_view name;
};

// Source: google/tensorstore tensorstore/driver/zarr3/metadata.cc. Lacks the packed 4-bit and 6-bit
// types of safetensors, since zarr gives such an element a whole byte.
constexpr std::array<DTypeName, 19> kDTypeNames{{
    {DType::boolean, "bool"},
    {DType::u8, "uint8"},
    {DType::i8, "int8"},
    {DType::f8_e5m2, "float8_e5m2"},
    {DType::f8_e4m3, "float8_e4m3fn"},
    {DType::f8_e8m0, "float8_e8m0fnu"},
    {DType::f8_e4m3fnuz, "float8_e4m3fnuz"},
    {DType::f8_e5m2fnuz, "float8_e5m2fnuz"},
    {DType::i16, "int16"},
    {DType::u16, "uint16"},
    {DType::f16, "float16"},
    {DType::bf16, "bfloat16"},
    {DType::i32, "int32"},
    {DType::u32, "uint32"},
    {DType::f32, "float32"},
    {DType::c64, "complex64"},
    {DType::f64, "float64"},
    {DType::i64, "int64"},
    {DType::u64, "uint64"},
}};

// hfshard's form has the index size in 32 bits. Source: google/tensorstore
// tensorstore/kvstore/zarr3_sharding_indexed/shard_format.h allows 2^30.
constexpr std::uint64_t kMaxCells = std::uint64_t{1} << 27;
// Source: google/tensorstore tensorstore/kvstore/ocdbt/format/indirect_data_reference.cc.
constexpr std::uint64_t kMaxStoredBytes = (std::uint64_t{1} << 63) - 1;

Json named(std::string_view name) {
  Json out;
  out["name"] = name;
  return out;
}

// Source: google/tensorstore tensorstore/driver/zarr3/codec/transpose.cc.
Json transpose_codec(const std::vector<std::uint8_t>& order) {
  Json out = named("transpose");
  out["configuration"]["order"] = Json::Array{};
  for (const std::uint8_t axis : order)
    out["configuration"]["order"].array().emplace_back(std::uint64_t{axis});
  return out;
}

// Writes `bytes`, then possibly `zstd` of some level, then possibly `crc32c`.
// Source: google/tensorstore tensorstore/driver/zarr3/codec/zstd.cc for the configuration.
Json cell_codecs_json(std::uint32_t element_bits, std::optional<int> zstd_level, bool crc32c) {
  Json bytes = named("bytes");
  if (element_bits > 8) bytes["configuration"]["endian"] = "little";
  Json::Array out{std::move(bytes)};
  if (zstd_level) {
    Json& zstd = out.emplace_back(named("zstd"));
    zstd["configuration"]["level"] = std::int64_t{*zstd_level};
    zstd["configuration"]["checksum"] = false;
  }
  if (crc32c) out.push_back(named("crc32c"));
  return out;
}

// Only covers forms that hfshard writes. It reads more.
Json codecs_json(const Array& array) {
  const bool zstd = array.compressor == Compressor::zstd;
  HFSHARD_CHECK((zstd || array.compressor == Compressor::none) && !array.inner_crc32c);
  HFSHARD_CHECK(!array.index_first && array.index_crc32c && array.index_order.empty());
  Json cells = cell_codecs_json(size_bits(array.dtype),
                                zstd ? std::optional(array.level) : std::nullopt, array.crc32c);
  if (!array.order.empty())
    cells.array().insert(cells.array().begin(), transpose_codec(array.order));
  if (!array.sharded) return cells;
  Json sharding = named("sharding_indexed");
  sharding["configuration"]["chunk_shape"] = shape_json(array.inner);
  sharding["configuration"]["codecs"] = std::move(cells);
  sharding["configuration"]["index_codecs"] = cell_codecs_json(64, {}, true);
  return Json::Array{std::move(sharding)};
}

Json fill_value(DType dtype) {
  if (dtype == DType::boolean) return Json(false);
  if (dtype == DType::c64) return Json::Array{Json(0.0), Json(0.0)};
  return is_float(dtype) ? Json(0.0) : Json(0);
}

// Returns the maximum and minimum size of a cell's content after compression.
std::uint64_t most_packed(Compressor compressor, std::uint64_t content) {
  if (compressor == Compressor::none) return content;
  return compressor == Compressor::zstd ? zstd_most_bytes(content) : deflate_most_bytes(content);
}

std::uint64_t least_packed(Compressor compressor, std::uint64_t content) {
  if (compressor == Compressor::none) return content;
  return compressor == Compressor::zstd ? zstd_least_bytes(content) : deflate_least_bytes(content);
}

// Returns the minimum size of a chunk with so many cells. The form fits in 64 bits, so this does
// too.
std::uint64_t least_bytes(const Array& array, const PieceForm& form, std::uint64_t cells) {
  const std::uint64_t cell = least_packed(array.compressor, array.content_bytes(form));
  return cells * (cell + form.cell_suffix_bytes) + form.head_bytes + form.tail_bytes;
}

}  // namespace

PieceForm Array::form() const {
  std::uint64_t cells = 1;
  bool fits = true;
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    const std::uint64_t along = chunk[axis] / inner[axis];
    fits = fits && along <= kMaxCells / cells;
    cells = fits ? cells * along : cells;
  }
  if (!fits) {
    throw Error(ErrorCode::limit, fmt::format("a chunk of {} holds more than {} inner chunks",
                                              to_string(chunk), kMaxCells));
  }
  PieceForm out;
  out.cell_bytes = packed_bytes(dtype, inner.numel());
  out.cells = static_cast<std::uint32_t>(cells);
  out.cell_suffix_bytes = crc32c ? 4 : 0;
  const std::uint64_t index = sharded ? 16 * cells + (index_crc32c ? 4 : 0) : 0;
  (index_first ? out.head_bytes : out.tail_bytes) = static_cast<std::uint32_t>(index);
  const std::uint64_t content =
      checked_add(out.cell_bytes, inner_crc32c ? 4 : 0).value_or(UINT64_MAX);
  const std::uint64_t most = most_packed(compressor, content);
  out.zstd_level = compressor == Compressor::zstd ? level : 0;
  out.cell_growth_bytes = most - out.cell_bytes;
  const auto cell = checked_add(most, out.cell_suffix_bytes);
  const auto all = cell ? checked_mul(*cell, cells) : std::nullopt;
  const auto stored = all ? checked_add(*all, index) : std::nullopt;
  if (!stored || *stored > kMaxStoredBytes) {
    throw Error(ErrorCode::limit, fmt::format("a chunk of {} {} elements is too large",
                                              to_string(chunk), to_string(dtype)));
  }
  return out;
}

Array::StoredBytes Array::stored_bytes() const {
  const PieceForm all = form();
  return {least_bytes(*this, all, all.cells), all.stored_bytes()};
}

std::uint64_t Array::least_stored_bytes(const Shape& at) const {
  std::uint64_t cells = may_lack && sharded ? 0 : 1;
  for (std::size_t axis = 0; axis < at.rank(); ++axis) {
    const std::uint64_t left = shape[axis] - at[axis] * chunk[axis];
    cells *= ceil_div(std::min(left, chunk[axis]), inner[axis]);
  }
  return least_bytes(*this, form(), cells);
}

Array make_array(DType dtype, const Shape& shape, const Shape& chunk, const Shape& inner,
                 const Encoding& encoding) {
  HFSHARD_CHECK(chunk.rank() == shape.rank() && inner.rank() == shape.rank());
  if (!data_type_name(dtype)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("zarr can't store packed {} elements; it uses a whole byte for each",
                            to_string(dtype)));
  }
  Array out;
  out.dtype = dtype;
  out.shape = shape;
  out.chunk = chunk;
  out.inner = inner;
  out.sharded = !(chunk == inner);
  out.crc32c = encoding.checksum;
  if (encoding.zstd_level != 0) out.compressor = Compressor::zstd;
  out.level = encoding.zstd_level;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    out.chunk[axis] = std::max<std::uint64_t>(out.chunk[axis], 1);
    out.inner[axis] = std::max<std::uint64_t>(out.inner[axis], 1);
    HFSHARD_CHECK(out.chunk[axis] % out.inner[axis] == 0);
  }
  return out;
}

Array make_array(DType dtype, const Shape& shape, const Grid& grid, const Encoding& encoding) {
  const Encoding own = grid.linked ? Encoding{.checksum = false} : encoding;
  Array out = make_array(dtype, shape, grid.chunk, grid.inner, own);
  out.order = grid.order;
  return out;
}

std::string_view to_string(Compressor compressor) noexcept {
  switch (compressor) {
    case Compressor::none:
      return "none";
    case Compressor::zstd:
      return "zstd";
    case Compressor::gzip:
      return "gzip";
    case Compressor::zlib:
      return "zlib";
  }
  return {};
}

std::optional<std::string_view> data_type_name(DType dtype) noexcept {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return std::nullopt;
}

std::optional<DType> data_type_from_name(std::string_view name) noexcept {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::string write_array(const Array& array) {
  Json json;
  json["zarr_format"] = 3;
  json["node_type"] = "array";
  json["shape"] = shape_json(array.shape);
  json["data_type"] = data_type_name(array.dtype).value();
  json["fill_value"] = fill_value(array.dtype);
  json["chunk_grid"] = named("regular");
  json["chunk_grid"]["configuration"]["chunk_shape"] = shape_json(array.chunk);
  json["chunk_key_encoding"] = named(array.keys.leading_c ? "default" : "v2");
  if (array.keys.separator != (array.keys.leading_c ? '/' : '.')) {
    json["chunk_key_encoding"]["configuration"]["separator"] = std::string(1, array.keys.separator);
  }
  json["codecs"] = codecs_json(array);
  return dump_json(json);
}

}  // namespace hfshard::format::orbax::zarr
