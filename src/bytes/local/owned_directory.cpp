// Takes a directory, while others can take or remove it:
//  1. Opens the directory, never through a link.
//  2. Opens its marker. Without one, the directory must be empty, and the marker is made
//     exclusively and synced.
//  3. Locks the marker.
//  4. Checks that the path still leads to the locked file. The last owner can have removed the
//     directory, and a lock on a file without a name protects nothing. Otherwise starts again from
//     1.
// Removes in the reverse order: all else, the marker, the directory. A process that comes between
// the last two finds an empty directory and takes it. Then the directory stays.

#include "bytes/local/owned_directory.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Each retry means that another process made or removed the directory meanwhile.
constexpr int kMaxTries = 100;

[[noreturn]] void refuse(const std::string& path, const char* sentence, const char* hint) {
  throw Error(ErrorCode::conflict, sentence).in_file(path).hint(hint);
}

[[noreturn]] void refuse_in_use(const std::string& path) {
  refuse(path, "another process works in this directory",
         "wait until it is done, or stop it; its lock ends with the process");
}

}  // namespace

OwnedDirectory OwnedDirectory::claim(const std::string& path, Mode mode) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    make_directories(parent_path(path));
    if (sys::mkdir(path.c_str(), sys::kDirectoryMode) != 0 && errno != EEXIST) {
      throw sys::failure("make the directory", path, errno);
    }
    OwnedDirectory out(path);
    if (out.take(mode) == Taken::yes) return out;
  }
  refuse_in_use(path);
}

std::optional<OwnedDirectory> OwnedDirectory::find(const std::string& path, Mode mode) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    OwnedDirectory out(path);
    const Taken taken = out.take(mode);
    if (taken == Taken::yes) return out;
    if (taken == Taken::absent) return std::nullopt;
  }
  refuse_in_use(path);
}

// A line is "1: FLOCK  ADVISORY  WRITE 711 fd:01:42 0 EOF": device in hexadecimal, inode (proc(5)).
// For stacked file systems (overlay, btrfs), it has their own numbers, with major 0.
bool OwnedDirectory::in_use(const std::string& path) {
  struct stat marker {};
  if (::lstat(join_path(path, kMarker).c_str(), &marker) != 0) return false;
  const bool numbered = major(marker.st_dev) != 0;
  const std::string device =
      fmt::format("{:02x}:{:02x}", major(marker.st_dev), minor(marker.st_dev));
  const std::string inode = fmt::format("{}", marker.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, strength, mode, process, file;
    words >> number >> kind >> strength >> mode >> process >> file;
    if (kind != "FLOCK" || !file.ends_with(":" + inode)) continue;
    if (file.starts_with(numbered ? device : "00:")) return true;
  }
  return false;
}

OwnedDirectory::Taken OwnedDirectory::take(Mode mode) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  directory_ = sys::Descriptor(sys::open(path_.c_str(), kFlags));
  if (directory_.get() < 0) {
    if (errno == ENOENT) return Taken::absent;
    if (errno != ELOOP && errno != ENOTDIR) throw sys::failure("open the directory", path_, errno);
    refuse(path_, "a link or a file has the staging directory's name",
           "move it away, or pass another output; hfshard deletes only what it wrote");
  }
  if (const Taken taken = open_marker(); taken != Taken::yes) return taken;
  lock(mode);
  return is_current() ? Taken::yes : Taken::changed;
}

OwnedDirectory::Taken OwnedDirectory::open_marker() {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const std::string path = join_path(path_, kMarker);
  const int directory = directory_.get();
  marker_ = sys::Descriptor(sys::openat(directory, kMarker, kFlags, 0, path.c_str()));
  if (marker_.get() >= 0) return Taken::yes;
  if (errno != ENOENT) throw sys::failure("open the lock", path, errno);
  const std::vector<std::string> names = list_directory_at(directory, path_);
  if (std::ranges::find(names, kMarker) != names.end()) return Taken::changed;
  if (!names.empty()) {
    refuse(path_, "a directory that hfshard didn't make has the staging directory's name",
           "move it away, or pass another output; hfshard deletes only what it wrote");
  }
  marker_ = sys::Descriptor(
      sys::openat(directory, kMarker, kFlags | O_CREAT | O_EXCL, sys::kFileMode, path.c_str()));
  if (marker_.get() < 0) {
    if (errno == EEXIST || errno == ENOENT) return Taken::changed;
    throw sys::failure("make the lock", path, errno);
  }
  sync();
  fsync_directory(parent_path(path_));
  return Taken::yes;
}

void OwnedDirectory::lock(Mode mode) {
  const std::string path = join_path(path_, kMarker);
  const int operation = (mode == Mode::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  int result = sys::flock(marker_.get(), operation, path.c_str());
  while (result != 0 && errno == EINTR) result = sys::flock(marker_.get(), operation, path.c_str());
  held_ = result == 0;
  if (held_ || errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS) return;
  if (errno != EWOULDBLOCK) throw sys::failure("lock", path, errno);
  refuse_in_use(path_);
}

// Returns whether the path leads to the locked file.
bool OwnedDirectory::is_current() const {
  struct stat locked {};
  struct stat named {};
  const std::string path = join_path(path_, kMarker);
  if (::fstat(marker_.get(), &locked) != 0) throw sys::failure("look up", path, errno);
  if (::lstat(path.c_str(), &named) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw sys::failure("look up", path, errno);
  }
  return locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
}

std::vector<std::string> OwnedDirectory::list() const {
  std::vector<std::string> names = list_directory_at(directory_.get(), path_);
  std::erase(names, kMarker);
  return names;
}

void OwnedDirectory::remove(const std::string& name) const {
  remove_tree_at(directory_.get(), name, join_path(path_, name));
}

void OwnedDirectory::sync() const {
  if (sys::fsync(directory_.get(), path_.c_str()) == 0) return;
  // Some network file systems refuse to sync a directory. Their names are durable on return.
  if (errno != EINVAL && errno != ENOTSUP) throw sys::failure("sync the directory", path_, errno);
}

void OwnedDirectory::remove_itself() const {
  remove(kMarker);
  remove_empty_directory(path_);
}

}  // namespace hfshard
