#include "bytes/local/output.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/text.h"
#include "bytes/local/drop_behind.h"
#include "bytes/local/storage.h"
#include <sys/random.h>
#include <sys/stat.h>

namespace hfshard {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// Collects small writes, so that the file gets large ones.
class BufferedWriter {
 public:
  explicit BufferedWriter(OutputFile& file) : file_(file) { buffer_.reserve(kBufferBytes); }

  void put(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) {
      file_.write_at(offset_, bytes);
      offset_ += bytes.size();
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
  }

  void flush() {
    file_.write_at(offset_, buffer_);
    offset_ += buffer_.size();
    buffer_.clear();
  }

 private:
  OutputFile& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t offset_ = 0;
};

}  // namespace

OutputFile::OutputFile(std::string path, IoMode wanted)
    : path_(std::move(path)),
      fd_(sys::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, sys::kFileMode)) {
  if (fd_.get() < 0) throw sys::failure("open for writing", path_, errno);
  why_ = wanted == IoMode::automatic ? "written back at once" : "as asked";
  if (wanted == IoMode::mmap) why_ = "outputs are not mapped";
  if (wanted != IoMode::direct) return;
  direct_ = sys::Descriptor(sys::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
  if (direct_.get() >= 0) alignment_ = direct_alignment(direct_.get(), path_);
  if (alignment_ == 0) why_ = "the file system refuses direct writes";
}

bool OutputFile::fits_direct(std::uint64_t offset,
                             std::span<const std::byte> bytes) const noexcept {
  return alignment_ != 0 && offset % alignment_ == 0 && bytes.size() % alignment_ == 0 &&
         is_aligned(bytes, alignment_);
}

void OutputFile::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  HFSHARD_CHECK(in_range(offset_bytes, bytes.size(),
                         static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())));
  bool refused = false;
  while (!bytes.empty()) {
    const bool direct = !refused && fits_direct(offset_bytes, bytes);
    const std::size_t wanted = std::min(bytes.size(), sys::kMaxCallBytes);
    const ssize_t written = sys::pwrite(direct ? direct_.get() : fd_.get(), bytes.data(), wanted,
                                        static_cast<off_t>(offset_bytes), path_.c_str());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && direct) {
      refused = true;
      continue;
    }
    if (written < 0) throw sys::failure("write", path_, errno);
    // Zero for a non-zero request is meaningless for a regular file. An error is better than a
    // loop.
    if (written == 0) throw sys::failure("write", path_, EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset_bytes += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::start_writeback(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept {
  ::sync_file_range(fd_.get(), static_cast<off64_t>(offset_bytes),
                    static_cast<off64_t>(length_bytes), SYNC_FILE_RANGE_WRITE);
}

void OutputFile::settle(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  if (sys::write_out(fd_.get(), static_cast<off_t>(offset_bytes), static_cast<off_t>(length_bytes),
                     path_.c_str()) != 0) {
    if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE) return;  // sync_data will do it
    throw sys::failure("write", path_, errno);
  }
  drop_from_cache(fd_.get(), offset_bytes, length_bytes);
}

void OutputFile::drop_cached() noexcept {
  (void)::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

void OutputFile::sync_data() {
  if (sys::fdatasync(fd_.get(), path_.c_str()) != 0) throw sys::failure("sync", path_, errno);
}

std::uint64_t OutputFile::size_bytes() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) throw sys::failure("stat", path_, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

void OutputFile::resize(std::uint64_t size_bytes) {
  if (sys::ftruncate(fd_.get(), static_cast<off_t>(size_bytes), path_.c_str()) != 0) {
    throw sys::failure("resize", path_, errno);
  }
}

namespace {

// Returns a name that no other process has, on any machine. Process ids repeat between containers.
// Creates it exclusively, so even a repeated number does no harm.
std::string make_unique_name(const std::string& path) {
  for (;;) {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number)))
      throw sys::failure("find a name next to", path, errno);
    std::string name = fmt::format("{}.{:016x}", path, number);
    const sys::Descriptor made(
        sys::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, sys::kFileMode));
    if (made.get() >= 0) return name;
    if (errno != EEXIST) throw sys::failure("open for writing", name, errno);
  }
}

// Renames a file to a name that must be free. Tries a link first, since network file systems lack a
// rename that doesn't replace. A link keeps the old name.
bool take_free_name(const std::string& from, const std::string& to) {
  if (sys::link(from.c_str(), to.c_str()) == 0) return true;
  const int error_number = errno;
  if (error_number == EEXIST) return false;
  if (error_number != EPERM && error_number != ENOTSUP && error_number != ENOSYS &&
      error_number != EMLINK) {
    throw sys::failure(fmt::format("link to {}", quote(to)), from, error_number);
  }
  try {
    rename_noreplace(from, to);
  } catch (const Error& error) {  // an existing name is a result here
    if (error.code() != ErrorCode::conflict) throw;
    return false;
  }
  return true;
}

}  // namespace

bool create_file_durably(const std::string& path, std::string_view text) {
  const std::string own = make_unique_name(path);
  bool made = false;
  try {
    OutputFile file(own);
    file.write_at(0, as_bytes(text));
    file.sync_data();
    made = take_free_name(own, path);
  } catch (...) {  // no one else knows the name
    (void)sys::unlinkat(AT_FDCWD, own.c_str(), 0, own.c_str());
    throw;
  }
  remove_tree(own);
  if (made) fsync_directory(parent_path(path));
  return made;
}

std::string temporary_name(const std::string& path) { return path + ".tmp"; }

void write_file_durably(const std::string& path,
                        const std::function<void(const ByteSink&)>& produce) {
  const std::string temporary = temporary_name(path);
  {
    OutputFile file(temporary);
    file.resize(0);
    BufferedWriter writer(file);
    produce([&writer](std::span<const std::byte> bytes) { writer.put(bytes); });
    writer.flush();
    file.sync_data();
  }
  rename_path(temporary, path);
  fsync_directory(parent_path(path));
}

void write_file_durably(const std::string& path, std::string_view text) {
  write_file_durably(path, [text](const ByteSink& sink) { sink(as_bytes(text)); });
}

}  // namespace hfshard
