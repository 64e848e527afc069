#pragma once

#include <type_traits>

#include "base/cpu.h"

// Markers for functions that use an instruction set beyond the compiler's target.
#if defined(__x86_64__)
#define HFSHARD_AVX2 __attribute__((target("avx2")))
#define HFSHARD_AVX512_SETS "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi"
// clang 14 ignores the whole attribute if it doesn't know one word.
#if defined(__clang__)
#define HFSHARD_AVX512 __attribute__((target(HFSHARD_AVX512_SETS)))
#else
#define HFSHARD_AVX512 __attribute__((target(HFSHARD_AVX512_SETS ",prefer-vector-width=512")))
#endif
#endif

namespace hfshard {

template <Simd kLevel>
using SimdLevel = std::integral_constant<Simd, kLevel>;

#if defined(__x86_64__)
/// Compiles everything that `work` calls, if it can be inlined, for one instruction set.
template <typename Work>
HFSHARD_AVX2 __attribute__((flatten)) void run_as_avx2(const Work& work) {
  work(SimdLevel<Simd::avx2>{});
}

template <typename Work>
HFSHARD_AVX512 __attribute__((flatten)) void run_as_avx512(const Work& work) {
  work(SimdLevel<Simd::avx512>{});
}
#endif

/// Calls `work(SimdLevel<level>)`, compiled for that level. The compiler vectorizes its loops over
/// a constant number of elements. All levels share one source, so they give the same bytes.
/// Operations aren't fused (-ffp-contract=off).
template <typename Work>
void run_as(Simd simd, const Work& work) {
#if defined(__x86_64__)
  if (simd == Simd::avx512) return run_as_avx512(work);
  if (simd == Simd::avx2) return run_as_avx2(work);
  if (simd == Simd::sse2) return work(SimdLevel<Simd::sse2>{});
#else
  static_cast<void>(simd);
#endif
  work(SimdLevel<Simd::portable>{});
}

}  // namespace hfshard
