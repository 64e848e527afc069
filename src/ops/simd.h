#pragma once

#include <type_traits>

#include "base/cpu.h"

// Functions that use an instruction set beyond the compiler's target say so with one of these.
#if defined(__x86_64__)
#define HFSHARD_AVX2 __attribute__((target("avx2")))
#define HFSHARD_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,prefer-vector-width=512")))
#endif

namespace hfshard {

template <Simd kLevel>
using SimdLevel = std::integral_constant<Simd, kLevel>;

#if defined(__x86_64__)
/// Compiles everything that `work` calls, as far as it can be inlined, for one instruction set.
template <typename Work>
HFSHARD_AVX2 __attribute__((flatten)) void run_as_avx2(const Work& work) {
  work(SimdLevel<Simd::avx2>{});
}

template <typename Work>
HFSHARD_AVX512 __attribute__((flatten)) void run_as_avx512(const Work& work) {
  work(SimdLevel<Simd::avx512>{});
}
#endif

/// Calls `work(SimdLevel<level>)`, compiled for that level. Its loops over a constant number of
/// elements are vectorised by the compiler, from one source: that is why all levels give the same
/// bytes. There is no contraction to fused operations (-ffp-contract=off).
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
