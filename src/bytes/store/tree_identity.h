#pragma once

#include <string>

#include "bytes/store/store.h"

namespace hfshard {

/// A directory as one file of a store. It represents all files below it and is never read. While
/// its identity stays the same, so do their names and bytes.
struct TreeIdentity {
  StorePath path;         ///< with the whole directory's identity
  FileIdentity identity;  ///< of all files together
  /// Hex, of names, sizes, and the contents of small files: metadata.
  std::string content_sha256;
};
/// Identifies a directory. Throws: not_found, io.
TreeIdentity identify_tree(const StorePath& directory);
/// Returns only the identity, without opening files. Throws: not_found, io.
FileIdentity tree_version(const StorePath& directory);

}  // namespace hfshard
