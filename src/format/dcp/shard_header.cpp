#include "format/dcp/shard_header.h"

#include <array>
#include <span>
#include <string_view>

#include "base/checked.h"
#include "base/coding.h"
#include "base/json.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kShardingInfo = "DCP_SHARDING_INFO";

constexpr std::size_t kLengthBytes = 8;

std::vector<std::uint64_t> numbers_of(const Json& json) {
  std::vector<std::uint64_t> out;
  for (const Json& each : json.as_array()) out.push_back(each.as_uint());
  return out;
}

}  // namespace

// Archives never begin with the length of a header that fits the file, and a JSON object.
bool is_safetensors(const Source& file) {
  std::array<std::byte, kLengthBytes + 1> begin{};
  if (file.size_bytes() < begin.size()) return false;
  file.read_at(0, begin);
  const auto size = load_le<std::uint64_t>(begin.data());
  return size <= kMaxHeaderBytes && in_range(kLengthBytes, size, file.size_bytes()) &&
         begin.back() == std::byte{'{'};
}

ShardHeader read_shard_header(const Source& file) {
  if (!is_safetensors(file))
    throw Error(ErrorCode::corrupt, "the file doesn't begin with a whole header")
        .in_file(file.name());
  std::array<std::byte, kLengthBytes> length{};
  file.read_at(0, length);
  const auto size = load_le<std::uint64_t>(length.data());
  std::string text(size, '\0');
  file.read_at(length.size(), std::as_writable_bytes(std::span(text)));
  ShardHeader header;
  try {
    const Json json = parse_json(text, file.name());
    const Json boxes =
        parse_json(json.at("__metadata__").at(kShardingInfo).as_string(), file.name());
    for (const auto& [name, value] : json.as_object()) {
      if (name == "__metadata__") continue;
      const auto range = numbers_of(value.at("data_offsets"));
      if (range.size() != 2 || range[0] > range[1] ||
          !in_range(length.size() + size, range[1], file.size_bytes()))
        throw Error(ErrorCode::corrupt, "tensor data passes the end of the file").in_tensor(name);
      header.entries[name] = {value.at("dtype").as_string(), numbers_of(value.at("shape")),
                              numbers_of(boxes.at(name).at("saved_offsets")),
                              length.size() + size + range[0], length.size() + size + range[1]};
    }
  } catch (Error& error) {  // the JSON accessors don't know the file
    throw error.in_file(file.name());
  }
  return header;
}

}  // namespace hfshard::format::dcp
