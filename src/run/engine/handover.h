#pragma once

// Hands an item from one pipeline filter to the next. oneTBB orders the two. The distribution's
// library isn't instrumented, so the thread sanitizer can't see that; these two calls tell it. They
// cost nothing in other builds, and hide nothing else. A race inside a filter, or on other state,
// is still reported (tests/unit/run/engine/handover_test.cpp plants one).

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace hfshard {

/// Called by the filter that gives `item` away, as its last action.
inline void hand_over([[maybe_unused]] void* item) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(item);
#endif
}

/// Called by the filter that receives `item`, as its first action.
inline void take_over([[maybe_unused]] void* item) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(item);
#endif
}

}  // namespace hfshard
