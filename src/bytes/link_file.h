#pragma once

#include <cstdint>
#include <string>

namespace hfshard {

/// A second name for the bytes of a file.
enum class LinkKind : std::uint8_t {
  hard,
  symbolic,  ///< to the absolute path
  reflink,   ///< a file of its own that shares the blocks
};

/// Makes `to`, replacing what has that name. `from` is followed if it is a symbolic link itself.
/// False, and nothing made, if the file system cannot do this kind between these two places.
/// Throws: io, not_found.
bool link_file(const std::string& from, const std::string& to, LinkKind kind);

}  // namespace hfshard
