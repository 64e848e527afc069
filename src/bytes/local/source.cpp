#include "bytes/local/source.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "bytes/local/files.h"
#include "bytes/local/storage.h"
#include "bytes/local/syscalls.h"
#include <sys/mman.h>
#include <sys/stat.h>

namespace hfshard {
namespace {

constexpr std::string_view kDownloadHint =
    "the file may still be downloading; run again when it is complete";

Error open_failure(const std::string& path, int error_number) {
  if (error_number != ENOENT && error_number != ENOTDIR) {
    return sys::failure("open", path, error_number);
  }
  Error error(ErrorCode::not_found, "no such file");
  error.in_file(path);
  if (exists(path)) {
    error.hint(broken_link_hint(path));
  } else {
    error.hint(tilde_hint(path));
  }
  return error;
}

// Opens a regular file and gets its status. Throws: not_found, bad_input, io.
sys::Descriptor open_regular(const std::string& path, struct stat& info) {
  // With O_NONBLOCK, opening a fifo doesn't wait for a writer. It doesn't affect regular files.
  sys::Descriptor fd(sys::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) throw open_failure(path, errno);
  if (::fstat(fd.get(), &info) != 0) throw sys::failure("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode))
      throw Error(ErrorCode::bad_input, "a directory has the name of a file").in_file(path);
    throw Error(ErrorCode::bad_input, "not a regular file")
        .in_file(path)
        .hint("hfshard can't read pipes, sockets and devices; put a file there");
  }
  return fd;
}

[[noreturn]] void throw_shrunk(const std::string& path, int fd, ByteRange wanted) {
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  throw Error(ErrorCode::corrupt, "the file shrank while hfshard read it")
      .in_file(path)
      .at(wanted, known ? static_cast<std::uint64_t>(info.st_size) : 0)
      .hint(kDownloadHint);
}

void read_exactly(const std::string& path, int fd, std::uint64_t offset, std::span<std::byte> out) {
  const ByteRange wanted{offset, offset + out.size()};
  while (!out.empty()) {
    const std::size_t step = std::min(out.size(), sys::kMaxCallBytes);
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

// Maps and prefaults. Returns null if the kernel or the file system can't.
void* map_populated(const std::string& path, int fd, std::uint64_t offset, std::size_t size) {
  void* at = sys::map_private(fd, size, path.c_str(), static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    if (errno == ENODEV || errno == EINVAL) return nullptr;
    throw sys::failure("map", path, errno);
  }
  int result = sys::populate_read(at, size, path.c_str());
  while (result != 0 && errno == EINTR) result = sys::populate_read(at, size, path.c_str());
  const int error_number = errno;
  // If a file shrank within its last page, the rest of the page reads as zeros.
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

Error changed_source(const std::string& path) {
  Error error(ErrorCode::conflict, "the source changed while hfshard read it");
  error.in_file(path).hint(
      "wait until the download or copy is done and run the same command again");
  return error;
}

View Source::view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                  std::span<std::byte> scratch) const {
  const auto out = scratch.first(length_bytes);
  read_at(offset_bytes, out);
  return View(out);
}

void Source::will_need(std::uint64_t /*offset_bytes*/, std::uint64_t /*length_bytes*/) const {}

void Source::done_with(std::uint64_t /*offset_bytes*/, std::uint64_t /*length_bytes*/) const {}

MappedBytes copy_range(const Source& source, std::uint64_t offset_bytes,
                       std::uint64_t length_bytes) {
  if (length_bytes == 0) return {};
  void* at =
      ::mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw sys::failure("reserve memory for", source.name(), errno);
  MappedBytes out(at, length_bytes, 0, MappingGuard());
  source.read_at(offset_bytes, {static_cast<std::byte*>(at), length_bytes});
  return out;
}

std::string read_whole(const Source& source, std::uint64_t max_bytes) {
  if (source.size_bytes() > max_bytes) {
    throw Error(ErrorCode::limit,
                fmt::format("the file has {} bytes; hfshard reads at most {} at once",
                            source.size_bytes(), max_bytes))
        .in_file(source.name());
  }
  std::string text(source.size_bytes(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

InodeState state_of(const struct stat& info) noexcept {
  return {std::int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec,
          static_cast<std::uint64_t>(info.st_nlink), static_cast<std::uint64_t>(info.st_mode),
          static_cast<std::uint64_t>(info.st_uid), static_cast<std::uint64_t>(info.st_gid)};
}

bool was_written(const InodeState& then, const InodeState& now) noexcept {
  return now.ctime_ns != then.ctime_ns && now.links == then.links && now.mode == then.mode &&
         now.owner == then.owner && now.group == then.group;
}

bool operator==(const FileIdentity& a, const FileIdentity& b) {
  if (a.size_bytes != b.size_bytes || a.version != b.version) return false;
  if (a.inodes.size() != b.inodes.size()) return true;
  return std::ranges::equal(a.inodes, b.inodes, [](const InodeState& then, const InodeState& now) {
    return !was_written(then, now);
  });
}

FileIdentity identity_of(const FileStamp& stamp) {
  return {stamp.size_bytes, fmt::format("{}.{}", stamp.mtime_ns, stamp.inode)};
}

FileIdentity identity_of(const FileStamp& stamp, const InodeState& state) {
  FileIdentity out = identity_of(stamp);
  out.inodes = {state};
  return out;
}

void SourceFile::check_used(const View& /*view*/, std::uint64_t /*offset_bytes*/,
                            std::uint64_t /*length_bytes*/) const {}

std::optional<IoChoice> SourceFile::choice() const { return std::nullopt; }

FileSource::FileSource(std::string path) : path_(std::move(path)) {
  struct stat info {};
  fd_ = open_regular(path_, info).release();
  stamp_ = stamp_of(info);
  state_ = state_of(info);
  local_ = network_file_system(fd_).empty();
}

FileSource::~FileSource() { ::close(fd_); }

std::uint64_t FileSource::size_bytes() const { return stamp_.size_bytes; }

const std::string& FileSource::name() const { return path_; }

FileStamp FileSource::stamp() const { return stamp_; }

// On a network file system the time is another machine's, and caches can have an older one.
FileIdentity FileSource::identity() const {
  return local_ ? identity_of(stamp_, state_) : identity_of(stamp_);
}

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
  void* at = map_populated(path_, fd_, offset_bytes - skip, size);
  if (at == nullptr) return std::nullopt;
  MappingGuard guard(at, size);
  if (!guard) {  // reading is safer than ending by a signal
    ::munmap(at, size);
    return std::nullopt;
  }
  return MappedBytes(at, size, skip, std::move(guard));
}

void FileSource::throw_gone(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  const ByteRange range{offset_bytes, offset_bytes + length_bytes};
  struct stat info {};
  const bool shrank =
      ::fstat(fd_, &info) == 0 &&
      !in_range(offset_bytes, length_bytes, static_cast<std::uint64_t>(info.st_size));
  if (shrank) throw_shrunk(path_, fd_, range);
  check_unchanged();  // it grew again, or the disk failed
  throw Error(ErrorCode::io, "a mapped page of the file can't be read")
      .in_file(path_)
      .at(range, stamp_.size_bytes)
      .hint("run the same command again; with --io buffered, the error names the disk's problem");
}

void FileSource::check_unchanged() const {
  struct stat own {};
  if (::fstat(fd_, &own) != 0) throw sys::failure("stat", path_, errno);
  if (stamp_of(own) != stamp_ || (local_ && was_written(state_, state_of(own))))
    throw changed_source(path_);
  const auto named = file_info(path_);
  if (!named || named->stamp != stamp_) throw changed_source(path_);
}

void FileSource::will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  if (!in_range(offset_bytes, length_bytes, stamp_.size_bytes)) return;
  if (length_bytes == 0) return;  // 0 means the whole file to posix_fadvise
  // It is a hint, so failures don't matter.
  (void)::posix_fadvise(fd_, static_cast<off_t>(offset_bytes), static_cast<off_t>(length_bytes),
                        POSIX_FADV_WILLNEED);
}

MappedBytes::~MappedBytes() {
  guard_ = MappingGuard();  // before other mappings get these addresses
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedBytes::MappedBytes(const void* data, std::size_t size, std::size_t skip,
                         MappingGuard guard) noexcept
    : data_(static_cast<const std::byte*>(data)),
      size_(size),
      skip_(skip),
      guard_(std::move(guard)) {}

MappedBytes::MappedBytes(MappedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      skip_(std::exchange(other.skip_, 0)),
      guard_(std::move(other.guard_)) {}

MappedBytes& MappedBytes::operator=(MappedBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(skip_, other.skip_);
  std::swap(guard_, other.guard_);
  return *this;
}

}  // namespace hfshard
