#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bytes/store.h"

namespace hfshard::format::safetensors {

inline constexpr const char* kIndexName = "model.safetensors.index.json";

/// What `model.safetensors.index.json` says; only `weight_map` is believed.
struct HfIndex {
  std::vector<std::string> files;  ///< sorted, relative to the directory, no `..`
  /// Tensor name and index into `files`, sorted by name.
  std::vector<std::pair<std::string, std::uint32_t>> tensors;
};

/// Reads an index. Throws: bad_input (malformed, no weight_map, a path that leaves the directory),
/// unsupported (it lists other than safetensors files), io.
HfIndex read_hf_index(const StorePath& path);

}  // namespace hfshard::format::safetensors
