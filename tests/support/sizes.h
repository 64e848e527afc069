#pragma once

#include <cstdint>

namespace hfshard {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace hfshard
