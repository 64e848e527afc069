#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/parse.h"

#include "hfshard/error.h"

// Source: google/tensorstore tensorstore/driver/zarr/{metadata,dtype,compressor}.cc.
namespace hfshard::format::orbax::zarr {
namespace {

Error not_supported(std::string sentence) { return {ErrorCode::unsupported, std::move(sentence)}; }
Error malformed(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

struct NumpyName {
  DType dtype;
  std::string_view name;  // kind and bytes
};

constexpr std::array<NumpyName, 13> kNumpyNames{{
    {DType::boolean, "b1"},
    {DType::u8, "u1"},
    {DType::i8, "i1"},
    {DType::i16, "i2"},
    {DType::u16, "u2"},
    {DType::f16, "f2"},
    {DType::i32, "i4"},
    {DType::u32, "u4"},
    {DType::f32, "f4"},
    {DType::c64, "c8"},
    {DType::f64, "f8"},
    {DType::i64, "i8"},
    {DType::u64, "u8"},
}};

// NumPy's names have a byte order. Types that NumPy lacks have other names.
DType parse_dtype(const Json& json) {
  if (!json.is_string()) throw not_supported("structured dtypes aren't supported");
  const std::string& text = json.as_string();
  const auto unknown = [&](std::string_view why = "") {
    return not_supported(fmt::format("the dtype {} isn't supported{}", quote(text), why));
  };
  if (text.size() == 3 && std::string_view("<>|").find(text[0]) != std::string_view::npos) {
    const auto found =
        std::ranges::find(kNumpyNames, std::string_view(text).substr(1), &NumpyName::name);
    if (found == kNumpyNames.end()) throw unknown();
    if (size_bits(found->dtype) == 8 || text[0] == '<') return found->dtype;
    throw unknown(text[0] == '>' ? ": it is big-endian" : ": it lacks a byte order");
  }
  const bool own = text == "bfloat16" || text.starts_with("float8_");
  const auto dtype = own ? data_type_from_name(text) : std::nullopt;
  if (!dtype) throw unknown();
  return *dtype;
}

void parse_compressor(const Json& json, Array& array) {
  if (json.is_null()) return;
  const std::string& id = json.at("id").as_string();
  for (const Compressor each : {Compressor::zstd, Compressor::gzip, Compressor::zlib}) {
    if (id == to_string(each)) array.compressor = each;
  }
  if (array.compressor == Compressor::none)
    throw not_supported(fmt::format("the compressor {} isn't supported", quote(id)));
  const Json* level = json.find("level");
  array.level = level != nullptr ? static_cast<int>(level->as_int()) : 1;
}

void parse_order(const Json& json, Array& array) {
  const std::string& order = json.as_string();
  if (order != "C" && order != "F")
    throw malformed(fmt::format("the order {} is neither C nor F", quote(order)));
  const std::size_t rank = array.chunk.rank();
  if (order == "C" || rank < 2) return;
  for (std::size_t axis = rank; axis-- > 0;) array.order.push_back(static_cast<std::uint8_t>(axis));
}

void parse_keys(const Json& json, Array& array) {
  array.keys = {.leading_c = false, .separator = '.'};
  const Json* separator = json.find("dimension_separator");
  if (separator == nullptr) return;
  const std::string& text = separator->as_string();
  if (text != "/" && text != ".")
    throw malformed(fmt::format("the dimension separator {} is neither / nor .", quote(text)));
  array.keys.separator = text[0];
}

Array parse_zarray(const Json& json) {
  if (json.at("zarr_format").as_uint() != 2) {
    throw not_supported(fmt::format("zarr format {} in a .zarray; 2 is supported",
                                    json.at("zarr_format").as_uint()));
  }
  Array out;
  out.dtype = parse_dtype(json.at("dtype"));
  out.shape = parse_extents(json.at("shape"), 0, "the shape");
  out.chunk = parse_extents(json.at("chunks"), 1, "the chunk shape");
  if (out.chunk.rank() != out.shape.rank()) {
    throw malformed(fmt::format("the chunk shape {} has another rank than the shape {}",
                                to_string(out.chunk), to_string(out.shape)));
  }
  out.inner = out.chunk;
  out.crc32c = false;
  const Json& filters = json.at("filters");
  if (!filters.is_null() && !filters.as_array().empty()) {
    throw not_supported(fmt::format("the filter {} isn't supported",
                                    quote(filters.as_array()[0].at("id").as_string())));
  }
  parse_compressor(json.at("compressor"), out);
  parse_order(json.at("order"), out);
  parse_keys(json, out);
  out.fill = parse_fill(json.at("fill_value"), out.dtype);
  return out;
}

}  // namespace

Array parse_array_v2(std::string_view text, std::string_view file, std::string_view leaf) {
  return parse_with(parse_zarray, ".zarray", text, file, leaf);
}

}  // namespace hfshard::format::orbax::zarr
