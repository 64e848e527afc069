#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard::format::orbax {

/// The number below `n` that follows `value` when numbers are sorted as decimal text: 0, 1, 10,
/// 100, 11, 2, ...
std::optional<std::uint64_t> next_decimal(std::uint64_t value, std::uint64_t n) noexcept;

/// Visits the coordinates of a chunk grid in the byte order of their keys (`c/10/0` before
/// `c/2/0`), none held. A scalar grid has one chunk; a grid with a zero count has none. It works
/// axis by axis, since the separator sorts before the digits: `c/1/5` before `c/10/0`.
void for_each_chunk_by_key(const Shape& counts, const std::function<void(const Shape&)>& visit);

/// True if every key of array `a` comes before every key of array `b`. Keys are sorted whole:
/// `w.b/zarr.json` comes before `w/c/0`, so the slash takes part.
bool array_before(std::string_view a, std::string_view b) noexcept;

}  // namespace hfshard::format::orbax
