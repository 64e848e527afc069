#pragma once

#include <cstdint>
#include <string>

namespace hfshard {

/// A second name for the bytes of a file.
enum class LinkKind : std::uint8_t {
  hard,
  symbolic,  ///< to the absolute path
  reflink,   ///< a file that shares the blocks
};

/// Makes `to`, replacing an existing file. Follows `from` if it is a symbolic link. Returns false,
/// and makes nothing, if the file system can't link these two places this way. Throws: io,
/// not_found.
bool link_file(const std::string& from, const std::string& to, LinkKind kind);

}  // namespace hfshard
