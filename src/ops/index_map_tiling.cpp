// Proves that maps tile one side exactly.
//
// 1. Each map becomes a piece: one side's base and (extent, step) digits, merged. Checks range and
//    zero steps.
// 2. Sorts pieces by base and groups those whose envelopes overlap. Gaps between groups are holes.
// 3. If all steps of a group are 1, its pieces are plain runs, so more than one of them overlap.
//    Otherwise its largest step R cuts it into rows. A piece is an interval of rows times a pattern
//    in one row. Runs that cross rows are cut there.
// 4. Rows with the same active pieces are alike. The patterns of each such interval must tile one
//    row, which is the same question with smaller steps.
//
// The cost depends on the number of pieces and steps, not on extents. If an irregular structure
// exceeds the budget of cuts, elements are counted one by one if there are few.

#include <algorithm>
#include <limits>
#include <optional>

#include "base/checked.h"
#include "ops/index_map.h"
#include "ops/index_step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kMaxCuts = std::uint64_t{1} << 18;
constexpr std::uint64_t kMaxEnumerated = std::uint64_t{1} << 20;

/// Returns the largest offset minus the base of a piece (steps >= 0). Empty on overflow.
std::optional<std::uint64_t> span_of(const DigitList& digits) noexcept {
  std::uint64_t span = 0;
  for (const Digit& digit : digits) {
    const auto reach = checked_mul(digit.extent - 1, static_cast<std::uint64_t>(digit.dst_step));
    if (!reach || __builtin_add_overflow(span, *reach, &span)) return std::nullopt;
  }
  return span;
}

/// Requires that the piece's span doesn't overflow.
std::uint64_t last_of(const IndexMap& piece) noexcept {
  return piece.dst_base + span_of(piece.digits).value_or(0);
}

/// Returns one side of a map as the target side, with source steps of 0.
IndexMap one_side(const IndexMap& map, Side side) {
  IndexMap out{
      .src_base = 0, .dst_base = side == Side::target ? map.dst_base : map.src_base, .digits = {}};
  for (const Digit& digit : map.digits) {
    out.digits.push_back({digit.extent, 0, side == Side::target ? digit.dst_step : digit.src_step});
  }
  return normalize(out);
}

/// Returns how often a piece covers an element of a tensor with `numel` elements.
std::uint64_t times_covered(const IndexMap& piece, std::uint64_t numel, std::uint64_t element) {
  std::vector<IndexMap> parts;
  restrict_to(piece, Shape{numel}, Box{Shape{element}, Shape{1}}, parts);
  std::uint64_t times = 0;
  for (const IndexMap& part : parts) times += part.count();
  return times;
}

/// Finds an element that isn't covered exactly once.
class Search {
 public:
  /// Returns such an element of [0, length), if any. Pieces must be inside, without zero extents or
  /// steps.
  std::optional<std::uint64_t> find(std::uint64_t length, std::vector<IndexMap> pieces);
  /// Returns whether the budget ran out. Then the absence of a fault proves nothing.
  bool gave_up() const noexcept { return cuts_ > kMaxCuts; }

 private:
  /// Rows [begin, end), each covered by the pattern (offsets in the row).
  struct Strip {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    IndexMap pattern;
  };

  std::optional<std::uint64_t> find_in_group(std::uint64_t length, std::span<IndexMap> pieces);
  std::optional<std::uint64_t> find_in_rows(std::uint64_t length, std::uint64_t row,
                                            std::vector<Strip> strips);
  void cut_into_bands(const IndexMap& piece, std::uint64_t length, std::uint64_t row,
                      std::vector<Strip>& out);
  void cut_rows(const IndexMap& pattern, std::uint64_t length, std::uint64_t row,
                std::uint64_t extent, std::uint64_t repeat, std::vector<Strip>& out);

  std::uint64_t cuts_ = 0;
};

std::optional<std::uint64_t> Search::find(std::uint64_t length, std::vector<IndexMap> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const IndexMap& a, const IndexMap& b) { return a.dst_base < b.dst_base; });
  std::uint64_t cursor = 0;
  for (std::size_t i = 0; i < pieces.size();) {
    if (pieces[i].dst_base > cursor) return cursor;
    std::uint64_t end = last_of(pieces[i]) + 1;
    std::size_t j = i + 1;
    for (; j < pieces.size() && pieces[j].dst_base < end; ++j) {
      end = std::max(end, last_of(pieces[j]) + 1);
    }
    const std::span<IndexMap> group(pieces.data() + i, j - i);
    for (IndexMap& piece : group) piece.dst_base -= cursor;
    if (const auto fault = find_in_group(end - cursor, group)) return cursor + *fault;
    if (gave_up()) return std::nullopt;
    cursor = end;
    i = j;
  }
  if (cursor < length) return cursor;
  return std::nullopt;
}

std::optional<std::uint64_t> Search::find_in_group(std::uint64_t length,
                                                   std::span<IndexMap> pieces) {
  std::int64_t row = 1;
  for (const IndexMap& piece : pieces) {
    for (const Digit& digit : piece.digits) row = std::max(row, digit.dst_step);
  }
  if (row == 1) {
    for (const IndexMap& piece : pieces) {
      if (piece.digits.size() > 1) return piece.dst_base + 1;
    }
    if (pieces.size() == 1) return std::nullopt;
    return pieces[1].dst_base;
  }
  std::vector<Strip> strips;
  strips.reserve(pieces.size());
  for (const IndexMap& piece : pieces) {
    cut_into_bands(piece, length, static_cast<std::uint64_t>(row), strips);
    if (gave_up()) return std::nullopt;
  }
  return find_in_rows(length, static_cast<std::uint64_t>(row), std::move(strips));
}

std::optional<std::uint64_t> Search::find_in_rows(std::uint64_t length, std::uint64_t row,
                                                  std::vector<Strip> strips) {
  const std::uint64_t whole_rows = length / row;
  std::vector<std::uint64_t> breaks{0, whole_rows};
  if (length % row != 0) breaks.push_back(whole_rows + 1);
  for (const Strip& strip : strips) {
    breaks.push_back(strip.begin);
    breaks.push_back(strip.end);
  }
  std::sort(breaks.begin(), breaks.end());
  breaks.erase(std::unique(breaks.begin(), breaks.end()), breaks.end());
  std::sort(strips.begin(), strips.end(),
            [](const Strip& a, const Strip& b) { return a.begin < b.begin; });
  std::size_t next = 0;
  std::vector<std::size_t> active;
  for (std::size_t b = 0; b + 1 < breaks.size(); ++b) {
    std::erase_if(active, [&](std::size_t i) { return strips[i].end <= breaks[b]; });
    for (; next < strips.size() && strips[next].begin == breaks[b]; ++next) active.push_back(next);
    std::vector<IndexMap> patterns;
    patterns.reserve(active.size());
    for (const std::size_t i : active) patterns.push_back(strips[i].pattern);
    const std::uint64_t row_length = breaks[b] == whole_rows ? length % row : row;
    if (const auto fault = find(row_length, std::move(patterns))) return breaks[b] * row + *fault;
    if (gave_up()) return std::nullopt;
  }
  return std::nullopt;
}

/// Separates the digits with step `row` from the pattern that they repeat.
void Search::cut_into_bands(const IndexMap& piece, std::uint64_t length, std::uint64_t row,
                            std::vector<Strip>& out) {
  IndexMap pattern{.src_base = 0, .dst_base = piece.dst_base, .digits = {}};
  std::uint64_t extent = 1;
  std::uint64_t repeat = 1;  // by equal steps, which overlap
  for (const Digit& digit : piece.digits) {
    if (static_cast<std::uint64_t>(digit.dst_step) != row) {
      pattern.digits.push_back(digit);
    } else if (extent == 1) {
      extent = digit.extent;
    } else {
      repeat *= digit.extent;
    }
  }
  cut_rows(pattern, length, row, extent, repeat, out);
}

/// Cuts a pattern, repeated over `extent` rows, at row ends. Rows in the middle of a long periodic
/// pattern are alike and become one strip.
void Search::cut_rows(const IndexMap& pattern, std::uint64_t length, std::uint64_t row,
                      std::uint64_t extent, std::uint64_t repeat, std::vector<Strip>& out) {
  const std::uint64_t first = pattern.dst_base / row;
  const std::uint64_t last = last_of(pattern) / row;
  // In rows [alike_begin, alike_end), the slowest digit isn't clipped and its step divides the row.
  std::uint64_t alike_begin = 0;
  std::uint64_t alike_end = 0;
  if (!pattern.digits.empty() && extent == 1 && repeat == 1) {
    const Digit& digit = pattern.digits[0];
    const auto step = static_cast<std::uint64_t>(digit.dst_step);
    const std::uint64_t inner = last_of(pattern) - pattern.dst_base - (digit.extent - 1) * step;
    if (row % step == 0) {
      const std::uint64_t before = pattern.dst_base + inner + 1;  // plus step: one past i == -1
      alike_begin = before <= step ? first : ceil_div(before - step, row);
      alike_end = (pattern.dst_base + digit.extent * step) / row;
    }
  }
  for (std::uint64_t r = first; r <= last && !gave_up(); ++r) {
    const bool alike = r >= alike_begin && r < alike_end;
    const std::uint64_t rows = alike ? alike_end - r : extent;
    std::vector<IndexMap> parts;
    if (first == last) {
      parts.push_back(pattern);
    } else {
      ++cuts_;
      restrict_to(pattern, Shape{length}, Box{Shape{r * row}, Shape{row}}, parts);
    }
    for (IndexMap& part : parts) {
      part.dst_base -= r * row;
      // A second digit with the same step overlaps in the second row at the latest, so two strips
      // suffice.
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(repeat, 2); ++i) {
        out.push_back(Strip{r + i, r + i + rows, normalize(part)});
      }
    }
    if (alike) r = alike_end - 1;
  }
}

/// Counts every element. `pieces` must be inside [0, numel).
std::optional<std::uint64_t> find_by_counting(std::uint64_t numel,
                                              std::span<const IndexMap> pieces) {
  std::vector<std::uint8_t> times(numel, 0);
  for (const IndexMap& piece : pieces) {
    std::array<std::uint64_t, DigitList::kMax> index{};
    std::uint64_t at = piece.dst_base;
    for (std::size_t k = 0; k < DigitList::kMax;) {
      if (times[at] == 1) return at;
      ++times[at];
      for (k = 0; k < piece.digits.size(); ++k) {
        const Digit& digit = piece.digits[k];
        at = advance(at, 1, digit.dst_step);
        if (++index[k] < digit.extent) break;
        at = advance(at, 0 - digit.extent, digit.dst_step);
        index[k] = 0;
      }
      if (k == piece.digits.size()) break;
    }
  }
  const auto hole = std::find(times.begin(), times.end(), 0);
  if (hole == times.end()) return std::nullopt;
  return static_cast<std::uint64_t>(hole - times.begin());
}

/// Returns whether all offsets of a piece are below `numel`. Sets `last` to the largest
/// (saturated).
bool stays_below(std::uint64_t numel, const IndexMap& piece, std::uint64_t& last) noexcept {
  const auto span = span_of(piece.digits);
  const auto end = span ? checked_add(piece.dst_base, *span) : std::nullopt;
  last = end.value_or(std::numeric_limits<std::uint64_t>::max());
  return last < numel;
}

/// Returns an element that a zero step visits several times.
std::optional<std::uint64_t> find_zero_step(std::span<const IndexMap> pieces) noexcept {
  for (const IndexMap& piece : pieces) {
    for (const Digit& digit : piece.digits) {
      if (digit.dst_step == 0) return piece.dst_base;
    }
  }
  return std::nullopt;
}

}  // namespace

TilingFault tiles_exactly(std::uint64_t numel, std::span<const IndexMap> maps, Side side) {
  std::vector<IndexMap> pieces;
  std::vector<std::size_t> owners;
  pieces.reserve(maps.size());
  owners.reserve(maps.size());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (maps[i].count() == 0) continue;
    pieces.push_back(one_side(maps[i], side));
    owners.push_back(i);
    std::uint64_t last = 0;
    if (!stays_below(numel, pieces.back(), last)) {
      return {.found = true, .element = last, .times = 1, .map_index = i};
    }
  }
  auto element = find_zero_step(pieces);
  Search search;
  if (!element) element = search.find(numel, pieces);
  if (!element && search.gave_up()) {
    if (numel >= kMaxEnumerated) {
      return {.found = true, .element = numel, .times = 0, .map_index = 0};
    }
    element = find_by_counting(numel, pieces);
  }
  if (!element) return {};
  TilingFault fault{.found = true, .element = *element, .times = 0, .map_index = 0};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t times = times_covered(pieces[i], numel, *element);
    if (times > 0 && fault.times == 0) fault.map_index = owners[i];
    fault.times += times;
  }
  HFSHARD_CHECK(fault.times != 1);
  return fault;
}

}  // namespace hfshard
