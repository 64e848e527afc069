#include "format/orbax/zarr/chunk_key.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace hfshard::format::orbax::zarr {
namespace {

std::optional<std::uint64_t> parse_index(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

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
