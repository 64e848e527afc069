#include "bytes/source.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "bytes/files.h"
#include "bytes/syscalls.h"
#include <sys/mman.h>
#include <sys/stat.h>

namespace hfshard {
namespace {

// One call returns at most 0x7ffff000 bytes on Linux; smaller steps keep the loop honest.
constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;
constexpr std::string_view kDownloadHint =
    "the file may still be downloading or is being replaced; run again when it is complete";

Error open_failure(const std::string& path, int error_number) {
  if (error_number != ENOENT && error_number != ENOTDIR) {
    return sys::failure("open", path, error_number);
  }
  Error error(ErrorCode::not_found, "no such file");
  error.in_file(path);
  if (exists(path)) {
    error.hint("the name is a link to a file that is missing; the download may be partial");
  }
  return error;
}

// Opens a regular file and tells its stamp. Throws: not_found, bad_input, io.
sys::Descriptor open_regular(const std::string& path, FileStamp& stamp) {
  // O_NONBLOCK: opening a fifo must not wait for a writer. It has no effect on regular files.
  sys::Descriptor fd(sys::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) throw open_failure(path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw sys::failure("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::bad_input, S_ISDIR(info.st_mode)
                                          ? "a directory is where a file is wanted"
                                          : "not a regular file")
        .in_file(path);
  }
  stamp = stamp_of(info);
  return fd;
}

[[noreturn]] void throw_shrunk(const std::string& path, int fd, ByteRange wanted) {
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  throw Error(ErrorCode::corrupt, "file shrank since it was opened")
      .in_file(path)
      .at(wanted, known ? static_cast<std::uint64_t>(info.st_size) : 0)
      .hint(kDownloadHint);
}

void read_exactly(const std::string& path, int fd, std::uint64_t offset, std::span<std::byte> out) {
  const ByteRange wanted{offset, offset + out.size()};
  while (!out.empty()) {
    const std::size_t step = std::min(out.size(), kMaxCallBytes);
    const ssize_t got = sys::pread(fd, out.data(), step, static_cast<off_t>(offset), path.c_str());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error_number = errno;
      throw sys::failure("read", path, error_number).at(wanted, wanted.end);
    }
    if (got == 0) throw_shrunk(path, fd, wanted);
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

// Anonymous memory with the file's bytes, for kernels and file systems that cannot map and
// populate.
void* copy_to_memory(const std::string& path, int fd, std::size_t size) {
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw sys::failure("reserve memory for", path, errno);
  try {
    read_exactly(path, fd, 0, {static_cast<std::byte*>(at), size});
  } catch (...) {  // gives the memory back, since no object owns it yet
    ::munmap(at, size);
    throw;
  }
  return at;
}

// Maps and prefaults; nullptr where the kernel or the file system cannot do that.
void* map_populated(const std::string& path, int fd, std::uint64_t offset, std::size_t size) {
  void* at = sys::map_private(fd, size, path.c_str(), static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    if (errno == ENODEV || errno == EINVAL) return nullptr;
    throw sys::failure("map", path, errno);
  }
  int result = sys::populate_read(at, size, path.c_str());
  while (result != 0 && errno == EINTR) result = sys::populate_read(at, size, path.c_str());
  const int error_number = errno;
  // The last page of a file that shrank within it reads as zeros.
  struct stat info {};
  const bool shrank =
      ::fstat(fd, &info) == 0 && !in_range(offset, size, static_cast<std::uint64_t>(info.st_size));
  if (result == 0 && !shrank) return at;
  ::munmap(at, size);
  if (result != 0 && error_number == EINVAL) return nullptr;  // Linux before 5.14
  if (shrank || error_number == EFAULT) throw_shrunk(path, fd, {offset, offset + size});
  throw sys::failure("read", path, error_number);
}

}  // namespace

View Source::view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                  std::span<std::byte> scratch) const {
  const auto out = scratch.first(length_bytes);
  read_at(offset_bytes, out);
  return View(out);
}

void Source::will_need(std::uint64_t /*offset_bytes*/, std::uint64_t /*length_bytes*/) const {}

void Source::done_with(std::uint64_t /*offset_bytes*/, std::uint64_t /*length_bytes*/) const {}

FileSource::FileSource(std::string path) : path_(std::move(path)) {
  fd_ = open_regular(path_, stamp_).release();
}

FileSource::~FileSource() { ::close(fd_); }

std::uint64_t FileSource::size_bytes() const { return stamp_.size_bytes; }

const std::string& FileSource::name() const { return path_; }

FileStamp FileSource::stamp() const { return stamp_; }

void FileSource::check_range(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  if (in_range(offset_bytes, length_bytes, stamp_.size_bytes)) return;
  const std::uint64_t end =
      checked_add(offset_bytes, length_bytes).value_or(std::numeric_limits<std::uint64_t>::max());
  throw Error(ErrorCode::corrupt, "a range to read passes the end of the file")
      .in_file(path_)
      .at({offset_bytes, end}, stamp_.size_bytes);
}

void FileSource::read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  check_range(offset_bytes, out.size());
  read_exactly(path_, fd_, offset_bytes, out);
}

std::optional<MappedBytes> FileSource::map(std::uint64_t offset_bytes,
                                           std::uint64_t length_bytes) const {
  check_range(offset_bytes, length_bytes);
  if (length_bytes == 0) return MappedBytes();
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t skip = offset_bytes % page;
  const std::uint64_t size = skip + length_bytes;
  const void* at = map_populated(path_, fd_, offset_bytes - skip, size);
  if (at == nullptr) return std::nullopt;
  return MappedBytes(at, size, skip);
}

void FileSource::will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  if (!in_range(offset_bytes, length_bytes, stamp_.size_bytes)) return;
  if (length_bytes == 0) return;  // to the system this is all of the file
  // A hint: failure changes nothing.
  (void)::posix_fadvise(fd_, static_cast<off_t>(offset_bytes), static_cast<off_t>(length_bytes),
                        POSIX_FADV_WILLNEED);
}

MappedBytes::MappedBytes(const std::string& path, std::uint64_t length_bytes) {
  FileStamp stamp;
  const sys::Descriptor fd = open_regular(path, stamp);
  if (length_bytes > stamp.size_bytes) {
    throw Error(ErrorCode::corrupt, "the file is shorter than what is to be read")
        .in_file(path)
        .at({0, length_bytes}, stamp.size_bytes)
        .hint(kDownloadHint);
  }
  if (length_bytes == 0) return;
  const auto size = static_cast<std::size_t>(length_bytes);
  void* at = map_populated(path, fd.get(), 0, size);
  if (at == nullptr) at = copy_to_memory(path, fd.get(), size);
  data_ = static_cast<const std::byte*>(at);
  size_ = size;
}

MappedBytes::~MappedBytes() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedBytes::MappedBytes(const void* data, std::size_t size, std::size_t skip) noexcept
    : data_(static_cast<const std::byte*>(data)), size_(size), skip_(skip) {}

MappedBytes::MappedBytes(MappedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      skip_(std::exchange(other.skip_, 0)) {}

MappedBytes& MappedBytes::operator=(MappedBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(skip_, other.skip_);
  return *this;
}

}  // namespace hfshard
