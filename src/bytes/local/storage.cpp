#include "bytes/local/storage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <utility>

#include "bytes/local/syscalls.h"
#include <sys/stat.h>
#include <sys/vfs.h>

namespace hfshard {
namespace {

// Numbers of statfs(2). Source: linux include/uapi/linux/magic.h; Lustre, GPFS, BeeGFS and WekaFS
// from their own sources, as in coreutils src/stat.c.
constexpr std::pair<std::uint32_t, std::string_view> kNetworkFileSystems[] = {
    {0x6969, "nfs"},       {0x517b, "smb"},        {0xff534d42, "cifs"},   {0xfe534d42, "smb"},
    {0x65735546, "fuse"},  {0x01021997, "9p"},     {0x00c36400, "ceph"},   {0x0bd00bd0, "lustre"},
    {0x47504653, "gpfs"},  {0x19830326, "beegfs"}, {0x7461636f, "ocfs2"},  {0x5346414f, "afs"},
    {0x6b414653, "afs"},   {0x73757245, "coda"},   {0x01161970, "gfs2"},   {0x20030528, "orangefs"},
    {0xaad7aaea, "panfs"}, {0x6a656a63, "acfs"},   {0x786f4256, "vboxsf"}, {0xbacbacbc, "vmhgfs"},
};

// Empty for a local file system.
std::string_view network_name(const struct statfs& info) noexcept {
  const auto type = static_cast<std::uint32_t>(info.f_type);
  for (const auto& [number, name] : kNetworkFileSystems) {
    if (number == type) return name;
  }
  return {};
}

bool usable(std::uint64_t alignment) noexcept {
  return std::has_single_bit(alignment) && alignment <= kMaxAlignmentBytes;
}

}  // namespace

std::string_view to_string(IoMode mode) noexcept {
  constexpr std::array<std::string_view, 4> kNames{"auto", "direct", "buffered", "mmap"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::string_view network_file_system(int fd) noexcept {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 ? network_name(info) : std::string_view();
}

std::string_view network_file_system(const std::string& path) noexcept {
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 ? network_name(info) : std::string_view();
}

std::uint64_t direct_alignment(int fd, const std::string& path) noexcept {
  std::uint64_t alignment = 0;
  if (sys::direct_alignment(fd, path.c_str(), &alignment) == 0) {
    return usable(alignment) ? std::max<std::uint64_t>(alignment, 512) : 0;
  }
  alignas(kMaxAlignmentBytes) std::array<std::byte, kMaxAlignmentBytes> block{};
  for (const std::size_t size : {std::size_t{512}, block.size()}) {
    if (sys::pread(fd, block.data(), size, 0, path.c_str()) >= 0) return size;
  }
  return 0;
}

bool is_aligned(std::span<const std::byte> bytes, std::uint64_t alignment) noexcept {
  void* at = const_cast<std::byte*>(bytes.data());
  std::size_t room = bytes.size();
  return std::align(alignment, 0, at, room) == bytes.data();
}

bool mostly_cached(int fd, std::uint64_t size_bytes, const std::string& path) noexcept {
  std::uint64_t cached = 0;
  return sys::cached_bytes(fd, size_bytes, path.c_str(), &cached) == 0 && cached > size_bytes / 2;
}

void count_choice(std::vector<IoChoice>& choices, IoMode mode, std::string_view why) {
  for (IoChoice& choice : choices) {
    if (choice.mode == mode && choice.why == why) {
      ++choice.files;
      return;
    }
  }
  choices.push_back({mode, std::string(why), 1});
}

}  // namespace hfshard
