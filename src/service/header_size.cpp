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
#include "format/formats.h"
#include "service/step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::uint64_t kUsuallyEnoughMib = 512;  // as --help says for usual headers

// In a header, a tensor takes about 60 bytes and its name. In a plan it takes more than 700 bytes
// and three times its name. The budget leaves a quarter of memory to plans (budget.h).
constexpr std::uint64_t kPlanBytesPerByte = 12;
// The same for tensors that are only inspected, and for a tree, whose metadata hold more than its
// tensors.
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

// Returns the size of a file that a tree's reader parses whole, or 0 without such a file.
std::uint64_t metadata_bytes(const StorePath& path) {
  return path.is_file() && !path.is_far() ? path.open()->size_bytes() : 0;
}

struct HeaderBytes {
  std::uint64_t headers = 0;   // of safetensors files
  std::uint64_t metadata = 0;  // of a tree
};

void add_header_bytes(const StorePath& place, HeaderBytes& out) {
  const auto add = [](std::uint64_t bytes, std::uint64_t& to) {
    to = checked_add(to, bytes).value_or(to);
  };
  if (!place.is_directory()) {
    if (place.name().ends_with(kSuffix)) add(header_bytes(place), out.headers);
    return;
  }
  for (const std::string& name : place.list()) {
    if (name.ends_with(kSuffix)) add(header_bytes(place / name), out.headers);
  }
  for (const Format* format : all_formats())
    for (const StorePath& file : format->parsed_files(place))
      add(metadata_bytes(file), out.metadata);
}

}  // namespace

void check_header_size(const StorePath& place, const PlanOptions& options, const RunOptions& run) {
  const MappingOptions& mapping = options.mapping;
  const bool is_part =
      !mapping.include.empty() || !mapping.exclude.empty() || mapping.num_layers.has_value();
  const bool is_tree = !options.link && !is_model_place(place);
  StorePath read = is_tree ? read_step(place, options.tree.step).place : place;
  if (is_tree && !options.tree.items.empty()) read = read / options.tree.items;
  check_header_size(std::span(&read, 1), is_part, run);
}

void check_header_size(std::span<const StorePath> places, bool only_seen, const RunOptions& run) {
  HeaderBytes found;
  for (const StorePath& place : places) add_header_bytes(place, found);
  const std::uint64_t least = found.headers * (only_seen ? kSeenBytesPerByte : kPlanBytesPerByte) +
                              found.metadata * kSeenBytesPerByte;
  if (least <= run.max_memory_bytes) return;
  throw Error(
      ErrorCode::limit,
      fmt::format("--max-memory {} is too small: for headers of {}, a plan needs at least {}",
                  human_bytes(run.max_memory_bytes), human_bytes(found.headers + found.metadata),
                  human_bytes(least)))
      .in_file(places.front().text())
      .hint(fmt::format("pass --max-memory {}MiB or more",
                        std::max(round_up(least, 1U << 20) >> 20, kUsuallyEnoughMib)));
}

}  // namespace hfshard
