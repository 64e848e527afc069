#include "run/engine/disk_space.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {

std::uint64_t staged_disk_bytes(const std::string& tree) {
  constexpr std::uint64_t kBlock = 512;  // the unit of st_blocks everywhere
  std::uint64_t out = 0;
  struct stat info = {};
  if (::lstat(tree.c_str(), &info) != 0) return 0;
  if (S_ISREG(info.st_mode))
    return info.st_nlink > 1 ? 0 : static_cast<std::uint64_t>(info.st_blocks) * kBlock;
  if (!S_ISDIR(info.st_mode)) return 0;
  for (const std::string& name : list_directory(tree))
    out += staged_disk_bytes(join_path(tree, name));
  return out;
}

std::uint64_t check_output_disk(const Plan& plan, const std::string& directory,
                                const std::string& tree, const Budget& budget,
                                std::uint64_t done_bytes) {
  const std::uint64_t whole = plan.is_packed() ? 0 : plan.totals().output_bytes;
  const std::uint64_t held = std::min(whole, std::max(done_bytes, staged_disk_bytes(tree)));
  const std::uint64_t output = whole - held + plan.model().object_bytes();
  const std::uint64_t scratch = scratch_disk_bytes(plan, budget);
  const std::uint64_t free = free_bytes(directory);
  if (free >= output + scratch) return free - output - scratch;
  const std::string also = scratch == 0 ? ""
                                        : fmt::format(", and {} during the run for unpacked arrays",
                                                      human_bytes(scratch));
  const std::string memory =
      scratch == 0 ? "" : ", raise --max-memory so that unpacked arrays need no disk,";
  const std::string lacks = human_bytes(output + scratch - free);
  throw Error(ErrorCode::limit, fmt::format("the output needs {} more{}, and the disk has {} free",
                                            human_bytes(output), also, human_bytes(free)))
      .in_file(directory)
      .hint(held == 0
                ? fmt::format("free {}{} or pass another output; hfshard has written nothing",
                              lacks, memory)
                : fmt::format(
                      "{} are already in staging: free {}{} and repeat the command with --resume",
                      human_bytes(held), lacks, memory));
}

void check_scratch_disk(const std::string& directory, std::uint64_t wanted_bytes) {
  if (wanted_bytes == 0) return;
  const std::uint64_t free = free_bytes(directory);
  if (free >= wanted_bytes) return;
  throw Error(ErrorCode::limit,
              fmt::format("unpacked arrays need {} during the run, and the disk has {} free",
                          human_bytes(wanted_bytes), human_bytes(free)))
      .in_file(directory)
      .hint(
          "set TMPDIR to a directory with enough space, or raise --max-memory so that they need no "
          "disk");
}

}  // namespace hfshard
