#include "bytes/local/scratch_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/checked.h"
#include "bytes/local/files.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// If the file system lacks unnamed files, makes one and removes its name at once.
int open_named(const std::string& directory) {
  const std::string path = join_path(directory, fmt::format("unpacked.{}", ::getpid()));
  const int file = sys::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) (void)sys::unlinkat(AT_FDCWD, path.c_str(), 0, path.c_str());
  return file;
}

}  // namespace

void ScratchFile::reset(const std::string& directory, std::uint64_t size_bytes) {
  directory_ = directory;
  int file = sys::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
    file = open_named(directory);
  if (file < 0) throw sys::failure("make a scratch file", directory, errno);
  clear();
  file_ = sys::Descriptor(file);
  size_bytes_ = size_bytes;
}

void ScratchFile::reset_in(std::span<std::byte> memory) {
  clear();
  memory_ = memory;
  size_bytes_ = memory.size();
}

void ScratchFile::clear() noexcept {
  file_ = sys::Descriptor();
  memory_ = {};
  size_bytes_ = 0;
}

std::span<std::byte> ScratchFile::in_memory(std::uint64_t offset_bytes,
                                            std::uint64_t length_bytes) const {
  HFSHARD_CHECK(in_range(offset_bytes, length_bytes, size_bytes_));
  if (memory_.empty()) return {};
  return memory_.subspan(offset_bytes, length_bytes);
}

void ScratchFile::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  HFSHARD_CHECK(in_range(offset_bytes, bytes.size(), size_bytes_));
  if (!memory_.empty()) {
    std::ranges::copy(bytes, memory_.subspan(offset_bytes).begin());
    return;
  }
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), sys::kMaxCallBytes);
    const ssize_t done = sys::pwrite(file_.get(), bytes.data(), size,
                                     static_cast<off_t>(offset_bytes), directory_.c_str());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw sys::failure("unpack " + name_, directory_, done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset_bytes += static_cast<std::uint64_t>(done);
  }
}

void ScratchFile::read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  HFSHARD_CHECK(in_range(offset_bytes, out.size(), size_bytes_));
  if (!memory_.empty()) {
    std::ranges::copy(memory_.subspan(offset_bytes, out.size()), out.begin());
    return;
  }
  std::size_t filled = 0;
  while (filled < out.size()) {
    const std::size_t size = std::min(out.size() - filled, sys::kMaxCallBytes);
    const ssize_t done = sys::pread(file_.get(), out.data() + filled, size,
                                    static_cast<off_t>(offset_bytes + filled), directory_.c_str());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw sys::failure("read the unpacked " + name_, directory_, errno);
    if (done == 0) {  // bytes never written are zeros
      std::ranges::fill(out.subspan(filled), std::byte{0});
      return;
    }
    filled += static_cast<std::size_t>(done);
  }
}

View ScratchFile::view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                       std::span<std::byte> scratch) const {
  if (memory_.empty()) return SourceFile::view(offset_bytes, length_bytes, scratch);
  HFSHARD_CHECK(in_range(offset_bytes, length_bytes, size_bytes_));
  return View(memory_.subspan(offset_bytes, length_bytes));
}

}  // namespace hfshard
