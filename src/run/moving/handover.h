#pragma once

// The hand-over of an item from one pipeline filter to the next. oneTBB orders the two, but the
// distribution's library is not instrumented, so the thread sanitizer cannot see it; these two
// calls tell it. They cost nothing elsewhere and hide nothing else: a race inside a filter, or on
// state that is not handed over, is still reported (tests/unit/run/moving/handover_test.cpp plants
// one).

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace hfshard {

/// Called by the filter that gives `item` away, as its last act.
inline void hand_over([[maybe_unused]] void* item) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(item);
#endif
}

/// Called by the filter that receives `item`, as its first act.
inline void take_over([[maybe_unused]] void* item) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(item);
#endif
}

}  // namespace hfshard
