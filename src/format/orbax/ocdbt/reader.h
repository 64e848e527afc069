#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bytes/store/store.h"
#include "format/orbax/key_values.h"
#include "format/orbax/ocdbt/manifest.h"

namespace hfshard::format::orbax::ocdbt {

using orbax::Entry;

/// The current state of a database, opened for reading. Const and thread-safe.
class Database final : public KeyValues {
 public:
  /// Reads `<root>/manifest.ocdbt`, or the highest numbered manifest. Throws: not_found, corrupt,
  /// unsupported, io.
  explicit Database(StorePath root);

  /// Returns the manifest's name.
  const std::string& name() const override { return name_; }
  std::string file_of(std::string_view /*key*/) const override { return name_; }
  bool may_hold_more() const override { return false; }
  const Manifest& manifest() const noexcept { return manifest_; }
  /// Visits keys in byte order. Holds one node per level. Also checks node references, key order
  /// across nodes and path names.
  void walk(const std::function<void(const Entry&)>& visit) const override;

 private:
  StorePath root_;
  std::string name_;
  Manifest manifest_;
};

}  // namespace hfshard::format::orbax::ocdbt
