#include "format/safetensors/hf_index.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"

namespace hfshard::format::safetensors {
namespace {

// 92 thousand names take 9 MB; this is for a broken file, not for a big model.
constexpr std::uint64_t kMaxIndexBytes = 256U << 20;

void check_file_name(const std::string& name) {
  const std::vector<std::string> parts = split(name, '/');
  const bool bad = name.find('\0') != std::string::npos ||
                   std::ranges::any_of(parts, [](const std::string& part) {
                     return part.empty() || part == "." || part == "..";
                   });
  if (bad) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the index names a file outside its directory: {}", quote(name)));
  }
  if (!name.ends_with(".safetensors")) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the index names {}, which is not a safetensors file", quote(name)));
  }
}

}  // namespace

HfIndex read_hf_index(const StorePath& path) {
  try {
    const Json json = parse_json(path.read(kMaxIndexBytes), path.text());
    const Json::Object& weight_map = json.at("weight_map").as_object();
    std::map<std::string_view, std::uint32_t> ids;
    for (const auto& [tensor, file] : weight_map) ids.emplace(file.as_string(), 0);
    HfIndex index;
    for (auto& [file, id] : ids) {
      id = static_cast<std::uint32_t>(index.files.size());
      check_file_name(index.files.emplace_back(file));
    }
    index.tensors.reserve(weight_map.size());
    for (const auto& [tensor, file] : weight_map) {
      index.tensors.emplace_back(tensor, ids.at(file.as_string()));
    }
    if (index.tensors.empty()) throw Error(ErrorCode::bad_input, "the index lists no tensor");
    return index;
  } catch (Error& error) {  // opening a source: the file is known here
    error.in_file(path.text());
    throw;
  }
}

}  // namespace hfshard::format::safetensors
