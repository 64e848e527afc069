#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store.h"
#include "catalog/catalog.h"

namespace hfshard::format::safetensors {

/// Headers above this are refused, as the format's own library does.
/// Source: huggingface/safetensors safetensors/src/tensor.rs, MAX_HEADER_SIZE.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::uint64_t data_begin_bytes = 0;  ///< 8 + header length
  std::string sha256;                  ///< hex, of the first data_begin_bytes bytes
  FileIdentity identity;               ///< of the file when it was read
  std::vector<TensorInfo> tensors;     ///< in order of their data; `file` is 0; offsets absolute
};

/// Reads and checks the header of a safetensors file. Order of checks: length field, JSON, dtypes,
/// shapes, ranges (inside the file, contiguous without hole or overlap), exact cover of the file,
/// sizes (range = shape x dtype). Ranges in errors are offsets in the file.
///
/// `despite_loss`: of a file whose end is missing too.
///
/// Throws: corrupt (cut or damaged), bad_input (well-formed, but not what the format allows; a
/// git-lfs pointer), unsupported (dtype, rank), not_found, io; each names file, tensor and bytes.
///
/// Source: huggingface/safetensors README.md and safetensors/src/tensor.rs.
SafetensorsHeader parse_safetensors(const StorePath& path, bool despite_loss = false);

}  // namespace hfshard::format::safetensors
