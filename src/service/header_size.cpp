#include "service/header_size.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::uint64_t kUsuallyEnoughMib = 512;  // as --help says

// In a header, a tensor takes about 60 bytes and its name. In a plan it takes more than 700 bytes
// and three times its name. The budget leaves a quarter of memory to plans (budget.h).
constexpr std::uint64_t kPlanBytesPerByte = 12;
// The same for tensors that are only inspected.
constexpr std::uint64_t kSeenBytesPerByte = 4;

// Returns the size of a file's header as the file states it. Returns 0 if it's invalid. Then the
// reader reports the error.
std::uint64_t header_bytes(const StorePath& path) {
  if (!path.is_file() || path.is_far()) return 0;
  const auto file = path.open();
  std::array<std::byte, 8> length{};
  if (file->size_bytes() < length.size()) return 0;
  file->read_at(0, length);
  const auto bytes = load_le<std::uint64_t>(length.data());
  return bytes <= file->size_bytes() ? bytes : 0;
}

std::uint64_t all_header_bytes(const StorePath& place) {
  if (!place.is_directory()) return place.name().ends_with(kSuffix) ? header_bytes(place) : 0;
  std::uint64_t out = 0;
  for (const std::string& name : place.list()) {
    if (name.ends_with(kSuffix)) out = checked_add(out, header_bytes(place / name)).value_or(out);
  }
  return out;
}

}  // namespace

void check_header_size(const StorePath& place, const PlanOptions& options, const RunOptions& run) {
  const std::uint64_t headers = all_header_bytes(place);
  const MappingOptions& mapping = options.mapping;
  const bool is_part =
      !mapping.include.empty() || !mapping.exclude.empty() || mapping.num_layers.has_value();
  const std::uint64_t least = headers * (is_part ? kSeenBytesPerByte : kPlanBytesPerByte);
  if (least <= run.max_memory_bytes) return;
  throw Error(
      ErrorCode::limit,
      fmt::format("--max-memory {} is too small: for headers of {}, a plan needs at least {}",
                  human_bytes(run.max_memory_bytes), human_bytes(headers), human_bytes(least)))
      .in_file(place.text())
      .hint(fmt::format("pass --max-memory {}MiB or more",
                        std::max(round_up(least, 1U << 20) >> 20, kUsuallyEnoughMib)));
}

}  // namespace hfshard
