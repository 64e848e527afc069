#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes/drop_behind.h"
#include "bytes/files.h"
#include "bytes/source.h"

#include "hfshard/io.h"

namespace hfshard {

/// What a name in a store leads to, links followed.
struct StoreEntry {
  FileKind kind = FileKind::other;
  FileIdentity identity;  ///< of a regular file
};

/// Files that are read by name: those of this machine, or of a place on the network. Const and
/// thread-safe. Names are a store's own; who has a StorePath need not know whose.
class Store {
 public:
  virtual ~Store() = default;
  /// A name as errors and people are told it: a path or URL.
  virtual std::string text(const std::string& name) const = 0;
  /// Names in a directory, sorted bytewise. Throws: not_found, io.
  virtual std::vector<std::string> list(const std::string& name) const = 0;
  /// Nothing if there is no such name. Throws: io.
  virtual std::optional<StoreEntry> find(const std::string& name) const = 0;
  /// For few bytes here and there: headers, metadata. Throws: not_found, bad_input (no regular
  /// file), io.
  virtual std::unique_ptr<SourceFile> open(const std::string& name) const = 0;
  /// For all of its data, moved in the way that suits it. `behind` may be null. Throws: as open.
  virtual std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                                std::shared_ptr<DropBehind> behind) const = 0;
  /// Whether the bytes of a file come over a network.
  virtual bool is_far(const std::string& /*name*/) const { return false; }
  /// Which version of a whole that cannot change the names are of: a commit; empty of others.
  virtual std::string revision() const { return {}; }
  /// What has come over a network since the store was made; nothing of one that uses none.
  virtual std::optional<NetworkUse> network_use() const { return std::nullopt; }
  /// The path of a file that this machine can link to; nothing of others.
  virtual std::optional<std::string> local_path(const std::string& name) const = 0;
  /// The path that a file of a network has here once it was fetched; nothing where there is none.
  virtual std::optional<std::string> fetched_path(const std::string& /*name*/) const {
    return std::nullopt;
  }
};

/// The files of this machine; names are paths.
std::shared_ptr<const Store> local_store();

/// A name in a store: of a file, of a directory, of something that is not there.
class StorePath {
 public:
  StorePath() : StorePath(std::string()) {}
  /// A path of this machine.
  StorePath(std::string path);  // NOLINT(google-explicit-constructor): as std::filesystem::path is
  StorePath(const char* path)
      : StorePath(std::string(path)) {}  // NOLINT(google-explicit-constructor)
  StorePath(std::shared_ptr<const Store> store, std::string name);
  const std::string& name() const noexcept { return name_; }
  StorePath parent() const { return at(parent_path(name_)); }
  /// Another name in the same store.
  StorePath at(std::string name) const { return {store_, std::move(name)}; }

  // What the store says of this name (Store).
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
  /// Whether it is a directory of this machine that the process may not look into.
  bool is_closed() const;
  /// A link that leads nowhere is there, too.
  bool exists() const { return find().has_value(); }
  /// The whole file. Throws: as read_file.
  std::string read(std::uint64_t max_bytes = std::uint64_t{1} << 28) const;

 private:
  std::shared_ptr<const Store> store_;
  std::string name_;
};

/// `directory/name`.
StorePath operator/(const StorePath& directory, std::string_view name);

}  // namespace hfshard
