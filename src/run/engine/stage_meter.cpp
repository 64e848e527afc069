#include "run/engine/stage_meter.h"

#include <algorithm>

namespace hfshard {

StageMeter::StageMeter(Reporter& reporter, unsigned threads,
                       const std::function<std::uint64_t()>& link_bytes)
    : reporter_(reporter), threads_(threads), is_far_(link_bytes != nullptr) {
  if (is_far_) reporter_.linked(link_bytes);
}

StageMeter::~StageMeter() {
  if (is_far_) reporter_.linked({});
}

double StageMeter::seconds(Busy what) const noexcept {
  constexpr double kPerSecond = 1e9;
  return static_cast<double>(ns_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed)) /
         kPerSecond;
}

StageTimes StageMeter::times() const {
  const double threads = std::max(threads_, 1U);
  const double read = seconds(Busy::read);
  StageTimes out;
  out.read_seconds = read / threads;
  // `apply` is loaded after `read`, so another thread can have added to it meanwhile.
  out.kernel_seconds = std::max(seconds(Busy::apply) - read, 0.0) / threads;
  out.write_seconds = seconds(Busy::store) / threads + seconds(Busy::in_order);
  return out;
}

void StageMeter::advanced(std::uint64_t bytes) {
  reporter_.timed(times());
  reporter_.advanced(bytes);
}

}  // namespace hfshard
