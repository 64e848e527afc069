#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard::format::orbax {

/// Returns the number below `n` that follows `value` in the order of decimal text: 0, 1, 10, 100,
/// 11, 2, ...
std::optional<std::uint64_t> next_decimal(std::uint64_t value, std::uint64_t n) noexcept;

/// Visits the coordinates of a chunk grid in the byte order of their keys (`c/10/0` before
/// `c/2/0`), without storing them. A scalar grid has one chunk; a grid with a zero count is empty.
/// It works axis by axis, since the separator sorts before the digits: `c/1/5` before `c/10/0`.
void for_each_chunk_by_key(const Shape& counts, const std::function<void(const Shape&)>& visit);

/// Returns whether every key of array `a` comes before every key of array `b`. Whole keys count:
/// `w.b/zarr.json` comes before `w/c/0`, so the slash matters. An array comes before those whose
/// names begin with its own and a slash, although their keys can mix.
bool array_before(std::string_view a, std::string_view b) noexcept;

}  // namespace hfshard::format::orbax
