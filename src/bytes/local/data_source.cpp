#include "bytes/local/data_source.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "bytes/local/storage.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the part of `scratch` that is aligned for direct I/O.
std::span<std::byte> aligned(std::span<std::byte> scratch) {
  void* at = scratch.data();
  std::size_t room = scratch.size();
  HFSHARD_CHECK(std::align(kMaxAlignmentBytes, 1, at, room) != nullptr);
  return scratch.last(room);
}

}  // namespace

DataSource::DataSource(std::string path, IoMode wanted, std::shared_ptr<DropBehind> behind)
    : file_(std::move(path)), behind_(std::move(behind)) {
  choose(wanted);
}

void DataSource::choose(IoMode wanted) {
  const std::string_view network = network_file_system(file_.descriptor());
  const bool cached = mostly_cached(file_.descriptor(), file_.size_bytes(), file_.name());
  if (cached) behind_ = nullptr;
  why_ = "as asked";
  if (wanted == IoMode::buffered) return;
  if (wanted == IoMode::direct) {
    if (!open_direct()) why_ = "the file system refuses direct reads";
  } else if (!network.empty()) {  // a mapping fails late if the network does
    why_ = fmt::format("on {}", network);
  } else if (wanted == IoMode::mmap) {
    mode_ = IoMode::mmap;
  } else if (cached) {
    why_ = "in the page cache";
  } else {
    why_ = open_direct() ? "not in the page cache" : "the file system refuses direct reads";
  }
}

bool DataSource::open_direct() {
  direct_ = sys::Descriptor(
      sys::open(file_.name().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT));
  if (direct_.get() < 0) return false;
  struct stat info {};
  if (::fstat(direct_.get(), &info) != 0) throw sys::failure("stat", file_.name(), errno);
  if (stamp_of(info) != file_.stamp()) throw changed_source(file_.name());
  alignment_ = direct_alignment(direct_.get(), file_.name());
  if (alignment_ == 0) return false;
  mode_ = IoMode::direct;
  return true;
}

void DataSource::read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  file_.read_at(offset_bytes, out);
}

View DataSource::view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                      std::span<std::byte> scratch) const {
  if (mode_ == IoMode::direct) return read_direct(offset_bytes, length_bytes, scratch);
  if (mode_ == IoMode::mmap) {
    if (auto mapping = file_.map(offset_bytes, length_bytes)) return View(std::move(*mapping));
  }
  return Source::view(offset_bytes, length_bytes, scratch);
}

View DataSource::read_direct(std::uint64_t offset, std::uint64_t length,
                             std::span<std::byte> scratch) const {
  file_.check_range(offset, length);
  const auto buffer = aligned(scratch);
  const std::uint64_t begin = offset / alignment_ * alignment_;
  const std::uint64_t wanted = round_up(offset + length, alignment_) - begin;
  const std::uint64_t skip = offset - begin;
  const std::uint64_t needed = skip + length;
  HFSHARD_CHECK(wanted <= buffer.size());
  std::uint64_t got = 0;
  while (got < needed) {
    const ssize_t count = sys::pread(direct_.get(), buffer.data() + got, wanted - got,
                                     static_cast<off_t>(begin + got), file_.name().c_str());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EINVAL) {
      const int error_number = errno;
      throw sys::failure("read", file_.name(), error_number)
          .at({offset, offset + length}, file_.size_bytes());
    }
    if (count <= 0) break;
    got += static_cast<std::uint64_t>(count);
    if (got % alignment_ != 0) break;  // the end of the file
  }
  // Reads the rest through the page cache. It fails if the file shrank. Some ranges can only be
  // read this way.
  const std::uint64_t from = std::clamp(got, skip, needed);
  if (from < needed) file_.read_at(begin + from, buffer.subspan(from, needed - from));
  return View(buffer.subspan(skip, length));
}

void DataSource::check_used(const View& view, std::uint64_t offset_bytes,
                            std::uint64_t length_bytes) const {
  if (view.gone()) file_.throw_gone(offset_bytes, length_bytes);
}

void DataSource::will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  if (mode_ != IoMode::direct) file_.will_need(offset_bytes, length_bytes);
}

void DataSource::done_with(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  if (behind_ != nullptr) behind_->add(file_.descriptor(), offset_bytes, length_bytes);
}

}  // namespace hfshard
