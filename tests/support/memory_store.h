#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bytes/store/store.h"

#include "hfshard/error.h"

namespace hfshard {

/// Files without a path on this machine, like those of a hub.
class MemoryStore final : public Store {
 public:
  struct File {
    std::shared_ptr<const std::string> bytes;
    int version = 1;
  };

  MemoryStore() = default;
  /// Has all files below a local directory, under the same names.
  explicit MemoryStore(const std::string& directory) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().string().substr(directory.size() + 1);
      files_["tree/" + name].bytes =
          std::make_shared<const std::string>(read_file(entry.path().string()));
    }
  }
  /// Replaces bytes with a later version. Others can read at the same time.
  void write(const std::string& name, std::string bytes) {
    const std::lock_guard lock(mutex_);
    File& file = files_["tree/" + name];
    file.bytes = std::make_shared<const std::string>(std::move(bytes));
    ++file.version;
  }

  std::string text(const std::string& name) const override { return "memory://" + name; }
  std::vector<std::string> list(const std::string& name) const override {
    std::vector<std::string> out;
    for (const auto& [path, file] : files_) {
      if (!path.starts_with(name + "/")) continue;
      const std::string below = path.substr(name.size() + 1);
      out.push_back(below.substr(0, below.find('/')));
    }
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    if (const auto found = files_.find(name); found != files_.end())
      return StoreEntry{FileKind::regular, identity(now(found->second))};
    if (list(name).empty()) return std::nullopt;
    return StoreEntry{FileKind::directory, {}};
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    const auto found = files_.find(name);
    if (found == files_.end())
      throw Error(ErrorCode::not_found, "no such file").in_file(text(name));
    return std::make_unique<Opened>(*this, found->second, text(name));
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode /*wanted*/,
                                        std::shared_ptr<DropBehind> /*behind*/) const override {
    return open(name);
  }
  std::optional<std::string> local_path(const std::string& /*name*/) const override { return {}; }
  std::string revision() const override { return commit_; }
  /// Names the commit that the files belong to.
  void set_commit(std::string commit) { commit_ = std::move(commit); }

 private:
  static FileIdentity identity(const File& file) {
    return {file.bytes->size(), std::to_string(file.version)};
  }
  File now(const File& file) const {
    const std::lock_guard lock(mutex_);
    return file;
  }

  class Opened final : public SourceFile {
   public:
    Opened(const MemoryStore& store, const File& file, std::string name)
        : store_(store),
          file_(file),
          name_(std::move(name)),
          identity_(MemoryStore::identity(store.now(file))) {}
    std::uint64_t size_bytes() const override { return identity_.size_bytes; }
    const std::string& name() const override { return name_; }
    void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
      const File file = store_.now(file_);
      const auto all = std::as_bytes(std::span(*file.bytes));
      if (offset_bytes > all.size() || out.size() > all.size() - offset_bytes)
        throw Error(ErrorCode::corrupt, "a range to read passes the end").in_file(name_);
      std::ranges::copy(all.subspan(offset_bytes, out.size()), out.begin());
    }
    FileIdentity identity() const override { return identity_; }
    void check_unchanged() const override {
      if (MemoryStore::identity(store_.now(file_)) != identity_) throw changed_source(name_);
    }

   private:
    const MemoryStore& store_;
    const File& file_;
    const std::string name_;
    const FileIdentity identity_;
  };

  mutable std::mutex mutex_;
  std::map<std::string, File> files_;  // names stay; the mutex guards contents
  std::string commit_;
};

}  // namespace hfshard
