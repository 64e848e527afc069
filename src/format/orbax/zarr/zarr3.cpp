#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/parse.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {
namespace {

// The level if the configuration lacks one.
// Source: google/tensorstore tensorstore/internal/compression/zstd_compressor.h.
constexpr int kDefaultZstdLevel = 1;

using Order = std::vector<std::uint8_t>;

Error unsupported(std::string sentence) { return {ErrorCode::unsupported, std::move(sentence)}; }
Error corrupt(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

const std::string& name_of(const Json& extension) { return extension.at("name").as_string(); }

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

// Returns the configuration of a named extension, or an empty one.
const Json& configuration(const Json& extension, const std::set<std::string_view>& known) {
  static const Json kNone{Json::Object()};
  check_members(extension, {"name", "configuration", "must_understand"}, "zarr.json");
  const Json* found = extension.find("configuration");
  if (found == nullptr) return kNone;
  check_members(*found, known, fmt::format("the configuration of {}", quote(name_of(extension))));
  return *found;
}

// -- Codecs

void check_bytes_codec(const Json& codec, std::uint32_t element_bits) {
  if (name_of(codec) != "bytes")
    throw unsupported(fmt::format("the codec {} isn't supported", quote(name_of(codec))));
  const Json* endian = configuration(codec, {"endian"}).find("endian");
  if (endian == nullptr) {
    if (element_bits > 8) throw corrupt("the codec \"bytes\" lacks \"endian\"");
    return;
  }
  if (endian->as_string() == "little" || (endian->as_string() == "big" && element_bits <= 8))
    return;
  throw unsupported(fmt::format("byte order {} isn't supported", quote(endian->as_string())));
}

// The codecs of a cell after `bytes`: at most one compressor, with a checksum inside and one around
// it.
struct CellCodecs {
  Compressor compressor = Compressor::none;
  int level = 0;
  bool inner_crc32c = false;
  bool crc32c = false;
};

void add_compressor(const Json& codec, Compressor compressor, CellCodecs& out) {
  const bool zstd = compressor == Compressor::zstd;
  const Json& config =
      zstd ? configuration(codec, {"level", "checksum"}) : configuration(codec, {"level"});
  const Json* level = config.find("level");
  out.compressor = compressor;
  out.level = level != nullptr ? static_cast<int>(level->as_int()) : kDefaultZstdLevel;
  out.inner_crc32c = std::exchange(out.crc32c, false);
}

CellCodecs parse_cell_codecs(const Json::Array& codecs, std::uint32_t element_bits) {
  if (codecs.empty()) throw corrupt("a list of codecs without \"bytes\"");
  check_bytes_codec(codecs[0], element_bits);
  CellCodecs out;
  for (std::size_t i = 1; i < codecs.size(); ++i) {
    const std::string& name = name_of(codecs[i]);
    const bool packed = out.compressor != Compressor::none;
    if (name == "zstd" && !packed) {
      add_compressor(codecs[i], Compressor::zstd, out);
    } else if (name == "gzip" && !packed) {
      add_compressor(codecs[i], Compressor::gzip, out);
    } else if (name == "crc32c" && !out.crc32c) {
      configuration(codecs[i], {});
      out.crc32c = true;
    } else {
      throw unsupported(fmt::format("the codec {} after {} isn't supported", quote(name),
                                    quote(name_of(codecs[i - 1]))));
    }
  }
  return out;
}

void set_cell_codecs(const Json::Array& codecs, Array& array) {
  const CellCodecs cells = parse_cell_codecs(codecs, size_bits(array.dtype));
  array.compressor = cells.compressor;
  array.level = cells.level;
  array.inner_crc32c = cells.inner_crc32c;
  array.crc32c = cells.crc32c;
}

Order parse_transpose(const Json& codec, std::size_t rank) {
  const Json& order = configuration(codec, {"order"}).at("order");
  Order out;
  if (order.is_string() && (order.as_string() == "C" || order.as_string() == "F")) {
    for (std::size_t axis = 0; axis < rank; ++axis)
      out.push_back(static_cast<std::uint8_t>(order.as_string() == "C" ? axis : rank - 1 - axis));
    return out;
  }
  std::vector<bool> seen(rank, false);
  for (const Json& axis : order.as_array()) {
    const std::uint64_t index = axis.as_uint();
    if (index >= rank || seen[index])
      throw corrupt("the order of \"transpose\" isn't a permutation of the axes");
    seen[index] = true;
    out.push_back(static_cast<std::uint8_t>(index));
  }
  if (out.size() != rank)
    throw corrupt("the order of \"transpose\" isn't a permutation of the axes");
  return out;
}

// Removes the leading `transpose` codecs from a list. Each one reorders the axes of the previous
// one.
Order take_transposes(Json::Array& codecs, Order order) {
  const auto is_other = [](const Json& codec) { return name_of(codec) != "transpose"; };
  const auto first = std::ranges::find_if(codecs, is_other);
  for (auto codec = codecs.begin(); codec != first; ++codec) {
    Order next = parse_transpose(*codec, order.size());
    for (std::uint8_t& axis : next) axis = order[axis];
    order = std::move(next);
  }
  codecs.erase(codecs.begin(), first);
  return order;
}

// Drops an order that doesn't change the axes.
Order unless_sorted(Order order) { return std::ranges::is_sorted(order) ? Order() : order; }

// The inner chunk's axes are in `order`.
Shape parse_inner_shape(const Json& config, const Array& array, const Order& order) {
  const Shape stated = parse_extents(config.at("chunk_shape"), 1, "the inner chunk shape");
  if (stated.rank() != array.chunk.rank())
    throw corrupt("the inner chunk shape has another rank than the chunk shape");
  Shape out = stated;
  for (std::size_t i = 0; i < order.size(); ++i) out[order[i]] = stated[i];
  for (std::size_t axis = 0; axis < out.rank(); ++axis) {
    if (array.chunk[axis] % out[axis] == 0) continue;
    throw corrupt(fmt::format("the inner chunk {} doesn't divide the chunk {}", to_string(out),
                              to_string(array.chunk)));
  }
  return out;
}

void parse_index_form(const Json& config, Array& array) {
  const CellCodecs index = parse_cell_codecs(config.at("index_codecs").as_array(), 64);
  if (index.compressor != Compressor::none)
    throw corrupt("a compressed shard index has an unknown size");
  array.index_crc32c = index.crc32c;
  const Json* location = config.find("index_location");
  if (location == nullptr || location->as_string() == "end") return;
  if (location->as_string() != "start") {
    throw corrupt(fmt::format("a shard index at {}, which is neither start nor end",
                              quote(location->as_string())));
  }
  array.index_first = true;
}

// `order` has the axes that the codec sees.
void parse_sharding(const Json& codec, const Order& order, Array& array) {
  const Json& config =
      configuration(codec, {"chunk_shape", "codecs", "index_codecs", "index_location"});
  array.sharded = true;
  array.inner = parse_inner_shape(config, array, order);
  array.index_order = unless_sorted(order);
  parse_index_form(config, array);
  Json::Array cells = config.at("codecs").as_array();
  array.order = unless_sorted(take_transposes(cells, order));
  set_cell_codecs(cells, array);
}

void parse_codecs(const Json& json, Array& array) {
  Json::Array codecs = json.as_array();
  Order order(array.chunk.rank());
  for (std::size_t axis = 0; axis < order.size(); ++axis)
    order[axis] = static_cast<std::uint8_t>(axis);
  order = take_transposes(codecs, std::move(order));
  if (codecs.empty()) throw corrupt("a list of codecs without \"bytes\"");
  if (name_of(codecs[0]) == "sharding_indexed") {
    if (codecs.size() != 1) throw unsupported("codecs after \"sharding_indexed\" aren't supported");
    return parse_sharding(codecs[0], order, array);
  }
  array.order = unless_sorted(std::move(order));
  array.inner = array.chunk;
  set_cell_codecs(codecs, array);
}

// -- The rest

KeyEncoding parse_key_encoding(const Json& json) {
  const std::string& name = name_of(json);
  if (name != "default" && name != "v2")
    throw unsupported(fmt::format("the chunk key encoding {} isn't supported", quote(name)));
  KeyEncoding out{name == "default", name == "default" ? '/' : '.'};
  if (const Json* separator = configuration(json, {"separator"}).find("separator")) {
    const std::string& text = separator->as_string();
    if (text != "/" && text != ".")
      throw corrupt(fmt::format("the chunk key separator {} is neither / nor .", quote(text)));
    out.separator = text[0];
  }
  return out;
}

DType parse_data_type(const Json& json) {
  if (!json.is_string()) throw unsupported("extension data types aren't supported");
  const auto dtype = data_type_from_name(json.as_string());
  if (!dtype)
    throw unsupported(fmt::format("the data type {} isn't supported", quote(json.as_string())));
  return *dtype;
}

void check_kind(const Json& json) {
  check_members(
      json,
      {"zarr_format", "node_type", "shape", "data_type", "fill_value", "chunk_grid",
       "chunk_key_encoding", "codecs", "attributes", "dimension_names", "storage_transformers"},
      "zarr.json");
  if (json.at("zarr_format").as_uint() != 3) {
    throw unsupported(fmt::format("zarr format {} in a zarr.json; 3 is supported",
                                  json.at("zarr_format").as_uint()));
  }
  if (json.at("node_type").as_string() != "array") {
    throw corrupt(fmt::format("a zarr node of type {} instead of an array",
                              quote(json.at("node_type").as_string())));
  }
  const Json* transformers = json.find("storage_transformers");
  if (transformers != nullptr && !transformers->as_array().empty())
    throw unsupported("storage transformers aren't supported");
}

Array parse_zarr_json(const Json& json) {
  check_kind(json);
  Array out;
  out.dtype = parse_data_type(json.at("data_type"));
  out.shape = parse_extents(json.at("shape"), 0, "the shape");
  const Json& grid = json.at("chunk_grid");
  if (name_of(grid) != "regular")
    throw unsupported(fmt::format("the chunk grid {} isn't supported", quote(name_of(grid))));
  out.chunk =
      parse_extents(configuration(grid, {"chunk_shape"}).at("chunk_shape"), 1, "the chunk shape");
  if (out.chunk.rank() != out.shape.rank()) {
    throw corrupt(fmt::format("the chunk shape {} has another rank than the shape {}",
                              to_string(out.chunk), to_string(out.shape)));
  }
  out.keys = parse_key_encoding(json.at("chunk_key_encoding"));
  parse_codecs(json.at("codecs"), out);
  out.fill = parse_fill(json.at("fill_value"), out.dtype);
  return out;
}

}  // namespace

Array parse_array(std::string_view text, std::string_view file, std::string_view leaf) {
  return parse_with(parse_zarr_json, "zarr.json", text, file, leaf);
}

}  // namespace hfshard::format::orbax::zarr
