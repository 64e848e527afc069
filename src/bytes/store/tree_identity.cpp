#include "bytes/store/tree_identity.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/local/storage.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Metadata is in small files, of which at most this much is read.
constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostReadBytes = std::uint64_t{64} << 20;

// Calls `visit(name below the directory, its path, its identity)` for every file, in order. Skips
// directories that the process may not list. A caller that needs one has reported it.
template <typename Visit>
void walk_files(const StorePath& directory, const std::string& below, const Visit& visit) {
  for (const std::string& name : directory.list()) {
    const StorePath path = directory / name;
    const std::string own = below.empty() ? name : join_path(below, name);
    const auto entry = path.find();
    if (!entry) continue;
    if (entry->kind == FileKind::directory) {
      if (!path.is_closed()) walk_files(path, own, visit);
    } else {
      visit(own, path, entry->identity);
    }
  }
}

FileIdentity identity_below(const StorePath& directory) {
  FileIdentity out;
  Sha256 hash;
  walk_files(directory, "", [&](const std::string& name, const StorePath&, const FileIdentity& is) {
    out.size_bytes += is.size_bytes;
    hash.update(fmt::format("{}\n{}\n{}\n", name, is.size_bytes, is.version));
    std::ranges::copy(is.inodes, std::back_inserter(out.inodes));
  });
  if (const auto local = directory.local_path(); local && !network_file_system(*local).empty())
    out.inodes.clear();
  out.version = to_hex(std::span<const std::byte>(hash.finish()));
  return out;
}

Error never_read(const StorePath& directory) {
  return Error(ErrorCode::internal, "this is a directory, not a file").in_file(directory.text());
}

class TreeFile final : public SourceFile {
 public:
  explicit TreeFile(StorePath directory)
      : directory_(std::move(directory)),
        name_(directory_.text()),
        identity_(identity_below(directory_)) {}
  std::uint64_t size_bytes() const override { return identity_.size_bytes; }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t, std::span<std::byte>) const override { throw never_read(directory_); }
  FileIdentity identity() const override { return identity_; }
  void check_unchanged() const override {
    if (identity_below(directory_) != identity_) throw changed_source(name_);
  }
  bool takes_hints() const noexcept override { return false; }

 private:
  StorePath directory_;
  std::string name_;
  FileIdentity identity_;
};

// A store with only one name.
class TreeStore final : public Store {
 public:
  explicit TreeStore(StorePath directory) : directory_(std::move(directory)) {}
  std::string text(const std::string& /*name*/) const override { return directory_.text(); }
  std::vector<std::string> list(const std::string& /*name*/) const override { return {}; }
  std::optional<StoreEntry> find(const std::string& /*name*/) const override {
    return StoreEntry{FileKind::regular, identity_below(directory_)};
  }
  std::unique_ptr<SourceFile> open(const std::string& /*name*/) const override {
    return std::make_unique<TreeFile>(directory_);
  }
  std::unique_ptr<SourceFile> open_data(const std::string& /*name*/, IoMode /*wanted*/,
                                        std::shared_ptr<DropBehind> /*behind*/) const override {
    return std::make_unique<TreeFile>(directory_);
  }
  std::optional<std::string> local_path(const std::string& /*name*/) const override {
    return std::nullopt;
  }

 private:
  StorePath directory_;
};

}  // namespace

FileIdentity tree_version(const StorePath& directory) { return identity_below(directory); }

TreeIdentity identify_tree(const StorePath& directory) {
  TreeIdentity out;
  out.identity = identity_below(directory);
  Sha256 hash;
  std::uint64_t read = 0;
  walk_files(directory, "",
             [&](const std::string& name, const StorePath& path, const FileIdentity& is) {
               hash.update(fmt::format("{}\n{}\n", name, is.size_bytes));
               if (is.size_bytes > kSmallBytes || read + is.size_bytes > kMostReadBytes) return;
               read += is.size_bytes;
               hash.update(path.read(kSmallBytes));
             });
  out.path = StorePath(std::make_shared<TreeStore>(directory), directory.name());
  out.content_sha256 = to_hex(std::span<const std::byte>(hash.finish()));
  return out;
}

}  // namespace hfshard
