#include "catalog/format.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {

std::string FileLayout::step_directory(std::uint64_t step) const {
  return has_steps ? fmt::format("{}{:0{}}", step_prefix, step, step_digits) : std::string();
}

std::string FileLayout::data_file(std::uint32_t number, std::uint32_t files) const {
  if (files == 1 && !single_file.empty()) return single_file;
  if (data_count.empty()) return fmt::format("{}{:05}{}", data_prefix, number, data_suffix);
  return fmt::format("{}{:05}{}{:05}{}", data_prefix, number + 1, data_count, files, data_suffix);
}

std::uint64_t FileLayout::begin_bytes(std::uint64_t alignment) const noexcept {
  return round_up(std::uint64_t{leading.size()}, alignment);
}

const Found::Step& step_numbered(std::span<const Found::Step> steps, std::uint64_t number,
                                 const StorePath& place) {
  if (steps.empty()) {
    throw Error(ErrorCode::usage, "--step selects a step, but this isn't a directory of steps")
        .in_file(place.text());
  }
  const auto found = std::ranges::find(steps, number, &Found::Step::number);
  if (found != steps.end()) return *found;
  std::vector<std::string> numbers;
  numbers.reserve(steps.size());
  for (const Found::Step& step : steps) numbers.push_back(std::to_string(step.number));
  throw Error(ErrorCode::not_found, fmt::format("step {} doesn't exist", number))
      .in_file(place.text())
      .hint(there_are(numbers));
}

ArrayFiles Format::array_files(const std::vector<Leaf>& /*leaves*/,
                               std::span<const std::uint32_t> /*order*/,
                               std::uint64_t /*file_bytes*/) const {
  throw Error(ErrorCode::internal, "this format doesn't store whole arrays");
}

void Format::write_leading(const std::vector<Leaf>& /*leaves*/,
                           std::span<const std::uint32_t> /*in_file*/,
                           const ByteSink& /*sink*/) const {
  throw Error(ErrorCode::internal, "this format doesn't store whole arrays");
}

std::string Format::why_incomplete(const StorePath& /*step*/) const { return {}; }

Beside Format::beside(const StorePath& /*path*/, const Choice& /*choice*/) const { return {}; }

std::unique_ptr<Checkpoint> Format::open_one(const StorePath& path, const Choice& choice) const {
  check_choice(path, choice);
  return open(path);
}

void Format::check_choice(const StorePath& path, const Choice& choice) const {
  if (!choice.step && choice.items.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("a {} checkpoint has {}", name(), choice.step ? "no steps" : "no items"))
      .in_file(path.text());
}

}  // namespace hfshard
