#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "catalog/format.h"
#include "format/safetensors/safetensors.h"

namespace hfshard::format::safetensors {

/// Parts of data file names. A single file is `model.safetensors`.
inline constexpr std::string_view kDataPrefix = "model-";
inline constexpr std::string_view kDataCount = "-of-";
inline constexpr std::string_view kDataSuffix = ".safetensors";
inline constexpr std::string_view kSingleFile = "model.safetensors";

/// Refuses leaves that a file can't hold: dtypes whose elements aren't whole bytes, and the name
/// that headers use themselves. Throws: unsupported.
void check_writable(const Leaf& leaf);

/// Puts tensors into files in this order, each with at most `file_bytes` of data, unless one tensor
/// has more. If a tensor would be unaligned to its elements, larger elements go first in its file.
/// Throws: limit (a header longer than readers accept).
ArrayFiles put_in_files(const std::vector<Leaf>& leaves, std::vector<std::uint32_t> order,
                        std::uint64_t file_bytes,
                        std::uint64_t most_header_bytes = kMaxHeaderBytes);

/// Streams the length and the header of a file with these tensors (FORMAT.md 1).
void write_header(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file,
                  const ByteSink& sink);

/// Streams the index of several files (FORMAT.md 3).
void write_hf_index(const TreeSpec& tree, const Placements& placed, const ByteSink& sink);

/// Returns whether hfshard writes a file with this name: `model.safetensors`, one of several, or
/// their index.
bool is_written_name(std::string_view name);

}  // namespace hfshard::format::safetensors
