#include "run/moving/disk_space.h"

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"

#include "hfshard/error.h"

namespace hfshard {

void check_output_disk(const Plan& plan, const std::string& directory, const Budget& budget,
                       std::uint64_t done_bytes) {
  const std::uint64_t output = plan.is_packed() ? 0 : plan.totals().output_bytes - done_bytes;
  const std::uint64_t scratch = scratch_disk_bytes(plan, budget);
  const std::uint64_t free = free_bytes(directory);
  if (free >= output + scratch) return;
  const std::string also =
      scratch == 0
          ? ""
          : fmt::format(", and {} for a while for arrays that are unpacked", human_bytes(scratch));
  throw Error(ErrorCode::limit,
              fmt::format("the output needs {} more{}, the file system has {} free",
                          human_bytes(output), also, human_bytes(free)))
      .in_file(directory)
      .hint(
          fmt::format("free some space{} or choose another output; nothing has been written",
                      scratch == 0 ? "" : ", give --max-memory more, where arrays need no disk,"));
}

void check_scratch_disk(const std::string& directory, std::uint64_t wanted_bytes) {
  if (wanted_bytes == 0) return;
  const std::uint64_t free = free_bytes(directory);
  if (free >= wanted_bytes) return;
  throw Error(
      ErrorCode::limit,
      fmt::format("arrays that are unpacked need {} for a while, the file system has {} free",
                  human_bytes(wanted_bytes), human_bytes(free)))
      .in_file(directory)
      .hint(
          "let TMPDIR name a directory with room, or give --max-memory more: there they need no "
          "disk");
}

}  // namespace hfshard
