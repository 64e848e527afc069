#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/io.h"

namespace hfshard {

/// Direct I/O that asks for more than this is not used, so that buffers need no more slack.
inline constexpr std::uint64_t kMaxAlignmentBytes = 4096;

/// Name of the network or user-space file system that an open file lies on, empty if it is neither.
std::string_view network_file_system(int fd) noexcept;

/// What direct I/O with this descriptor (opened for it) wants offsets, lengths and memory to be
/// multiples of; 0 if it is refused, or wants more than kMaxAlignmentBytes. Asks the system and,
/// where that does not know, tries (which needs a descriptor that reads).
std::uint64_t direct_alignment(int fd, const std::string& path) noexcept;

/// Whether memory begins at a multiple of `alignment`, a power of two.
bool is_aligned(std::span<const std::byte> bytes, std::uint64_t alignment) noexcept;

/// Whether most of a file is in the page cache. False where the system does not tell.
bool mostly_cached(int fd, std::uint64_t size_bytes, const std::string& path) noexcept;

/// Counts one more file in the entry of `choices` with this mode and reason.
void count_choice(std::vector<IoChoice>& choices, IoMode mode, std::string_view why);

}  // namespace hfshard
