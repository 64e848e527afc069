// Walks the tensor between two maps from its largest step to its smallest. There, both maps are
// sums of digits, so a pair meets if first's sum = second's sum + delta.

#include "ops/compose.h"

#include <algorithm>
#include <span>

#include "ops/index_step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A digit, seen from the tensor in the middle.
struct Level {
  std::int64_t extent = 1;
  std::int64_t step = 1;   // in the middle, > 0
  std::int64_t other = 0;  // at the far end
};

// The digits of one map, by descending steps in the middle.
struct Levels {
  std::vector<Level> list;
  std::int64_t middle_base = 0;
  std::uint64_t far_base = 0;
};

Levels levels_of(const IndexMap& map, Side middle) {
  const bool at_target = middle == Side::target;
  Levels out;
  std::uint64_t base = at_target ? map.dst_base : map.src_base;
  out.far_base = at_target ? map.src_base : map.dst_base;
  for (const Digit& digit : map.digits) {
    Level level{static_cast<std::int64_t>(digit.extent),
                at_target ? digit.dst_step : digit.src_step,
                at_target ? digit.src_step : digit.dst_step};
    if (level.extent == 1 || level.step == 0) continue;
    if (level.step < 0) {
      base = advance(base, digit.extent - 1, level.step);
      out.far_base = advance(out.far_base, digit.extent - 1, level.other);
      level.step = -level.step;
      level.other = -level.other;
    }
    out.list.push_back(level);
  }
  out.middle_base = static_cast<std::int64_t>(base);
  std::ranges::stable_sort(out.list, std::ranges::greater{}, &Level::step);
  return out;
}

std::int64_t span_of(std::span<const Level> levels) noexcept {
  std::int64_t out = 0;
  for (const Level& level : levels) out += (level.extent - 1) * level.step;
  return out;
}

class Meeting {
 public:
  Meeting(IndexMap start, std::vector<IndexMap>& out)
      : part_(std::move(start)), out_(out), most_(out.size() + kMostComposed) {}

  void meet(std::span<const Level> first, std::span<const Level> second, std::int64_t delta) {
    if (delta > span_of(first) || -delta > span_of(second)) return;
    if (first.empty() && second.empty()) return emit();
    const std::int64_t a = first.empty() ? 0 : first.front().step;
    const std::int64_t b = second.empty() ? 0 : second.front().step;
    if (a == b)
      return together(first.front(), first.subspan(1), second.front(), second.subspan(1), delta);
    if (a > b) {
      if (b > 0 && splits(second.front(), a)) return split_second(first, second, delta);
      return together(first.front(), first.subspan(1), Level{1, a, 0}, second, delta);
    }
    if (a > 0 && splits(first.front(), b)) return split_first(first, second, delta);
    together(Level{1, b, 0}, first, second.front(), second.subspan(1), delta);
  }

 private:
  // Returns whether a digit walks over several larger steps, and meets each.
  static bool splits(const Level& level, std::int64_t step) noexcept {
    return step % level.step == 0 && level.extent > step / level.step;
  }

  // The part of a digit that fills whole steps, as two digits, and the rest.
  struct Split {
    Level outer;
    Level inner;
    std::int64_t whole = 0;  // indices that these two count
    Level rest;
  };
  static Split split(const Level& level, std::int64_t step) noexcept {
    const std::int64_t inside = step / level.step;
    const std::int64_t count = level.extent / inside;
    return {{count, step, level.other * inside},
            {inside, level.step, level.other},
            count * inside,
            {level.extent - count * inside, level.step, level.other}};
  }

  static std::vector<Level> with(std::initializer_list<Level> front, std::span<const Level> rest) {
    std::vector<Level> out(front);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }

  void split_first(std::span<const Level> first, std::span<const Level> second,
                   std::int64_t delta) {
    const Split parts = split(first.front(), second.front().step);
    meet(with({parts.outer, parts.inner}, first.subspan(1)), second, delta);
    if (parts.rest.extent == 0) return;
    const IndexMap kept = part_;
    part_.src_base =
        advance(part_.src_base, static_cast<std::uint64_t>(parts.whole), parts.rest.other);
    meet(with({parts.rest}, first.subspan(1)), second, delta - parts.whole * parts.rest.step);
    part_ = kept;
  }

  void split_second(std::span<const Level> first, std::span<const Level> second,
                    std::int64_t delta) {
    const Split parts = split(second.front(), first.front().step);
    meet(first, with({parts.outer, parts.inner}, second.subspan(1)), delta);
    if (parts.rest.extent == 0) return;
    const IndexMap kept = part_;
    part_.dst_base =
        advance(part_.dst_base, static_cast<std::uint64_t>(parts.whole), parts.rest.other);
    meet(first, with({parts.rest}, second.subspan(1)), delta + parts.whole * parts.rest.step);
    part_ = kept;
  }

  // Two digits of one step. Index i of the first meets j of the second if the faster digits make up
  // for the difference of i and j.
  void together(const Level& first, std::span<const Level> faster_first, const Level& second,
                std::span<const Level> faster_second, std::int64_t delta) {
    const std::int64_t step = first.step;
    const std::int64_t least =
        std::max(ceil_div_signed(delta - span_of(faster_first), step), -(second.extent - 1));
    const std::int64_t most =
        std::min(floor_div(delta + span_of(faster_second), step), first.extent - 1);
    for (std::int64_t ahead = least; ahead <= most; ++ahead) {
      const std::int64_t begin = std::max<std::int64_t>(0, -ahead);
      const std::int64_t end = std::min(second.extent, first.extent - ahead);
      if (begin >= end) continue;
      const IndexMap kept = part_;
      part_.src_base =
          advance(part_.src_base, static_cast<std::uint64_t>(begin + ahead), first.other);
      part_.dst_base = advance(part_.dst_base, static_cast<std::uint64_t>(begin), second.other);
      if (end - begin > 1) {
        part_.digits.push_back(
            {static_cast<std::uint64_t>(end - begin), first.other, second.other});
      }
      meet(faster_first, faster_second, delta - ahead * step);
      part_ = kept;
    }
  }

  void emit() {
    if (out_.size() == most_) {
      throw Error(ErrorCode::unsupported, "two rules split a tensor in incompatible ways");
    }
    out_.push_back(normalize(part_));
  }

  IndexMap part_;
  std::vector<IndexMap>& out_;
  std::size_t most_;
};

}  // namespace

void compose(const IndexMap& first, const IndexMap& second, std::vector<IndexMap>& out) {
  if (first.count() == 0 || second.count() == 0) return;
  const Levels a = levels_of(first, Side::target);
  const Levels b = levels_of(second, Side::source);
  IndexMap start{.src_base = a.far_base, .dst_base = b.far_base, .digits = {}};
  for (const Digit& digit : second.digits) {  // reads the same element several times
    if (digit.src_step == 0 && digit.extent > 1)
      start.digits.push_back({digit.extent, 0, digit.dst_step});
  }
  Meeting(std::move(start), out).meet(a.list, b.list, b.middle_base - a.middle_base);
}

}  // namespace hfshard
