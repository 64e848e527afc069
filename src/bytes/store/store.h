#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes/local/drop_behind.h"
#include "bytes/local/files.h"
#include "bytes/local/source.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

namespace hfshard {

/// The file of a name in a store, with links followed.
struct StoreEntry {
  FileKind kind = FileKind::other;
  FileIdentity identity;       ///< of a regular file
  std::optional<Error> why{};  ///< why a link can't be followed, unless its target doesn't exist
};

/// Files that are read by name, on this machine or the network. Const and thread-safe. Names are
/// relative to a store, which a StorePath hides.
class Store {
 public:
  virtual ~Store() = default;
  /// Returns a name for errors and messages: a path or URL.
  virtual std::string text(const std::string& name) const = 0;
  /// Returns the names in a directory, sorted bytewise. Throws: not_found, io.
  virtual std::vector<std::string> list(const std::string& name) const = 0;
  /// Empty if the name doesn't exist. Throws: io.
  virtual std::optional<StoreEntry> find(const std::string& name) const = 0;
  /// Opens a file for a few bytes: headers, metadata. Throws: not_found, bad_input (not a regular
  /// file), io.
  virtual std::unique_ptr<SourceFile> open(const std::string& name) const = 0;
  /// Opens a file for all of its data, with the best mode. `behind` can be null. Throws: as open.
  virtual std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                                std::shared_ptr<DropBehind> behind) const = 0;
  /// Returns whether the bytes of a file come over a network.
  virtual bool is_far(const std::string& /*name*/) const { return false; }
  /// Returns the version of an immutable store, such as a commit. Empty for others.
  virtual std::string revision() const { return {}; }
  /// Returns the network traffic since the store was made. Empty for a store without network.
  virtual std::optional<NetworkUse> network_use() const { return std::nullopt; }
  /// Returns the path of a file that this machine can link to. Empty for others.
  virtual std::optional<std::string> local_path(const std::string& name) const = 0;
  /// Returns the local path of a fetched network file. Empty if it wasn't fetched.
  virtual std::optional<std::string> fetched_path(const std::string& /*name*/) const {
    return std::nullopt;
  }
};

/// Returns the files of this machine; names are paths.
std::shared_ptr<const Store> local_store();

/// A name in a store: of a file, a directory, or nothing that exists.
class StorePath {
 public:
  StorePath() : StorePath(std::string()) {}
  /// A path on this machine.
  StorePath(std::string path);  // NOLINT(google-explicit-constructor): as std::filesystem::path is
  StorePath(const char* path)
      : StorePath(std::string(path)) {}  // NOLINT(google-explicit-constructor)
  StorePath(std::shared_ptr<const Store> store, std::string name);
  const std::string& name() const noexcept { return name_; }
  StorePath parent() const { return at(parent_path(name_)); }
  /// Returns another name in the same store.
  StorePath at(std::string name) const { return {store_, std::move(name)}; }

  // These call the store with this name (Store).
  std::string text() const { return store_->text(name_); }
  std::vector<std::string> list() const { return store_->list(name_); }
  std::optional<StoreEntry> find() const { return store_->find(name_); }
  std::unique_ptr<SourceFile> open() const { return store_->open(name_); }
  std::unique_ptr<SourceFile> open_data(IoMode wanted, std::shared_ptr<DropBehind> behind) const {
    return store_->open_data(name_, wanted, std::move(behind));
  }
  bool is_far() const { return store_->is_far(name_); }
  std::string revision() const { return store_->revision(); }
  std::optional<NetworkUse> network_use() const { return store_->network_use(); }
  std::optional<std::string> local_path() const { return store_->local_path(name_); }
  std::optional<std::string> fetched_path() const { return store_->fetched_path(name_); }

  friend bool operator==(const StorePath&, const StorePath&) = default;

  bool is_file() const;
  bool is_directory() const;
  /// Returns whether it is a directory of this machine that the process may not list.
  bool is_closed() const;
  /// Returns whether the name exists, even as a dangling link.
  bool exists() const { return find().has_value(); }
  /// Reads the whole file. Throws: as read_file.
  std::string read(std::uint64_t max_bytes = std::uint64_t{1} << 28) const;

 private:
  std::shared_ptr<const Store> store_;
  std::string name_;
};

/// Returns `directory/name`.
StorePath operator/(const StorePath& directory, std::string_view name);

}  // namespace hfshard
