#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "format/orbax/key_values.h"

namespace hfshard::format::orbax {

/// Keys as file names: one directory per array, with its metadata and one file per chunk.
class ArrayDirectories final : public KeyValues {
 public:
  /// `arrays` has their names, sorted. Throws: corrupt (a name that leads elsewhere).
  ArrayDirectories(StorePath item, std::vector<std::string> arrays);

  const std::string& name() const override { return name_; }
  std::string file_of(std::string_view key) const override { return (item_ / key).text(); }
  bool may_hold_more() const override { return true; }
  void walk(const std::function<void(const Entry&)>& visit) const override;

 private:
  void walk_directory(const std::string& key, int depth,
                      const std::function<void(const Entry&)>& visit) const;

  StorePath item_;
  std::string name_;
  std::vector<std::string> arrays_;
};

/// Returns the names of directories below an item that have array metadata, sorted. With
/// `only_first`, returns just one. Throws: limit (a tree deeper or wider than checkpoints are), io.
std::vector<std::string> find_array_directories(const StorePath& item, bool only_first = false);

}  // namespace hfshard::format::orbax
