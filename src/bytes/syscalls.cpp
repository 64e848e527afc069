#include "bytes/syscalls.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

namespace hfshard::sys {
namespace {

// Linux 5.14; older C libraries lack the name.
constexpr int kMadvPopulateRead = 22;

std::atomic<FaultHook> fault_hook{nullptr};  // a seam for tests; never set otherwise

// True if the hook wants this call to fail; errno is then set.
bool injected(const char* call, const char* path) noexcept {
  const FaultHook hook = fault_hook.load(std::memory_order_acquire);
  const int error_number = hook == nullptr ? 0 : hook(call, path);
  if (error_number == 0) return false;
  errno = error_number;
  return true;
}

}  // namespace

void set_fault_hook(FaultHook hook) noexcept { fault_hook.store(hook, std::memory_order_release); }

int open(const char* path, int flags, mode_t mode) noexcept {
  return injected("open", path) ? -1 : ::open(path, flags, mode);
}

ssize_t pread(int fd, void* to, std::size_t size, off_t offset, const char* path) noexcept {
  return injected("pread", path) ? -1 : ::pread(fd, to, size, offset);
}

ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset,
               const char* path) noexcept {
  return injected("pwrite", path) ? -1 : ::pwrite(fd, from, size, offset);
}

int ftruncate(int fd, off_t size, const char* path) noexcept {
  return injected("truncate", path) ? -1 : ::ftruncate(fd, size);
}

int fdatasync(int fd, const char* path) noexcept {
  return injected("fdatasync", path) ? -1 : ::fdatasync(fd);
}

int fsync(int fd, const char* path) noexcept { return injected("fsync", path) ? -1 : ::fsync(fd); }

int flock(int fd, int operation, const char* path) noexcept {
  return injected("flock", path) ? -1 : ::flock(fd, operation);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return injected("mkdir", path) ? -1 : ::mkdir(path, mode);
}

int rename(const char* from, const char* to) noexcept {
  return injected("rename", from) ? -1 : ::rename(from, to);
}

int renameat2(const char* from, const char* to, unsigned int flags) noexcept {
  return injected("renameat2", from) ? -1 : ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

int free_bytes(const char* path, unsigned long long* bytes) noexcept {
  struct statvfs info {};
  if (injected("statvfs", path) || ::statvfs(path, &info) != 0) return -1;
  *bytes = static_cast<unsigned long long>(info.f_bavail) * info.f_frsize;
  return 0;
}

void* map_private(int fd, std::size_t size, const char* path) noexcept {
  if (injected("mmap", path)) return MAP_FAILED;
  return ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
}

int populate_read(void* at, std::size_t size, const char* path) noexcept {
  return injected("madvise", path) ? -1 : ::madvise(at, size, kMadvPopulateRead);
}

int remove_all(const char* path) noexcept {
  if (injected("remove_all", path)) return -1;
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return 0;
  errno = error.value();
  return -1;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int Descriptor::release() noexcept { return std::exchange(fd_, -1); }

Error failure(std::string_view doing, const std::string& path, int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT) {
    Error error(ErrorCode::io,
                error_number == ENOSPC ? "no space left on device" : "the disk quota is used up");
    error.in_file(path).hint(
        "free some space and run the same command again; staging is resumable");
    return error;
  }
  Error error(ErrorCode::io,
              fmt::format("cannot {}: {}", doing, std::generic_category().message(error_number)));
  error.in_file(path);
  return error;
}

}  // namespace hfshard::sys
