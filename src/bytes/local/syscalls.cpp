#include "bytes/local/syscalls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

namespace hfshard::sys {
namespace {

// Returns a hint for a failed call. Empty for other errors.
std::string_view hint_of(int error_number) {
  switch (error_number) {
    case ENOMEM:
      return "give the process more memory (ulimit -d, ulimit -v)";
    case EMFILE:
      return "allow the process more open files (ulimit -n)";
    case ENFILE:
      return "the whole system has too many files open (sysctl fs.file-max)";
    case EACCES:
    case EPERM:
      return "check its permissions and those of the directories above it (ls -ld)";
    case EROFS:
      return "choose a writable file system";
    case EFBIG:
      return "allow larger files (ulimit -f), or choose another file system";
    case ELOOP:
      return "a symbolic link points to itself; pass its target";
    case ENAMETOOLONG:
      return "choose a shorter name: at most 255 bytes, or 246 for an output";
    default:
      return {};
  }
}

// Linux 5.14. Older C libraries lack the name.
constexpr int kMadvPopulateRead = 22;

// Linux 6.5. It has the same number on every machine.
constexpr long kCachestat = 451;

std::atomic<FaultHook> fault_hook{nullptr};  // only tests set it

int ask_hook(const char* call, const char* path) noexcept {
  const FaultHook hook = fault_hook.load(std::memory_order_acquire);
  return hook == nullptr ? 0 : hook(call, path);
}

// Returns true, with errno set, if the hook makes this call fail.
bool injected(const char* call, const char* path) noexcept {
  const int error_number = ask_hook(call, path);
  if (error_number <= 0) return false;
  errno = error_number;
  return true;
}

// Does the same for a transfer of `size` bytes, which the hook can shorten.
bool injected(const char* call, const char* path, std::size_t& size) noexcept {
  const int answer = ask_hook(call, path);
  if (answer < 0) size = std::min(size, static_cast<std::size_t>(-static_cast<long>(answer)));
  if (answer <= 0) return false;
  errno = answer;
  return true;
}

// Samples windows spread over the file.
int sample_cached_bytes(int fd, std::uint64_t size, std::uint64_t page,
                        std::uint64_t* bytes) noexcept {
  constexpr std::uint64_t kWindows = 32;
  const std::uint64_t pages = (size + page - 1) / page;
  const std::uint64_t step = std::max<std::uint64_t>(pages / kWindows, 1);
  std::uint64_t seen = 0;
  std::uint64_t cached = 0;
  for (std::uint64_t at = 0; at < pages; at += step) {
    void* window = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(at * page));
    if (window == MAP_FAILED) return -1;
    unsigned char there = 0;
    const int result = ::mincore(window, page, &there);
    ::munmap(window, page);
    if (result != 0) return -1;
    ++seen;
    cached += there & 1U;
  }
  *bytes = seen == 0 ? 0 : size / seen * cached;
  return 0;
}

}  // namespace

void set_fault_hook(FaultHook hook) noexcept { fault_hook.store(hook, std::memory_order_release); }

int open(const char* path, int flags, mode_t mode) noexcept {
  return injected("open", path) ? -1 : ::open(path, flags, mode);
}

int openat(int directory, const char* name, int flags, mode_t mode, const char* path) noexcept {
  return injected("open", path) ? -1 : ::openat(directory, name, flags, mode);
}

ssize_t pread(int fd, void* to, std::size_t size, off_t offset, const char* path) noexcept {
  return injected("pread", path, size) ? -1 : ::pread(fd, to, size, offset);
}

ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset,
               const char* path) noexcept {
  return injected("pwrite", path, size) ? -1 : ::pwrite(fd, from, size, offset);
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

int link(const char* from, const char* to) noexcept {
  return injected("link", to) ? -1 : ::link(from, to);
}

int symlink(const char* from, const char* to) noexcept {
  return injected("symlink", to) ? -1 : ::symlink(from, to);
}

int clone(int to, int from, const char* path) noexcept {
  return injected("clone", path) ? -1 : ::ioctl(to, FICLONE, from);
}

int free_bytes(const char* path, unsigned long long* bytes) noexcept {
  struct statvfs info {};
  if (injected("statvfs", path) || ::statvfs(path, &info) != 0) return -1;
  *bytes = static_cast<unsigned long long>(info.f_bavail) * info.f_frsize;
  return 0;
}

void* map_private(int fd, std::size_t size, const char* path, off_t offset) noexcept {
  if (injected("mmap", path)) return MAP_FAILED;
  return ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, offset);
}

int populate_read(void* at, std::size_t size, const char* path) noexcept {
  return injected("madvise", path) ? -1 : ::madvise(at, size, kMadvPopulateRead);
}

int write_out(int fd, off_t offset, off_t size, const char* path) noexcept {
  constexpr unsigned kAndWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  return injected("sync_file_range", path) ? -1 : ::sync_file_range(fd, offset, size, kAndWait);
}

int direct_alignment(int fd, const char* path, std::uint64_t* alignment) noexcept {
  if (injected("statx", path)) return -1;
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return -1;
  if ((info.stx_mask & STATX_DIOALIGN) != 0) {
    *alignment = std::max(info.stx_dio_mem_align, info.stx_dio_offset_align);
    return 0;
  }
#endif
  errno = ENOSYS;
  return -1;
}

int cached_bytes(int fd, std::uint64_t size, const char* path, std::uint64_t* bytes) noexcept {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  struct {
    std::uint64_t offset, length;
  } const range{0, size};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } found{};
  if (!injected("cachestat", path) && ::syscall(kCachestat, fd, &range, &found, 0) == 0) {
    *bytes = std::min(found.cached * page, size);
    return 0;
  }
  // Without write permission, mincore(2) claims that the whole file is cached.
  if (injected("mincore", path) || ::access(path, W_OK) != 0) return -1;
  return sample_cached_bytes(fd, size, page, bytes);
}

int unlinkat(int directory, const char* name, int flags, const char* path) noexcept {
  if (injected((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", path)) return -1;
  return ::unlinkat(directory, name, flags);
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
        "free some space and run the same command again; the run continues where it stopped");
    return error;
  }
  Error error(ErrorCode::io,
              fmt::format("can't {}: {}", doing, std::generic_category().message(error_number)));
  error.in_file(path);
  error.hint(hint_of(error_number));
  return error;
}

}  // namespace hfshard::sys
