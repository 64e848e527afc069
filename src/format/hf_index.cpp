#include "format/hf_index.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/inner_path.h"
#include "base/json.h"
#include "base/text.h"

namespace hfshard::format {
namespace {

// 92 thousand names take 9 MB, so only a broken file is larger.
constexpr std::uint64_t kMaxIndexBytes = 256U << 20;
// Source: huggingface/transformers src/transformers/modeling_utils.py (save_pretrained).
constexpr std::array<std::string_view, 2> kCounts{"total_size", "total_parameters"};

// Some tools write `./model-00001-of-00002.safetensors`.
std::string_view plain_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return name;
}

void check_file_name(const std::string& name, const WeightFiles& kind) {
  if (!is_inner_path(name)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the index names a file outside its directory: {}", quote(name)));
  }
  if (!name.ends_with(kind.ending)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the index names {}, which isn't a {} file", quote(name), kind.kind));
  }
}

}  // namespace

HfIndex read_hf_index(const StorePath& path, const WeightFiles& kind) {
  try {
    const Json json = parse_json(path.read(kMaxIndexBytes), path.text());
    const Json::Object& weight_map = json.at("weight_map").as_object();
    std::map<std::string_view, std::uint32_t> ids;
    for (const auto& [tensor, file] : weight_map) ids.emplace(plain_name(file.as_string()), 0);
    HfIndex index;
    for (auto& [file, id] : ids) {
      id = static_cast<std::uint32_t>(index.files.size());
      check_file_name(index.files.emplace_back(file), kind);
    }
    index.tensors.reserve(weight_map.size());
    for (const auto& [tensor, file] : weight_map) {
      index.tensors.emplace_back(tensor, ids.at(plain_name(file.as_string())));
    }
    if (index.tensors.empty())
      throw Error(ErrorCode::bad_input, "the index doesn't list any tensors");
    const Json* metadata = json.find("metadata");
    if (metadata == nullptr || !metadata->is_object()) return index;
    for (const auto& [key, value] : metadata->as_object()) {
      if (std::ranges::find(kCounts, key) == kCounts.end()) index.metadata.push_back(key);
    }
    return index;
  } catch (Error& error) {  // only here is the file known
    error.in_file(path.text());
    const bool came = error.code() == ErrorCode::bad_input || error.code() == ErrorCode::corrupt ||
                      error.code() == ErrorCode::unsupported;
    if (came) error.hint(kIgnoreIndexHint);
    throw;
  }
}

}  // namespace hfshard::format
