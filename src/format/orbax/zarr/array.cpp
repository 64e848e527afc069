#include "format/orbax/zarr/array.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/json_shape.h"
#include "base/text.h"
#include "base/zstd.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {
namespace {

struct DTypeName {
  DType dtype;
  std::string_view name;
};

// Source: google/tensorstore tensorstore/driver/zarr3/metadata.cc. The packed 4-bit and 6-bit types
// of safetensors are left out: zarr gives such an element a whole byte.
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

// Source: google/tensorstore tensorstore/kvstore/zarr3_sharding_indexed/shard_format.h allows 2^30;
// our form holds the index size in 32 bits.
constexpr std::uint64_t kMaxCells = std::uint64_t{1} << 27;
// Source: google/tensorstore tensorstore/kvstore/ocdbt/format/indirect_data_reference.cc.
constexpr std::uint64_t kMaxStoredBytes = (std::uint64_t{1} << 63) - 1;

// Of a configuration without one.
// Source: google/tensorstore tensorstore/internal/compression/zstd_compressor.h.
constexpr int kDefaultZstdLevel = 1;

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

// `bytes`, then `zstd` of some level, then `crc32c`; the last two may be absent.
// Source: google/tensorstore tensorstore/driver/zarr3/codec/zstd.cc for the configuration.
struct CellCodecs {
  std::optional<int> zstd;
  bool crc32c = false;
};

Json cell_codecs_json(std::uint32_t element_bits, const CellCodecs& codecs) {
  Json bytes = named("bytes");
  if (element_bits > 8) bytes["configuration"]["endian"] = "little";
  Json::Array out{std::move(bytes)};
  if (codecs.zstd) {
    Json& zstd = out.emplace_back(named("zstd"));
    zstd["configuration"]["level"] = std::int64_t{*codecs.zstd};
    zstd["configuration"]["checksum"] = false;
  }
  if (codecs.crc32c) out.push_back(named("crc32c"));
  return out;
}

Json codecs_json(const Array& array) {
  Json cells = cell_codecs_json(size_bits(array.dtype), {array.zstd, array.crc32c});
  if (!array.order.empty())
    cells.array().insert(cells.array().begin(), transpose_codec(array.order));
  if (!array.sharded) return cells;
  Json sharding = named("sharding_indexed");
  sharding["configuration"]["chunk_shape"] = shape_json(array.inner);
  sharding["configuration"]["codecs"] = std::move(cells);
  sharding["configuration"]["index_codecs"] = cell_codecs_json(64, {.zstd = {}, .crc32c = true});
  return Json::Array{std::move(sharding)};
}

Json fill_value(DType dtype) {
  if (dtype == DType::boolean) return Json(false);
  if (dtype == DType::c64) return Json::Array{Json(0.0), Json(0.0)};
  return is_float(dtype) ? Json(0.0) : Json(0);
}

Error unsupported(std::string sentence) { return {ErrorCode::unsupported, std::move(sentence)}; }
Error corrupt(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

// Refuses members that are neither listed nor marked as safe to ignore.
void check_members(const Json& object, const std::set<std::string_view>& known,
                   std::string_view where) {
  for (const auto& [name, value] : object.as_object()) {
    if (known.contains(name)) continue;
    const Json* must = value.find("must_understand");
    if (must != nullptr && must->is_bool() && !must->as_bool()) continue;
    throw unsupported(fmt::format("{} has the unknown member {}", where, quote(name)));
  }
}

Shape parse_shape(const Json& json, std::uint64_t smallest, std::string_view what) {
  Shape out;
  for (const Json& extent : json.as_array()) {
    if (extent.as_uint() < smallest) {
      throw corrupt(fmt::format("{} has an extent of {}; at least {} is needed", what,
                                extent.as_uint(), smallest));
    }
    out.push_back(extent.as_uint());
  }
  return out;
}

// The configuration of a named extension; null when it has none.
const Json& configuration(const Json& extension, const std::set<std::string_view>& known) {
  static const Json kNone{Json::Object()};
  check_members(extension, {"name", "configuration", "must_understand"}, "zarr.json");
  const Json* found = extension.find("configuration");
  if (found == nullptr) return kNone;
  check_members(*found, known,
                fmt::format("the configuration of {}", quote(extension.at("name").as_string())));
  return *found;
}

void check_bytes_codec(const Json& codec, std::uint32_t element_bits) {
  if (codec.at("name").as_string() != "bytes") {
    throw unsupported(
        fmt::format("the codec {} is not supported", quote(codec.at("name").as_string())));
  }
  const Json* endian = configuration(codec, {"endian"}).find("endian");
  if (endian == nullptr) {
    if (element_bits > 8) throw corrupt("the codec \"bytes\" lacks \"endian\"");
    return;
  }
  if (endian->as_string() == "little" || (endian->as_string() == "big" && element_bits <= 8))
    return;
  throw unsupported(fmt::format("byte order {} is not supported", quote(endian->as_string())));
}

CellCodecs parse_cell_codecs(const Json& json, std::uint32_t element_bits) {
  const Json::Array& codecs = json.as_array();
  if (codecs.empty()) throw corrupt("an empty list of codecs");
  check_bytes_codec(codecs[0], element_bits);
  CellCodecs out;
  for (std::size_t i = 1; i < codecs.size(); ++i) {
    const std::string& name = codecs[i].at("name").as_string();
    if (name == "zstd" && !out.zstd && !out.crc32c) {
      const Json* level = configuration(codecs[i], {"level", "checksum"}).find("level");
      out.zstd = level != nullptr ? static_cast<int>(level->as_int()) : kDefaultZstdLevel;
    } else if (name == "crc32c" && !out.crc32c) {
      configuration(codecs[i], {});
      out.crc32c = true;
    } else {
      throw unsupported(fmt::format("the codec {} after {} is not supported", quote(name),
                                    quote(codecs[i - 1].at("name").as_string())));
    }
  }
  return out;
}

void parse_sharding(const Json& codec, Array& array) {
  const Json& config =
      configuration(codec, {"chunk_shape", "codecs", "index_codecs", "index_location"});
  array.sharded = true;
  array.inner = parse_shape(config.at("chunk_shape"), 1, "the inner chunk shape");
  const CellCodecs cells = parse_cell_codecs(config.at("codecs"), size_bits(array.dtype));
  array.zstd = cells.zstd;
  array.crc32c = cells.crc32c;
  const CellCodecs index = parse_cell_codecs(config.at("index_codecs"), 64);
  if (!index.crc32c) throw unsupported("a shard index without crc32c is not supported");
  if (index.zstd) throw corrupt("a compressed shard index, whose size nothing tells");
  const Json* location = config.find("index_location");
  if (location != nullptr && location->as_string() != "end") {
    throw unsupported(
        fmt::format("a shard index at {} is not supported", quote(location->as_string())));
  }
  if (array.inner.rank() != array.chunk.rank()) {
    throw corrupt("the inner chunk shape has another rank than the chunk shape");
  }
  for (std::size_t axis = 0; axis < array.inner.rank(); ++axis) {
    if (array.chunk[axis] % array.inner[axis] != 0) {
      throw corrupt(fmt::format("the inner chunk {} does not divide the chunk {}",
                                to_string(array.inner), to_string(array.chunk)));
    }
  }
}

std::vector<std::uint8_t> parse_transpose(const Json& codec, std::size_t rank) {
  const Json& order = configuration(codec, {"order"}).at("order");
  std::vector<std::uint8_t> out;
  if (!order.is_array())
    throw unsupported("an order of \"transpose\" that is no list is not supported");
  std::vector<bool> seen(rank, false);
  for (const Json& axis : order.as_array()) {
    const std::uint64_t index = axis.as_uint();
    if (index >= rank || seen[index] || out.size() == rank)
      throw corrupt("the order of \"transpose\" is no permutation of the axes");
    seen[index] = true;
    out.push_back(static_cast<std::uint8_t>(index));
  }
  if (out.size() != rank) throw corrupt("the order of \"transpose\" is no permutation of the axes");
  return std::ranges::is_sorted(out) ? std::vector<std::uint8_t>() : out;
}

void parse_codecs(const Json& json, Array& array) {
  const Json::Array& all = json.as_array();
  if (all.empty()) throw corrupt("an empty list of codecs");
  const bool transposed = all[0].at("name").as_string() == "transpose";
  if (transposed) array.order = parse_transpose(all[0], array.chunk.rank());
  const Json rest{Json::Array(all.begin() + (transposed ? 1 : 0), all.end())};
  const Json::Array& codecs = rest.as_array();
  if (codecs.empty()) throw corrupt("an empty list of codecs");
  if (codecs[0].at("name").as_string() != "sharding_indexed") {
    const CellCodecs cells = parse_cell_codecs(rest, size_bits(array.dtype));
    array.zstd = cells.zstd;
    array.crc32c = cells.crc32c;
    array.inner = array.chunk;
    return;
  }
  if (!array.order.empty()) throw unsupported("\"transpose\" around inner chunks is not supported");
  if (codecs.size() != 1) throw unsupported("a codec after \"sharding_indexed\" is not supported");
  parse_sharding(codecs[0], array);
}

KeyEncoding parse_key_encoding(const Json& json) {
  const std::string& name = json.at("name").as_string();
  if (name != "default" && name != "v2") {
    throw unsupported(fmt::format("the chunk key encoding {} is not supported", quote(name)));
  }
  KeyEncoding out{name == "default", name == "default" ? '/' : '.'};
  if (const Json* separator = configuration(json, {"separator"}).find("separator")) {
    const std::string& text = separator->as_string();
    if (text != "/" && text != ".") {
      throw corrupt(fmt::format("the chunk key separator {} is neither / nor .", quote(text)));
    }
    out.separator = text[0];
  }
  return out;
}

DType parse_data_type(const Json& json) {
  if (!json.is_string()) throw unsupported("an extension data type is not supported");
  const auto dtype = data_type_from_name(json.as_string());
  if (!dtype) {
    throw unsupported(fmt::format("the data type {} is not supported", quote(json.as_string())));
  }
  return *dtype;
}

void check_kind(const Json& json) {
  check_members(
      json,
      {"zarr_format", "node_type", "shape", "data_type", "fill_value", "chunk_grid",
       "chunk_key_encoding", "codecs", "attributes", "dimension_names", "storage_transformers"},
      "zarr.json");
  if (json.at("zarr_format").as_uint() != 3) {
    throw unsupported(
        fmt::format("zarr format {}; 3 is supported", json.at("zarr_format").as_uint()));
  }
  if (json.at("node_type").as_string() != "array") {
    throw corrupt(fmt::format("a zarr node of type {} where an array is wanted",
                              quote(json.at("node_type").as_string())));
  }
  const Json* transformers = json.find("storage_transformers");
  if (transformers != nullptr && !transformers->as_array().empty()) {
    throw unsupported("storage transformers are not supported");
  }
}

Array parse(const Json& json) {
  check_kind(json);
  Array out;
  out.dtype = parse_data_type(json.at("data_type"));
  out.shape = parse_shape(json.at("shape"), 0, "the shape");
  json.at("fill_value");
  const Json& grid = json.at("chunk_grid");
  if (grid.at("name").as_string() != "regular") {
    throw unsupported(
        fmt::format("the chunk grid {} is not supported", quote(grid.at("name").as_string())));
  }
  out.chunk =
      parse_shape(configuration(grid, {"chunk_shape"}).at("chunk_shape"), 1, "the chunk shape");
  if (out.chunk.rank() != out.shape.rank()) {
    throw corrupt(fmt::format("the chunk shape {} has another rank than the shape {}",
                              to_string(out.chunk), to_string(out.shape)));
  }
  out.keys = parse_key_encoding(json.at("chunk_key_encoding"));
  parse_codecs(json.at("codecs"), out);
  out.stored_bytes();
  return out;
}

// A chunk of so many cells; the form fits in 64 bits, and so does this.
std::uint64_t least_bytes(const Array& array, const PieceForm& form, std::uint64_t cells) {
  const std::uint64_t cell = array.zstd ? zstd_least_bytes(form.cell_bytes) : form.cell_bytes;
  return cells * (cell + form.cell_suffix_bytes) + form.tail_bytes;
}

std::optional<std::uint64_t> parse_index(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
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
  out.tail_bytes = sharded ? static_cast<std::uint32_t>(16 * cells + 4) : 0;
  const std::uint64_t most = zstd ? zstd_most_bytes(out.cell_bytes) : out.cell_bytes;
  out.zstd_level = zstd.value_or(0);
  out.cell_growth_bytes = most - out.cell_bytes;
  const auto cell = checked_add(most, out.cell_suffix_bytes);
  const auto all = cell ? checked_mul(*cell, cells) : std::nullopt;
  const auto stored = all ? checked_add(*all, out.tail_bytes) : std::nullopt;
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
  std::uint64_t cells = 1;
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
                fmt::format("zarr cannot store packed {} elements: it gives each one a whole byte",
                            to_string(dtype)));
  }
  Array out;
  out.dtype = dtype;
  out.shape = shape;
  out.chunk = chunk;
  out.inner = inner;
  out.sharded = !(chunk == inner);
  out.crc32c = encoding.checksum;
  if (encoding.zstd_level != 0) out.zstd = encoding.zstd_level;
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

Array parse_array(std::string_view text, std::string_view file, std::string_view leaf) {
  try {
    return parse(parse_json(text, file));
  } catch (const Error& error) {
    // What contradicts itself in a checkpoint is damage; an input would be to blame elsewhere.
    const bool damaged = error.code() == ErrorCode::bad_input;
    throw error
        .reworded(damaged ? ErrorCode::corrupt : error.code(),
                  damaged ? "zarr.json is malformed: " + error.sentence() : error.sentence())
        .in_file(file)
        .in_tensor(leaf);
  }
}

std::string chunk_key(const KeyEncoding& keys, const Shape& chunk) {
  std::string out = keys.leading_c ? "c" : "";
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    if (keys.leading_c || axis > 0) out += keys.separator;
    out += std::to_string(chunk[axis]);
  }
  return out.empty() ? "0" : out;
}

std::optional<Shape> parse_chunk_key(const KeyEncoding& keys, std::size_t rank,
                                     std::string_view key) {
  if (rank == 0) return key == (keys.leading_c ? "c" : "0") ? std::optional(Shape()) : std::nullopt;
  if (keys.leading_c) {
    if (key.size() < 2 || key[0] != 'c' || key[1] != keys.separator) return std::nullopt;
    key.remove_prefix(2);
  }
  Shape out;
  while (out.rank() < rank) {
    const std::size_t end = std::min(key.find(keys.separator), key.size());
    const auto index = parse_index(key.substr(0, end));
    if (!index) return std::nullopt;
    out.push_back(*index);
    const bool last = end == key.size();
    if (last != (out.rank() == rank)) return std::nullopt;
    key.remove_prefix(last ? end : end + 1);
  }
  return out;
}

}  // namespace hfshard::format::orbax::zarr
