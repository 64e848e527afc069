#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/types.h>

#include "hfshard/error.h"

/// System calls with the system's conventions (-1 and errno), and one hook for fault tests. `path`
/// is only for the hook.
namespace hfshard::sys {

/// Called before every call, from any thread. Returns 0 to allow it, or the errno to fail with.
/// `call` is `open`, `pread`, `pwrite`, `fdatasync`, `fsync`, `rename`, `renameat2`, `mkdir`,
/// `mmap`, `flock`, `truncate`, `statvfs`, `madvise`, `unlink`, `rmdir`, `link`, `symlink`,
/// `clone`, `sync_file_range`, `statx`, `cachestat`, `mincore`. For `pread` and `pwrite`, -N lets
/// at most N bytes pass.
using FaultHook = int (*)(const char* call, const char* path);
/// Sets the hook, for tests. nullptr removes it.
void set_fault_hook(FaultHook hook) noexcept;

/// Modes of new files and directories.
inline constexpr mode_t kFileMode = 0644;
inline constexpr mode_t kDirectoryMode = 0755;
/// One call moves at most 0x7ffff000 bytes on Linux. Smaller steps exercise the loops around it.
inline constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;

int open(const char* path, int flags, mode_t mode = 0) noexcept;
/// Opens `name` in a directory. `path` is for the hook.
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
/// Gets the bytes that an unprivileged user can still write.
int free_bytes(const char* path, unsigned long long* bytes) noexcept;
/// Maps `size` bytes from `offset`, a multiple of the page size, private and read-only. Returns
/// MAP_FAILED on failure.
void* map_private(int fd, std::size_t size, const char* path, off_t offset = 0) noexcept;
/// Prefaults a mapping. Fails with EFAULT if touching it would raise SIGBUS.
int populate_read(void* at, std::size_t size, const char* path) noexcept;
/// Writes the dirty pages of a range and waits until the disk has them. Unlike fdatasync, it writes
/// nothing else of the file. A failure is reported once, here or by fdatasync.
int write_out(int fd, off_t offset, off_t size, const char* path) noexcept;
/// Gets the larger of the two alignments for direct I/O, or 0 if it is refused. Fails if statx(2)
/// doesn't know.
int direct_alignment(int fd, const char* path, std::uint64_t* alignment) noexcept;
/// Counts the bytes of [0, size) in the page cache, or estimates them from a sample on older
/// kernels. Fails if the system doesn't tell, such as for files without write permission.
int cached_bytes(int fd, std::uint64_t size, const char* path, std::uint64_t* bytes) noexcept;
/// `flags`: AT_REMOVEDIR, or 0 if it isn't a directory.
int unlinkat(int directory, const char* name, int flags, const char* path) noexcept;

/// A file descriptor that closes itself. It doesn't report errors of close, so sync before.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const noexcept { return fd_; }
  /// Releases the descriptor to the caller.
  int release() noexcept;

 private:
  int fd_ = -1;
};

/// Returns the error for a failed call: `cannot <doing>: <errno text>`, code io. For a full disk it
/// says so, with a hint that staging is resumable.
Error failure(std::string_view doing, const std::string& path, int error_number);

}  // namespace hfshard::sys
