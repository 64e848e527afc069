#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hfshard::format::orbax {

/// One key of a checkpoint, as a walk meets it. The views live as long as the call that gets it.
struct Entry {
  std::string_view key;
  bool is_inline = false;  ///< the value is `inline_bytes`
  std::string_view inline_bytes;
  bool is_file = false;   ///< the value is all of the file, which nothing else is in
  std::string_view path;  ///< file of the value, below the item directory
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// The keys of a checkpoint and where their values are: a database, or directories of arrays. Const
/// and thread-safe.
class KeyValues {
 public:
  virtual ~KeyValues() = default;
  /// What lists the keys, as named in errors.
  virtual const std::string& name() const = 0;
  /// The file that errors about a key name, be it there or not.
  virtual std::string file_of(std::string_view key) const = 0;
  /// Whether keys that belong to no array are nothing to wonder at.
  virtual bool may_hold_more() const = 0;
  /// Visits every key once. Ranges of values are not checked. Throws: corrupt, limit, io.
  virtual void walk(const std::function<void(const Entry&)>& visit) const = 0;
};

/// Whether a path from a file leads only below where it starts from: relative, without empty parts,
/// `.` and `..`.
bool is_safe_path(std::string_view path);

}  // namespace hfshard::format::orbax
