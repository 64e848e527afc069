#include "bytes/local/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include <sys/stat.h>

namespace hfshard {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

std::vector<std::string> names_in(DIR& directory, const std::string& path) {
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(&directory)) {
    const std::string_view name = &entry->d_name[0];
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) throw sys::failure("list", path, errno);
  std::ranges::sort(names);
  return names;
}

// Returns whether the file system or kernel lacks the flags of renameat2.
bool lacks_renameat2(int error_number) noexcept {
  return error_number == EINVAL || error_number == ENOSYS || error_number == ENOTSUP;
}

std::string_view without_trailing_slashes(std::string_view path) noexcept {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

FileStamp stamp_of(const struct stat& info) noexcept {
  return {static_cast<std::uint64_t>(info.st_size),
          std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
          static_cast<std::uint64_t>(info.st_ino)};
}

std::optional<FileInfo> file_info(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw sys::failure("look up", path, errno);
  }
  const FileKind kind = S_ISREG(info.st_mode)   ? FileKind::regular
                        : S_ISDIR(info.st_mode) ? FileKind::directory
                                                : FileKind::other;
  return FileInfo{kind, stamp_of(info), state_of(info)};
}

bool is_directory(const std::string& path) {
  const auto info = file_info(path);
  return info && info->kind == FileKind::directory;
}

bool exists(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw sys::failure("look up", path, errno);
}

bool is_symlink(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return S_ISLNK(info.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw sys::failure("look up", path, errno);
}

std::string link_target(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

std::string broken_link_hint(const std::string& path) {
  return fmt::format("it is a link to {}, which doesn't exist; download the file again",
                     quote(link_target(path)));
}

std::vector<std::string> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (directory == nullptr) {
    if (errno != ENOENT) throw sys::failure("list", path, errno);
    throw Error(ErrorCode::not_found, "no such directory").in_file(path);
  }
  return names_in(*directory, path);
}

std::vector<std::string> list_directory_at(int directory, const std::string& path) {
  // Uses its own descriptor, since reading moves the position.
  sys::Descriptor own(
      sys::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, path.c_str()));
  const std::unique_ptr<DIR, CloseDirectory> opened(own.get() < 0 ? nullptr
                                                                  : ::fdopendir(own.get()));
  if (opened == nullptr) throw sys::failure("list", path, errno);
  (void)own.release();  // closed with the stream
  return names_in(*opened, path);
}

std::string read_file(const std::string& path, std::uint64_t max_bytes) {
  return read_whole(FileSource(path), max_bytes);
}

std::string tilde_hint(std::string_view path) {
  if (path != "~" && !path.starts_with("~/")) return {};
  return fmt::format(
      "in quotes, ~ isn't your home directory: write \"$HOME{0}\", or ./~{0} for a directory with "
      "that name",
      path.substr(1));
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  return fmt::format("{}{}{}", directory, directory.back() == '/' ? "" : "/", name);
}

std::string parent_path(std::string_view path) {
  path = without_trailing_slashes(path);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(without_trailing_slashes(path.substr(0, slash)));
}

std::string entry_name(std::string_view path) {
  path = without_trailing_slashes(path);
  return std::string(path.substr(path.rfind('/') + 1));
}

void make_directories(const std::string& path, mode_t mode) {
  if (sys::mkdir(path.c_str(), mode) == 0) return;
  int error_number = errno;
  if (error_number == ENOENT && parent_path(path) != path) {
    make_directories(parent_path(path), mode);
    if (sys::mkdir(path.c_str(), mode) == 0) return;
    error_number = errno;
  }
  const auto info = error_number == EEXIST ? file_info(path) : std::nullopt;
  if (info && info->kind == FileKind::directory) return;
  if (error_number != EEXIST && error_number != ENOTDIR) {
    throw sys::failure("make the directory", path, error_number);
  }
  throw Error(ErrorCode::conflict, "a file has the name of a directory").in_file(path);
}

void fsync_directory(const std::string& path) {
  const sys::Descriptor fd(sys::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) throw sys::failure("open the directory", path, errno);
  if (sys::fsync(fd.get(), path.c_str()) == 0) return;
  // Some network file systems refuse to sync a directory. Their names are durable on return.
  if (errno != EINVAL && errno != ENOTSUP) throw sys::failure("sync the directory", path, errno);
}

void sync_tree(const std::string& directory) {
  for (const std::string& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    const auto info = file_info(path);
    if (info && info->kind == FileKind::directory) sync_tree(path);
  }
  fsync_directory(directory);
}

void rename_path(const std::string& from, const std::string& to) {
  if (sys::rename(from.c_str(), to.c_str()) != 0) {
    const int error_number = errno;
    throw sys::failure(fmt::format("rename to {}", quote(to)), from, error_number);
  }
}

void rename_noreplace(const std::string& from, const std::string& to) {
  if (sys::renameat2(from.c_str(), to.c_str(), RENAME_NOREPLACE) == 0) return;
  const int error_number = errno;
  if (error_number == EEXIST || (lacks_renameat2(error_number) && exists(to))) {
    throw Error(ErrorCode::conflict, "the name already exists").in_file(to);
  }
  if (!lacks_renameat2(error_number)) {
    throw sys::failure(fmt::format("rename to {}", quote(to)), from, error_number);
  }
  rename_path(from, to);
}

bool rename_exchange(const std::string& a, const std::string& b) {
  if (sys::renameat2(a.c_str(), b.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int error_number = errno;
  if (!lacks_renameat2(error_number)) {
    throw sys::failure(fmt::format("exchange with {}", quote(b)), a, error_number);
  }
  const std::string aside = a + ".swap";
  rename_path(b, aside);
  rename_path(a, b);
  rename_path(aside, a);
  return false;
}

void remove_tree(const std::string& path) { remove_tree_at(AT_FDCWD, path, path); }

void remove_tree_at(int directory, const std::string& name, const std::string& path) {
  if (sys::unlinkat(directory, name.c_str(), 0, path.c_str()) == 0) return;
  const int error_number = errno;
  if (error_number == ENOENT || error_number == ENOTDIR) return;
  if (error_number != EISDIR && error_number != EPERM) {
    throw sys::failure("remove", path, error_number);
  }
  {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const sys::Descriptor own(sys::openat(directory, name.c_str(), kFlags, 0, path.c_str()));
    if (own.get() < 0) throw sys::failure("remove", path, errno == ENOTDIR ? error_number : errno);
    for (const std::string& entry : list_directory_at(own.get(), path))
      remove_tree_at(own.get(), entry, join_path(path, entry));
  }
  if (sys::unlinkat(directory, name.c_str(), AT_REMOVEDIR, path.c_str()) == 0) return;
  if (errno != ENOENT) throw sys::failure("remove", path, errno);
}

void remove_empty_directory(const std::string& path) {
  if (sys::unlinkat(AT_FDCWD, path.c_str(), AT_REMOVEDIR, path.c_str()) == 0) return;
  if (errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST) return;
  throw sys::failure("remove", path, errno);
}

std::uint64_t free_bytes(const std::string& path) {
  std::string at = path;
  unsigned long long bytes = 0;
  while (sys::free_bytes(at.c_str(), &bytes) != 0) {
    const int error_number = errno;
    const std::string parent = parent_path(at);
    if (error_number != ENOENT || parent == at) {
      throw sys::failure("find the free space", at, error_number);
    }
    at = parent;
  }
  return bytes;
}

}  // namespace hfshard
