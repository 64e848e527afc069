#include "format/torch/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace hfshard::format::torch {
namespace {

// The least share of a window's bytes that must be needed: one in so many. Over a network any
// window is read, since each request takes time.
constexpr std::uint64_t kSparsest = 8;

// Drops axes of one element and merges neighbors that step like one axis. Axes that repeat an
// element (a step of 0) are outermost.
std::vector<CopyAxis> simplified(std::vector<CopyAxis> axes) {
  std::erase_if(axes, [](const CopyAxis& axis) { return axis.count == 1; });
  std::ranges::stable_sort(axes, [](const CopyAxis& a, const CopyAxis& b) {
    if (a.from_step == 0 || b.from_step == 0) return a.from_step == 0 && b.from_step != 0;
    return a.from_step > b.from_step;
  });
  std::vector<CopyAxis> out;
  for (const CopyAxis& axis : axes) {
    if (!out.empty() && out.back().from_step == axis.from_step * axis.count &&
        out.back().to_step == axis.to_step * axis.count) {
      out.back() = {out.back().count * axis.count, axis.from_step, axis.to_step};
    } else {
      out.push_back(axis);
    }
  }
  if (out.empty() || out.back().from_step != 1 || out.back().to_step != 1) out.push_back({1, 1, 1});
  return out;
}

void copy_run(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  switch (bytes) {  // element sizes, as single moves
    case 1:
      *to = *from;
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

class Copy {
 public:
  Copy(const Source& file, bool is_far, std::vector<CopyAxis> axes, std::span<std::byte> out)
      : file_(file), axes_(simplified(std::move(axes))), out_(out) {
    choose_window(is_far);
    if (level_ + 1 < axes_.size())
      window_ = std::make_unique_for_overwrite<std::byte[]>(span_of(level_, steps_));
  }

  void run(std::uint64_t from) { walk(0, from, 0); }

 private:
  // Returns the bytes from the first to the last of `count` steps of an axis.
  std::uint64_t span_of(std::size_t level, std::uint64_t count) const {
    std::uint64_t out = 1 + (count - 1) * axes_[level].from_step;
    for (std::size_t k = level + 1; k < axes_.size(); ++k)
      out += (axes_[k].count - 1) * axes_[k].from_step;
    return out;
  }

  // The last axis is a run. A window includes as many outer axes as are dense enough. On its
  // outermost axis it includes as many steps as fit.
  void choose_window(bool is_far) {
    level_ = axes_.size() - 1;
    steps_ = axes_[level_].count;
    std::uint64_t wanted = steps_;
    while (level_ > 0 && steps_ == axes_[level_].count && axes_[level_ - 1].from_step != 0) {
      const std::uint64_t below = span_of(level_, steps_);
      const CopyAxis& next = axes_[level_ - 1];
      if (below >= kWindowBytes) return;
      const std::uint64_t fit = std::min(next.count, (kWindowBytes - below) / next.from_step + 1);
      if (fit < 2 || (!is_far && next.from_step / kSparsest > wanted)) return;
      --level_;
      steps_ = fit;
      wanted *= fit;
    }
  }

  void walk(std::size_t level, std::uint64_t from, std::uint64_t to) {
    const CopyAxis& axis = axes_[level];
    if (level == level_) return walk_windows(from, to);
    for (std::uint64_t i = 0; i < axis.count; ++i)
      walk(level + 1, from + i * axis.from_step, to + i * axis.to_step);
  }

  void walk_windows(std::uint64_t from, std::uint64_t to) {
    const CopyAxis& axis = axes_[level_];
    if (!window_) return file_.read_at(from, out_.subspan(to, axis.count));
    for (std::uint64_t at = 0; at < axis.count; at += steps_) {
      const std::uint64_t count = std::min(steps_, axis.count - at);
      const std::span<std::byte> window(window_.get(), span_of(level_, count));
      file_.read_at(from + at * axis.from_step, window);
      scatter(level_, count, window.data(), out_.data() + to + at * axis.to_step);
    }
  }

  void scatter(std::size_t level, std::uint64_t count, const std::byte* from, std::byte* to) const {
    const CopyAxis& axis = axes_[level];
    if (level + 2 == axes_.size()) {
      const std::uint64_t run = axes_[level + 1].count;
      for (std::uint64_t i = 0; i < count; ++i)
        copy_run(to + i * axis.to_step, from + i * axis.from_step, run);
      return;
    }
    for (std::uint64_t i = 0; i < count; ++i)
      scatter(level + 1, axes_[level + 1].count, from + i * axis.from_step, to + i * axis.to_step);
  }

  const Source& file_;
  const std::vector<CopyAxis> axes_;  // by file steps; the last contiguous
  const std::span<std::byte> out_;
  std::size_t level_ = 0;    // the outermost axis of a window
  std::uint64_t steps_ = 1;  // of it, per window
  std::unique_ptr<std::byte[]> window_;
};

}  // namespace

void copy_strided(const Source& file, bool is_far, std::uint64_t from, std::vector<CopyAxis> axes,
                  std::span<std::byte> out) {
  Copy(file, is_far, std::move(axes), out).run(from);
}

}  // namespace hfshard::format::torch
