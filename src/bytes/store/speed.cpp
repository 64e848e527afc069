#include "bytes/store/speed.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <span>

#include "bytes/local/drop_behind.h"
#include "bytes/local/storage.h"
#include "bytes/local/syscalls.h"
#include <sys/stat.h>

namespace hfshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kPieces = kTrialBytes / kPieceBytes;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double rate(std::uint64_t bytes, Clock::time_point begin) {
  return static_cast<double>(bytes) / std::max(seconds_since(begin), 1e-9);
}

// Fills memory with pseudorandom numbers, which no file system can compress.
std::span<std::byte> fill(std::vector<std::byte>& memory) {
  std::uint64_t state = 1;
  for (std::byte& byte : memory) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  void* at = memory.data();
  std::size_t room = memory.size();
  HFSHARD_CHECK(std::align(kMaxAlignmentBytes, kPieceBytes, at, room) != nullptr);
  return std::span(memory).last(room).first(kPieceBytes);
}

sys::Descriptor open_unnamed(const std::string& directory) {
  constexpr int kFlags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  sys::Descriptor direct(sys::open(directory.c_str(), kFlags | O_DIRECT, sys::kFileMode));
  if (direct.get() >= 0 && direct_alignment(direct.get(), directory) != 0) return direct;
  sys::Descriptor buffered(sys::open(directory.c_str(), kFlags, sys::kFileMode));
  if (buffered.get() < 0) throw sys::failure("make a file without a name in", directory, errno);
  return buffered;
}

void write_piece(int fd, std::uint64_t offset, std::span<const std::byte> piece,
                 const std::string& directory) {
  while (!piece.empty()) {
    const ssize_t count =
        sys::pwrite(fd, piece.data(), piece.size(), static_cast<off_t>(offset), directory.c_str());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw sys::failure("write to a file in", directory, count < 0 ? errno : ENOSPC);
    offset += static_cast<std::uint64_t>(count);
    piece = piece.subspan(static_cast<std::size_t>(count));
  }
}

dev_t file_system_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw sys::failure("stat", path, errno);
  return info.st_dev;
}

}  // namespace

std::optional<Trial> try_reading(const StorePath& path, IoMode wanted) {
  const auto source = path.open_data(wanted, std::make_shared<DropBehind>(0));
  if (source->size_bytes() < kTrialBytes) return std::nullopt;
  Trial out;
  std::vector<std::byte> scratch(kPieceBytes + kViewSlackBytes);
  const Clock::time_point begin = Clock::now();
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < kPieces && (i == 0 || seconds_since(begin) < kTrialSeconds); ++i) {
    offsets.push_back((source->size_bytes() - kPieceBytes) / kPieces * i);
    const View view = source->view(offsets.back(), kPieceBytes, scratch);
    out.bytes.insert(out.bytes.end(), view.bytes().begin(), view.bytes().end());
    source->check_used(view, offsets.back(), kPieceBytes);
  }
  out.bytes_per_second = rate(out.bytes.size(), begin);
  for (const std::uint64_t offset : offsets) source->done_with(offset, kPieceBytes);
  source->done_with(0, 0);  // one more, so the last piece is dropped too
  return out;
}

double try_writing(const std::string& directory) {
  const sys::Descriptor file = open_unnamed(directory);
  std::vector<std::byte> memory(kPieceBytes + kMaxAlignmentBytes);
  const std::span<const std::byte> piece = fill(memory);
  const Clock::time_point begin = Clock::now();
  std::uint64_t written = 0;
  while (written < kTrialBytes && (written == 0 || seconds_since(begin) < kTrialSeconds)) {
    write_piece(file.get(), written, piece, directory);
    written += kPieceBytes;
  }
  if (sys::fdatasync(file.get(), directory.c_str()) != 0)
    throw sys::failure("sync a file in", directory, errno);
  return rate(written, begin);
}

bool on_one_file_system(const StorePath& one, const std::string& other) {
  const auto path = one.local_path();
  return path && file_system_of(*path) == file_system_of(other);
}

}  // namespace hfshard
