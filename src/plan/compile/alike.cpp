#include "plan/compile/alike.h"

#include <algorithm>

namespace hfshard {
namespace {

class LoopCutter {
 public:
  LoopCutter(std::span<const ResolvedLoop> loops, std::span<const std::uint32_t> kinds)
      : loops_(loops), kinds_(kinds), counts_(loops.size() + 1, 1) {
    for (std::size_t k = loops.size(); k-- > 0;) counts_[k] = counts_[k + 1] * loops[k].extent;
  }

  std::vector<AlikeSources> cut() && {
    if (are_alike(0, kinds_.size())) {
      add(0, 0, 0, loops_.empty() ? 1 : loops_[0].extent);
    } else {
      cut(0, 0, 0);
    }
    return std::move(out_);
  }

 private:
  bool are_alike(std::uint64_t first, std::uint64_t count) const {
    const auto part = kinds_.subspan(first, count);
    return std::ranges::all_of(part, [&](std::uint32_t kind) { return kind == part.front(); });
  }

  // Cuts the loops from `level` on. Their first source is `first`, at `offset` in the leaf.
  void cut(std::size_t level, std::uint64_t first, std::uint64_t offset) {
    const std::uint64_t inner = counts_[level + 1];
    const std::uint64_t extent = loops_[level].extent;
    for (std::uint64_t i = 0; i < extent;) {
      const std::uint64_t begin = first + i * inner;
      const std::uint64_t place = offset + i * loops_[level].target_step;
      if (!are_alike(begin, inner)) {
        cut(level + 1, begin, place);
        ++i;
        continue;
      }
      std::uint64_t run = 1;
      while (i + run < extent && kinds_[begin + run * inner] == kinds_[begin] &&
             are_alike(begin + run * inner, inner))
        ++run;
      add(level, begin, place, run);
      i += run;
    }
  }

  void add(std::size_t level, std::uint64_t first, std::uint64_t offset, std::uint64_t run) {
    AlikeSources out;
    out.offset = offset;
    out.first = first;
    out.count = level < loops_.size() ? run * counts_[level + 1] : 1;
    for (std::size_t k = level; k < loops_.size(); ++k) {
      out.loops.push_back(
          {k == level ? run : loops_[k].extent, static_cast<std::int64_t>(loops_[k].target_step)});
    }
    out_.push_back(std::move(out));
  }

  std::span<const ResolvedLoop> loops_;
  std::span<const std::uint32_t> kinds_;
  std::vector<std::uint64_t> counts_;  // sources of the loops from each on
  std::vector<AlikeSources> out_;
};

}  // namespace

std::vector<AlikeSources> alike_sources(std::span<const ResolvedLoop> loops,
                                        std::span<const std::uint32_t> kinds) {
  return LoopCutter(loops, kinds).cut();
}

}  // namespace hfshard
