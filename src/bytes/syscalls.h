#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/types.h>

#include "hfshard/error.h"

/// System calls that may fail, as the system has them (-1 and errno), with one seam for fault
/// tests. `path` names the file to the hook and nothing else.
namespace hfshard::sys {

/// Asked before every call; returns 0 to let it happen or the errno to fail it with. `call` is
/// `open`, `pread`, `pwrite`, `fdatasync`, `fsync`, `rename`, `renameat2`, `mkdir`, `mmap`,
/// `flock`, `truncate`, `statvfs`, `madvise`, `unlink`, `rmdir`, `link`, `symlink`, `clone`,
/// `sync_file_range`, `statx`, `cachestat`, `mincore`. Of `pread` and `pwrite`, -N lets at most N
/// bytes pass. Called from any thread.
using FaultHook = int (*)(const char* call, const char* path);
/// For tests; nullptr takes the hook away.
void set_fault_hook(FaultHook hook) noexcept;

/// Modes of what is made.
inline constexpr mode_t kFileMode = 0644;
inline constexpr mode_t kDirectoryMode = 0755;
/// One call moves at most 0x7ffff000 bytes on Linux; smaller steps keep the loops around it honest.
inline constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;

int open(const char* path, int flags, mode_t mode = 0) noexcept;
/// `name` is looked up in a directory; `path` names it to the hook.
int openat(int directory, const char* name, int flags, mode_t mode, const char* path) noexcept;
ssize_t pread(int fd, void* to, std::size_t size, off_t offset, const char* path) noexcept;
ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset, const char* path) noexcept;
int ftruncate(int fd, off_t size, const char* path) noexcept;
int fdatasync(int fd, const char* path) noexcept;
int fsync(int fd, const char* path) noexcept;
int flock(int fd, int operation, const char* path) noexcept;
int mkdir(const char* path, mode_t mode) noexcept;
int rename(const char* from, const char* to) noexcept;
/// `flags`: RENAME_NOREPLACE or RENAME_EXCHANGE.
int renameat2(const char* from, const char* to, unsigned int flags) noexcept;
int link(const char* from, const char* to) noexcept;
int symlink(const char* from, const char* to) noexcept;
/// Makes `to` share all blocks of `from`; see ioctl_ficlone(2).
int clone(int to, int from, const char* path) noexcept;
/// Bytes that an unprivileged user may still write.
int free_bytes(const char* path, unsigned long long* bytes) noexcept;
/// Private read-only mapping of `size` bytes from `offset`, a multiple of the page size; MAP_FAILED
/// on failure.
void* map_private(int fd, std::size_t size, const char* path, off_t offset = 0) noexcept;
/// Prefaults a mapping; fails with EFAULT where touching it would raise SIGBUS.
int populate_read(void* at, std::size_t size, const char* path) noexcept;
/// Writes the dirty pages of a range and waits until the disk has them. Unlike fdatasync, nothing
/// else that belongs to the file. A failure is told once, here or by fdatasync.
int write_out(int fd, off_t offset, off_t size, const char* path) noexcept;
/// The larger of the two alignments that direct I/O wants, 0 where it is refused; fails where
/// statx(2) does not know.
int direct_alignment(int fd, const char* path, std::uint64_t* alignment) noexcept;
/// Bytes of [0, size) that are in the page cache: counted, or estimated from a sample on kernels
/// that do not count. Fails where the system does not tell, as of files that we may not write.
int cached_bytes(int fd, std::uint64_t size, const char* path, std::uint64_t* bytes) noexcept;
/// `flags`: AT_REMOVEDIR, or 0 for what is no directory.
int unlinkat(int directory, const char* name, int flags, const char* path) noexcept;

/// A file descriptor that closes itself. Errors of close are not reported: sync before.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const noexcept { return fd_; }
  /// Gives the descriptor away.
  int release() noexcept;

 private:
  int fd_ = -1;
};

/// The error for a failed call: `cannot <doing>: <errno text>`, code io. A full disk is said as
/// such, with a hint that staging is resumable.
Error failure(std::string_view doing, const std::string& path, int error_number);

}  // namespace hfshard::sys
