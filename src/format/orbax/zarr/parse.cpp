#include "format/orbax/zarr/parse.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/floats.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {
namespace {

using Element = std::array<std::byte, 8>;

template <typename T>
Element element_of(T value) {
  Element out{};
  store_le(out.data(), value);
  return out;
}

// Parses all digits of an element: "0x7fc0".
std::optional<Element> from_hex(std::string_view text, std::uint32_t bytes) {
  if (text.size() != 2 + 2 * std::size_t{bytes} || !text.starts_with("0x")) return std::nullopt;
  std::uint64_t bits = 0;
  const auto result = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return element_of(bits);
}

std::optional<double> number_of(const Json& json) {
  if (json.is_number()) return json.as_double();
  if (!json.is_string()) return std::nullopt;
  const std::string& text = json.as_string();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<Element> float_element(const Json& json, DType dtype) {
  if (json.is_string() && json.as_string().starts_with("0x"))
    return from_hex(json.as_string(), size_bits(dtype) / 8);
  const auto value = number_of(json);
  if (!value) return std::nullopt;
  switch (dtype) {
    case DType::f64:
      return element_of(std::bit_cast<std::uint64_t>(*value));
    case DType::f32:
      return element_of(std::bit_cast<std::uint32_t>(static_cast<float>(*value)));
    case DType::bf16:
      return element_of(f32_to_bf16(static_cast<float>(*value)));
    case DType::f16:
      return element_of(f32_to_f16(static_cast<float>(*value)));
    default:  // 8 bits
      return *value == 0 ? std::optional(Element{}) : std::nullopt;
  }
}

std::optional<Element> complex_element(const Json& json) {
  if (!json.is_array() || json.as_array().size() != 2) return std::nullopt;
  const auto real = float_element(json.as_array()[0], DType::f32);
  const auto imaginary = float_element(json.as_array()[1], DType::f32);
  if (!real || !imaginary) return std::nullopt;
  Element out = *real;
  std::copy_n(imaginary->begin(), 4, out.begin() + 4);
  return out;
}

// Two's complement, so the low bytes are the element.
std::optional<Element> integer_element(const Json& json) {
  if (!json.is_integer()) return std::nullopt;
  const bool negative = json.as_double() < 0;
  return element_of(negative ? static_cast<std::uint64_t>(json.as_int()) : json.as_uint());
}

}  // namespace

Shape parse_extents(const Json& json, std::uint64_t smallest, std::string_view what) {
  Shape out;
  for (const Json& extent : json.as_array()) {
    if (extent.as_uint() < smallest) {
      throw Error(ErrorCode::corrupt, fmt::format("{} has an extent of {}; at least {} is needed",
                                                  what, extent.as_uint(), smallest));
    }
    out.push_back(extent.as_uint());
  }
  return out;
}

std::optional<Element> parse_fill(const Json& json, DType dtype) {
  if (json.is_null()) return Element{};
  if (dtype == DType::boolean)
    return json.is_bool() ? std::optional(element_of(std::uint8_t{json.as_bool()})) : std::nullopt;
  if (dtype == DType::c64) return complex_element(json);
  return is_float(dtype) ? float_element(json, dtype) : integer_element(json);
}

Array parse_with(Array (*parse)(const Json&), std::string_view what, std::string_view text,
                 std::string_view file, std::string_view leaf) {
  try {
    Array out = parse(parse_json(text, file));
    out.stored_bytes();
    return out;
  } catch (const Error& error) {
    // A malformed checkpoint is damaged, while a malformed input would be the user's mistake.
    const bool damaged = error.code() == ErrorCode::bad_input;
    throw error
        .reworded(
            damaged ? ErrorCode::corrupt : error.code(),
            damaged ? fmt::format("{} is malformed: {}", what, error.sentence()) : error.sentence())
        .in_file(file)
        .in_tensor(leaf);
  }
}

}  // namespace hfshard::format::orbax::zarr
