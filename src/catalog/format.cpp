#include "catalog/format.h"

#include <fmt/format.h>

#include "base/checked.h"

namespace hfshard {

std::string FileLayout::step_directory(std::uint64_t step) const {
  return step_prefix + std::to_string(step);
}

std::string FileLayout::data_file(std::uint32_t number) const {
  return fmt::format("{}{:05}{}", data_prefix, number, data_suffix);
}

std::uint64_t FileLayout::begin_bytes(std::uint64_t alignment) const noexcept {
  return round_up(std::uint64_t{leading.size()}, alignment);
}

}  // namespace hfshard
