#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytes/source.h"

namespace hfshard::format::dcp {

/// Of a safetensors file with parts of tensors: where each is, as its header says. FORMAT.md 8.
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

/// Whether a file begins as a safetensors one. Throws: io.
bool is_safetensors(const Source& file);
/// Throws: corrupt (what contradicts itself, no DCP_SHARDING_INFO), bad_input (no JSON), io.
ShardHeader read_shard_header(const Source& file);

}  // namespace hfshard::format::dcp
