#include "format/orbax/key_order.h"

#include <algorithm>

namespace hfshard::format::orbax {

std::optional<std::uint64_t> next_decimal(std::uint64_t value, std::uint64_t n) noexcept {
  // Walks the tree of decimal prefixes: to the first child, else to the next sibling of the nearest
  // ancestor.
  if (value == 0) return n > 1 ? std::optional<std::uint64_t>(1) : std::nullopt;
  if (value <= (n - 1) / 10) return value * 10;
  while (value % 10 == 9 || value + 1 >= n) {
    value /= 10;
    if (value == 0) return std::nullopt;
  }
  return value + 1;
}

void for_each_chunk_by_key(const Shape& counts, const std::function<void(const Shape&)>& visit) {
  if (std::ranges::find(counts, std::uint64_t{0}) != counts.end()) return;
  Shape at = counts;
  for (std::size_t axis = 0; axis < at.rank(); ++axis) at[axis] = 0;
  while (true) {
    visit(at);
    std::size_t axis = at.rank();
    std::optional<std::uint64_t> next;
    while (axis > 0 && !next) {
      --axis;
      next = next_decimal(at[axis], counts[axis]);
      at[axis] = next.value_or(0);
    }
    if (!next) return;
  }
}

bool array_before(std::string_view a, std::string_view b) noexcept {
  if (a.ends_with('/')) a.remove_suffix(1);
  if (b.ends_with('/')) b.remove_suffix(1);
  const std::size_t shared = std::min(a.size(), b.size());
  const int order = a.substr(0, shared).compare(b.substr(0, shared));
  if (order != 0) return order < 0;
  if (a.size() == b.size()) return false;
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  if (a.size() < b.size()) return byte('/') <= byte(b[shared]);
  return byte(a[shared]) < byte('/');
}

}  // namespace hfshard::format::orbax
