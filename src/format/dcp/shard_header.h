#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytes/local/source.h"

namespace hfshard::format::dcp {

/// The header of a safetensors file with parts of tensors, and their places. FORMAT.md 8.
struct ShardHeader {
  struct Entry {
    std::string dtype;  ///< as safetensors names it
    std::vector<std::uint64_t> shape;
    std::vector<std::uint64_t> begin;  ///< of the part in its tensor
    std::uint64_t begin_bytes = 0;     ///< in the file
    std::uint64_t end_bytes = 0;
  };
  std::unordered_map<std::string, Entry> entries;
};

/// Returns whether a file begins like a safetensors file. Throws: io.
bool is_safetensors(const Source& file);
/// Reads the header. Throws: corrupt (contradictions, no DCP_SHARDING_INFO), bad_input (not JSON),
/// io.
ShardHeader read_shard_header(const Source& file);

}  // namespace hfshard::format::dcp
