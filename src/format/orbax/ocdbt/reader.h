#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "bytes/store.h"
#include "format/orbax/ocdbt/manifest.h"

namespace hfshard::format::orbax::ocdbt {

/// One key of a database, as a walk meets it. The views live as long as the call that gets it.
struct Entry {
  std::string_view key;
  bool is_inline = false;
  std::string_view inline_bytes;
  std::string_view path;  ///< data file, below the database root
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// The current state of a database, opened for reading. Const and thread-safe.
class Database {
 public:
  /// Reads `<root>/manifest.ocdbt`. Throws: not_found, corrupt, unsupported, io.
  explicit Database(StorePath root);

  /// The manifest, as named in errors.
  const std::string& name() const noexcept { return name_; }
  const Manifest& manifest() const noexcept { return manifest_; }
  /// Visits all keys in byte order; holds one node per level. Node references, key order across
  /// nodes and path names are checked, ranges of values are not. Throws: corrupt, limit, io.
  void walk(const std::function<void(const Entry&)>& visit) const;

 private:
  StorePath root_;
  std::string name_;
  Manifest manifest_;
};

}  // namespace hfshard::format::orbax::ocdbt
