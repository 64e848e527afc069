#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"

namespace hfshard::format::safetensors {

/// The largest header that is read, as in the format's own library.
/// Source: huggingface/safetensors safetensors/src/tensor.rs, MAX_HEADER_SIZE.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::uint64_t data_begin_bytes = 0;  ///< 8 + header length
  std::string sha256;                  ///< hex, of the first data_begin_bytes bytes
  FileIdentity identity;               ///< when it was read
  std::vector<TensorInfo> tensors;     ///< in data order; `file` is 0
  std::vector<std::string> metadata;   ///< other keys of __metadata__ except "format", sorted
  /// Pairs in __metadata__. safetensors' save_model stores parameters that share their memory once,
  /// and has an entry from each other name to the stored one. Source: huggingface/safetensors
  /// bindings/python/py_src/safetensors/torch.py (save_model, _remove_duplicate_names).
  std::vector<SharedName> shared;
  std::vector<UnreadableArray> unreadable;  ///< tensors of unknown dtypes that `without` leaves out
};

/// Reads and checks the header of a safetensors file. Checks in this order: length field, JSON,
/// dtypes, shapes, ranges, exact cover of the file, sizes (range = shape x dtype). Ranges must be
/// inside the file and contiguous without hole or overlap. In errors, they are offsets in the file.
///
/// With `despite_loss`, also reads a truncated file. `without`: globs of tensors that aren't
/// needed. One of them may have a dtype that is unknown.
///
/// Throws: corrupt (cut or damaged), bad_input (well-formed, but not what the format allows; a
/// git-lfs pointer), unsupported (dtype, rank), conflict (it changed meanwhile), not_found, io;
/// each names file, tensor and bytes.
///
/// Source: huggingface/safetensors README.md and safetensors/src/tensor.rs.
SafetensorsHeader parse_safetensors(const StorePath& path, bool despite_loss = false,
                                    const std::vector<std::string>& without = {});

}  // namespace hfshard::format::safetensors
