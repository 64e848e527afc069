#include "base/cpu.h"

namespace hfshard {
namespace {

// With the address sanitizer, g++ 12 doesn't align 64-byte variables (gcc.gnu.org bug 110027).
// Vector stores to them fault.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSoundStack = false;
#else
constexpr bool kSoundStack = true;
#endif

Simd find() noexcept {
#if defined(__x86_64__)
  if (kSoundStack && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi")) {
    return Simd::avx512;
  }
  if (__builtin_cpu_supports("avx2")) return Simd::avx2;
  return Simd::sse2;
#else
  return Simd::portable;
#endif
}

}  // namespace

Simd best_simd() noexcept {
  static const Simd kBest = find();
  return kBest;
}

}  // namespace hfshard
