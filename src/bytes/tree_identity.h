#pragma once

#include <cstdint>
#include <string>

#include "bytes/store.h"

namespace hfshard {

/// A directory as one file of a store, which stands for all files below it and is never read: as
/// long as its identity stays, so do their names and bytes.
struct TreeIdentity {
  StorePath path;                ///< its identity is that of the whole directory
  std::uint64_t size_bytes = 0;  ///< of all files
  std::string version;           ///< FileIdentity's
  std::string content_sha256;    ///< hex, of names, sizes, and what is in the small files: metadata
};
/// Looks through a directory. Throws: not_found, io.
TreeIdentity identify_tree(const StorePath& directory);

}  // namespace hfshard
