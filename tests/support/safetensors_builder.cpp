#include "support/safetensors_builder.h"

#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "base/json.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

// Differs between tensors and along each of them, without a short period.
std::string pattern_bytes(const std::string& name, DType dtype, std::uint64_t size) {
  const std::uint64_t mask = dtype == DType::boolean ? 1U : 0x7fU;  // bools are 0 or 1
  std::uint64_t state = 0x9e3779b97f4a7c15U + size;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state & mask);
  }
  return bytes;
}

}  // namespace

SafetensorsBuilder& SafetensorsBuilder::tensor(std::string name, DType dtype, const Shape& shape,
                                               std::optional<std::string> bytes) {
  Item item{name, dtype, shape, {}, {}, {}};
  item.bytes =
      bytes ? *std::move(bytes) : pattern_bytes(name, dtype, packed_bytes(dtype, shape.numel()));
  items_.push_back(std::move(item));
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::lie_about_range(const std::string& name, ByteRange range) {
  return lie_about(name, "data_offsets", fmt::format("[{},{}]", range.begin, range.end));
}

SafetensorsBuilder& SafetensorsBuilder::lie_about(const std::string& name,
                                                  const std::string& member,
                                                  std::string json_text) {
  find(name).lies[member] = std::move(json_text);
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::extra_member(const std::string& name,
                                                     std::string json_text) {
  find(name).extra = std::move(json_text);
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::metadata(std::string key, std::string value) {
  metadata_.emplace_back(std::move(key), std::move(value));
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::raw_header(std::string text) {
  raw_header_ = std::move(text);
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::raw_length(std::uint64_t length) {
  raw_length_ = length;
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::align(std::uint64_t multiple, std::uint64_t skew) {
  align_ = multiple;
  skew_ = skew;
  return *this;
}

SafetensorsBuilder::Item& SafetensorsBuilder::find(const std::string& name) {
  for (Item& item : items_) {
    if (item.name == name) return item;
  }
  throw std::runtime_error("no tensor " + name + " in the builder");
}

const std::string& SafetensorsBuilder::data_of(const std::string& name) const {
  for (const Item& item : items_) {
    if (item.name == name) return item.bytes;
  }
  throw std::runtime_error("no tensor " + name + " in the builder");
}

std::string SafetensorsBuilder::header() const {
  if (raw_header_) return *raw_header_;
  std::vector<std::string> members;
  if (!metadata_.empty()) {
    std::vector<std::string> entries;
    for (const auto& [key, value] : metadata_) {
      entries.push_back(fmt::format("{}:{}", dump_json(Json(key)), dump_json(Json(value))));
    }
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(entries, ",")));
  }
  std::uint64_t offset = 0;
  for (const Item& item : items_) {
    const auto text = [&](const char* member, std::string truth) {
      const auto lie = item.lies.find(member);
      return lie == item.lies.end() ? truth : lie->second;
    };
    members.push_back(fmt::format(
        R"({}:{{"dtype":{},"shape":{},"data_offsets":{}{}}})", dump_json(Json(item.name)),
        text("dtype", fmt::format("\"{}\"", safetensors_name(item.dtype))),
        text("shape", fmt::format("[{}]", fmt::join(item.shape.begin(), item.shape.end(), ","))),
        text("data_offsets", fmt::format("[{},{}]", offset, offset + item.bytes.size())),
        item.extra.empty() ? "" : "," + item.extra));
    offset += item.bytes.size();
  }
  std::string out = fmt::format("{{{}}}", fmt::join(members, ","));
  while ((8 + out.size()) % align_ != skew_) out.push_back(' ');
  return out;
}

std::string SafetensorsBuilder::build() const {
  const std::string text = header();
  const std::uint64_t length = raw_length_.value_or(text.size());
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  out += text;
  for (const Item& item : items_) out += item.bytes;
  return out;
}

void SafetensorsBuilder::write(const std::string& path) const { write_text(path, build()); }

std::string index_json(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  Json::Object map;
  for (const auto& [tensor, file] : weight_map) map.emplace(tensor, file);
  return dump_json(
      Json::Object{{"metadata", Json::Object{{"total_size", 1}}}, {"weight_map", std::move(map)}});
}

}  // namespace hfshard
