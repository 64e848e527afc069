#include "bytes/store/store.h"

#include <cerrno>
#include <unistd.h>
#include <utility>

#include "bytes/local/data_source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class LocalStore final : public Store {
 public:
  std::string text(const std::string& name) const override { return name; }
  std::vector<std::string> list(const std::string& name) const override {
    return list_directory(name);
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    try {
      if (const auto info = file_info(name))
        return StoreEntry{info->kind, identity_of(info->stamp, info->state)};
    } catch (const Error& error) {  // an unrelated link may lead nowhere
      if (!is_symlink(name)) throw;
      return StoreEntry{FileKind::dangling, {}, error};
    }
    if (hfshard::exists(name)) return StoreEntry{FileKind::dangling, {}};
    return std::nullopt;
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    return std::make_unique<FileSource>(name);
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                        std::shared_ptr<DropBehind> behind) const override {
    return std::make_unique<DataSource>(name, wanted, std::move(behind));
  }
  std::optional<std::string> local_path(const std::string& name) const override { return name; }
};

}  // namespace

std::shared_ptr<const Store> local_store() {
  static const std::shared_ptr<const Store> kStore = std::make_shared<LocalStore>();
  return kStore;
}

StorePath::StorePath(std::string path) : StorePath(local_store(), std::move(path)) {}

StorePath::StorePath(std::shared_ptr<const Store> store, std::string name)
    : store_(std::move(store)), name_(std::move(name)) {}

bool StorePath::is_file() const {
  const auto entry = find();
  return entry && entry->kind == FileKind::regular;
}

bool StorePath::is_directory() const {
  const auto entry = find();
  return entry && entry->kind == FileKind::directory;
}

bool StorePath::is_closed() const {
  const auto path = local_path();
  return path && ::access(path->c_str(), R_OK | X_OK) != 0 && errno == EACCES && is_directory();
}

std::string StorePath::read(std::uint64_t max_bytes) const {
  return read_whole(*open(), max_bytes);
}

StorePath operator/(const StorePath& directory, std::string_view name) {
  return directory.at(join_path(directory.name(), name));
}

}  // namespace hfshard
