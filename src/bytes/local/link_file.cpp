#include "bytes/local/link_file.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>

#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The errors of file systems that don't have this kind of link, or not to another file system.
bool cannot_link(int error_number) {
  return error_number == EXDEV || error_number == EPERM || error_number == EMLINK ||
         error_number == EOPNOTSUPP || error_number == ENOSYS || error_number == EINVAL ||
         error_number == ENOTTY;
}

std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error == std::errc::no_such_file_or_directory)
    throw Error(ErrorCode::not_found, "no such file").in_file(path);
  if (error) throw sys::failure("find", path, error.value());
  return real.string();
}

int clone(const std::string& from, const std::string& to) {
  const sys::Descriptor source(sys::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (source.get() < 0) return -1;
  const sys::Descriptor copy(
      sys::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, sys::kFileMode));
  if (copy.get() < 0) return -1;
  return sys::clone(copy.get(), source.get(), to.c_str());
}

// Returns whether an earlier run has made this link. Making a hard link anew changes the ctime of
// the source and not its count of links, which looks like an edit (was_written).
bool is_there(const std::string& real, const std::string& to, LinkKind kind) {
  if (kind == LinkKind::symbolic) {
    std::error_code error;
    return std::filesystem::read_symlink(to, error) == real && !error;
  }
  struct stat file {};
  struct stat name {};
  return kind == LinkKind::hard && ::lstat(real.c_str(), &file) == 0 &&
         ::lstat(to.c_str(), &name) == 0 && file.st_dev == name.st_dev &&
         file.st_ino == name.st_ino;
}

}  // namespace

bool link_file(const std::string& from, const std::string& to, LinkKind kind) {
  const std::string real = real_path(from);
  if (is_there(real, to, kind)) return true;
  remove_tree(to);
  int result = 0;
  switch (kind) {
    case LinkKind::hard:
      result = sys::link(real.c_str(), to.c_str());
      break;
    case LinkKind::symbolic:
      result = sys::symlink(real.c_str(), to.c_str());
      break;
    case LinkKind::reflink:
      result = clone(real, to);
      break;
  }
  if (result == 0) return true;
  const int error_number = errno;
  remove_tree(to);
  if (cannot_link(error_number)) return false;
  throw sys::failure("link to " + real, to, error_number);
}

}  // namespace hfshard
