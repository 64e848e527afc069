#include "bytes/local/arrivals.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint32_t kArrivalMagic = 0x31414648;  // "HFA1"
constexpr std::size_t kArrivalHeader = 24;
constexpr std::size_t kArrivalHashed = 20;                        // of the header; the sum follows
constexpr std::uint64_t kRecordBytes = std::uint64_t{256} << 10;  // most bytes in a record
constexpr std::uint64_t kArrivalFileBytes = std::uint64_t{64} << 20;  // a file ends after it
constexpr std::size_t kMostRecords = std::size_t{1} << 16;
constexpr std::chrono::seconds kSyncEvery{5};

using ArrivalHead = std::array<std::byte, kArrivalHeader>;

std::uint32_t arrival_sum(const ArrivalHead& head, std::span<const std::byte> bytes) {
  return crc32c_extend(crc32c(std::span(head).first(kArrivalHashed)), bytes);
}

ArrivalHead arrival_head(std::uint32_t file, std::uint64_t offset, std::uint32_t size) {
  ArrivalHead head;
  store_le(head.data(), kArrivalMagic);
  store_le(head.data() + 4, file);
  store_le(head.data() + 8, offset);
  store_le(head.data() + 16, size);
  return head;
}

// The files of a name by their number.
std::map<std::uint32_t, std::string> arrival_files(const std::string& directory,
                                                   const std::string& name) {
  std::map<std::uint32_t, std::string> out;
  const std::string front = name + ".";
  for (const std::string& entry : list_directory(directory)) {
    if (!entry.starts_with(front)) continue;
    std::uint32_t number = 0;
    const char* end = entry.data() + entry.size();
    const auto [at, error] = std::from_chars(entry.data() + front.size(), end, number);
    std::string path = join_path(directory, entry);
    if (error != std::errc() || at != end || is_symlink(path)) continue;
    if (const auto info = file_info(path); !info || info->kind != FileKind::regular) continue;
    out.emplace(number, std::move(path));
  }
  return out;
}

}  // namespace

std::uint64_t arrived_bytes(const std::string& directory, const std::string& name) {
  std::uint64_t out = 0;
  for (const auto& [number, path] : arrival_files(directory, name)) {
    if (const auto info = file_info(path)) out += info->stamp.size_bytes;
  }
  return out;
}

Arrivals::Arrivals(std::string directory, std::string name, std::uint64_t most_bytes,
                   std::chrono::milliseconds patience)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      most_bytes_(most_bytes),
      patience_(patience) {
  for (const auto& [number, path] : arrival_files(directory_, name_)) {
    next_ = number + 1;
    found_.push_back(std::make_unique<FileSource>(path));
    parts_.push_back({path, found_.back()->size_bytes()});
    scan(found_.size() - 1);
  }
  std::ranges::sort(kept_, {},
                    [](const Kept& kept) { return std::tie(kept.file, kept.range.begin); });
}

// A file ends at its first record that is incomplete.
void Arrivals::scan(std::size_t in) {
  const FileSource& file = *found_[in];
  const std::uint64_t end = file.size_bytes();
  for (std::uint64_t at = 0; end - at > kArrivalHeader && kept_.size() < kMostRecords;) {
    ArrivalHead head;
    file.read_at(at, head);
    const auto offset = load_le<std::uint64_t>(head.data() + 8);
    const auto size = load_le<std::uint32_t>(head.data() + 16);
    at += kArrivalHeader;
    if (load_le<std::uint32_t>(head.data()) != kArrivalMagic || size == 0 || size > kRecordBytes ||
        size > end - at || offset > UINT64_MAX - size) {
      return;
    }
    kept_.push_back({load_le<std::uint32_t>(head.data() + 4),
                     {offset, offset + size},
                     load_le<std::uint32_t>(head.data() + kArrivalHashed),
                     in,
                     at});
    found_bytes_ += size;
    at += size;
  }
}

// Returns whether `buffer` has the record's bytes, undamaged.
bool Arrivals::read(const Kept& kept, std::vector<std::byte>& buffer) const {
  buffer.resize(kept.range.end - kept.range.begin);
  try {
    found_[kept.in]->read_at(kept.at, buffer);
  } catch (const Error&) {  // then the bytes are requested
    return false;
  }
  const auto size = static_cast<std::uint32_t>(buffer.size());
  return arrival_sum(arrival_head(kept.file, kept.range.begin, size), buffer) == kept.sum;
}

std::vector<ByteRange> Arrivals::fill(std::uint32_t file, std::uint64_t offset_bytes,
                                      std::span<std::byte> out) {
  const std::uint64_t end = offset_bytes + out.size();
  const std::uint64_t first = offset_bytes - std::min(offset_bytes, kRecordBytes);
  auto next = std::ranges::lower_bound(kept_, std::tuple(file, first), {}, [](const Kept& kept) {
    return std::tuple(kept.file, kept.range.begin);
  });
  std::vector<ByteRange> missing;
  std::vector<std::byte> buffer;
  std::uint64_t at = offset_bytes;
  for (; next != kept_.end() && next->file == file && next->range.begin < end; ++next) {
    if (next->range.end <= at || !read(*next, buffer)) continue;
    const std::uint64_t begin = std::max(next->range.begin, at);
    if (begin > at) missing.push_back({at, begin});
    at = std::min(next->range.end, end);
    std::memcpy(out.data() + (begin - offset_bytes), buffer.data() + (begin - next->range.begin),
                at - begin);
  }
  if (at < end) missing.push_back({at, end});
  return missing;
}

bool Arrivals::is_wanted() const noexcept {
  return Clock::now().time_since_epoch() - Clock::duration(recorded_at_.load()) >= patience_;
}

void Arrivals::recorded() noexcept { recorded_at_ = Clock::now().time_since_epoch().count(); }

void Arrivals::keep(std::uint32_t file, std::uint64_t offset_bytes,
                    std::span<const std::byte> bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  try {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kRecordBytes));
      write(file, offset_bytes, part);
      offset_bytes += part.size();
      bytes = bytes.subspan(part.size());
    }
    // Otherwise a machine that stops would lose what a process that stops doesn't.
    if (const auto now = Clock::now(); out_ && now - synced_ >= kSyncEvery) {
      out_->sync_data();
      synced_ = now;
    }
  } catch (const std::exception&) {  // the run needs the disk more than this
    remove_parts();
  }
}

void Arrivals::write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t most_part = std::min(kArrivalFileBytes, most_bytes_ / 4);
  const std::uint64_t size = kArrivalHeader + bytes.size();
  if (size > most_part) return;
  if (!out_ || parts_.back().size_bytes + size > most_part) begin_part();
  while (parts_.size() > 1 && total_bytes() + size > most_bytes_) remove_oldest();
  ArrivalHead head = arrival_head(file, offset, static_cast<std::uint32_t>(bytes.size()));
  store_le(head.data() + kArrivalHashed, arrival_sum(head, bytes));
  Part& part = parts_.back();
  out_->write_at(part.size_bytes, head);
  out_->write_at(part.size_bytes + kArrivalHeader, bytes);
  part.size_bytes += size;
}

// Takes the next free number. Another process can have the same share of the work.
void Arrivals::begin_part() {
  for (;; ++next_) {
    std::string path = join_path(directory_, fmt::format("{}.{:04}", name_, next_));
    const sys::Descriptor made(
        sys::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, sys::kFileMode));
    if (made.get() < 0 && errno == EEXIST) continue;
    if (made.get() < 0) throw sys::failure("create", path, errno);
    out_.emplace(path);
    parts_.push_back({std::move(path), 0});
    return;
  }
}

std::uint64_t Arrivals::total_bytes() const noexcept {
  std::uint64_t out = 0;
  for (const Part& part : parts_) out += part.size_bytes;
  return out;
}

void Arrivals::remove_oldest() {
  remove_tree(parts_.front().path);
  parts_.erase(parts_.begin());
}

void Arrivals::remove() noexcept {
  const std::lock_guard lock(mutex_);
  remove_parts();
}

void Arrivals::remove_parts() noexcept {
  stopped_ = true;
  out_.reset();
  try {
    while (!parts_.empty()) remove_oldest();
  } catch (const std::exception&) {  // publishing removes the directory, or says why it can't
    return;
  }
}

}  // namespace hfshard
