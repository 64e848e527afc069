#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bytes/store/store.h"
#include "format/weight_files.h"

namespace hfshard::format {

/// Hint for an index that is wrong and can't be edited, such as one on the Hub.
inline constexpr const char* kIgnoreIndexHint =
    "pass --ignore-index to read the files by their names, without the index";

/// The contents of an index (WeightFiles::index). hfshard only uses `weight_map`.
/// `metadata` has the other keys, without the counts that transformers writes.
struct HfIndex {
  std::vector<std::string> files;  ///< sorted, relative to the directory, no `..`
  /// Tensor name and index into `files`, sorted by name.
  std::vector<std::pair<std::string, std::uint32_t>> tensors;
  std::vector<std::string> metadata;
};

/// Reads an index. Throws: bad_input (malformed, no weight_map, a path that leaves the directory),
/// unsupported (it lists files of another kind), io.
HfIndex read_hf_index(const StorePath& path, const WeightFiles& kind = kSafetensorsFiles);

}  // namespace hfshard::format
