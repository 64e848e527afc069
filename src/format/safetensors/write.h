#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "catalog/format.h"
#include "format/safetensors/safetensors.h"

namespace hfshard::format::safetensors {

/// Of the names of data files; one alone is `model.safetensors`.
inline constexpr std::string_view kDataPrefix = "model-";
inline constexpr std::string_view kDataCount = "-of-";
inline constexpr std::string_view kDataSuffix = ".safetensors";
inline constexpr std::string_view kSingleFile = "model.safetensors";

/// Refuses what a file cannot hold: dtypes whose elements are no whole bytes, and the name that
/// headers use themselves. Throws: unsupported.
void check_writable(const Leaf& leaf);

/// Puts tensors into files in this order, each file of at most `file_bytes` of data unless one
/// tensor has more. In a file where that would leave one unaligned to its elements, larger elements
/// go first. Throws: limit (a header longer than readers take).
ArrayFiles put_in_files(const std::vector<Leaf>& leaves, std::vector<std::uint32_t> order,
                        std::uint64_t file_bytes,
                        std::uint64_t most_header_bytes = kMaxHeaderBytes);

/// Streams the length and the header of a file with these tensors (FORMAT.md 1).
void write_header(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file,
                  const ByteSink& sink);

/// Streams the index of several files (FORMAT.md 3).
void write_hf_index(const TreeSpec& tree, const Placements& placed, const ByteSink& sink);

/// Whether a file of this name is one that is written here: `model.safetensors`, a part of several,
/// or their index.
bool is_written_name(std::string_view name);

}  // namespace hfshard::format::safetensors
