#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/io.h"

namespace hfshard {

/// Direct I/O with a larger alignment isn't used, so buffers need no more slack.
inline constexpr std::uint64_t kMaxAlignmentBytes = 4096;

/// Returns the network or user-space file system of an open file. Empty for others.
std::string_view network_file_system(int fd) noexcept;
/// Returns the same for a path.
std::string_view network_file_system(const std::string& path) noexcept;

/// Returns the alignment of offsets, lengths and memory for direct I/O with a descriptor that was
/// opened for it. If it is refused, or needs more than kMaxAlignmentBytes, returns 0. Asks the
/// system. If it doesn't know, tries a read, so the descriptor must be readable.
std::uint64_t direct_alignment(int fd, const std::string& path) noexcept;

/// Returns whether memory begins at a multiple of `alignment`, a power of two.
bool is_aligned(std::span<const std::byte> bytes, std::uint64_t alignment) noexcept;

/// Returns whether most of a file is in the page cache. False if the system doesn't tell.
bool mostly_cached(int fd, std::uint64_t size_bytes, const std::string& path) noexcept;

/// Counts one more file in the entry of `choices` with this mode and reason.
void count_choice(std::vector<IoChoice>& choices, IoMode mode, std::string_view why);

}  // namespace hfshard
