#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hfshard::format::orbax {

/// One key of a checkpoint, during a walk. The views are valid until the visitor returns.
struct Entry {
  std::string_view key;
  bool is_inline = false;  ///< the value is `inline_bytes`
  std::string_view inline_bytes;
  bool is_file = false;   ///< the value is the whole file
  std::string_view path;  ///< file of the value, in the item
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// The keys of a checkpoint and the places of their values: a database, or directories of arrays.
/// Const and thread-safe.
class KeyValues {
 public:
  virtual ~KeyValues() = default;
  /// Returns the list of keys, for errors.
  virtual const std::string& name() const = 0;
  /// Returns the file that errors about a key name. It needn't exist.
  virtual std::string file_of(std::string_view key) const = 0;
  /// Returns whether keys outside of arrays are normal.
  virtual bool may_hold_more() const = 0;
  /// Visits every key once. Doesn't check the ranges of values. Throws: corrupt, limit, io.
  virtual void walk(const std::function<void(const Entry&)>& visit) const = 0;
};

}  // namespace hfshard::format::orbax
