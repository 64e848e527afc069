#pragma once

#include <array>
#include <cstdint>

namespace hfshard {

/// Instruction sets that loops are written for; each includes those before it. All of them give
/// the same bytes.
enum class Simd : std::uint8_t {
  portable,  ///< what the compiler makes of plain C++: SSE2 on x86-64, NEON on AArch64
  sse2,      ///< every x86-64
  avx2,
  avx512,  ///< F, BW, DQ, VL and VBMI: from Ice Lake and Zen 4 on
};

inline constexpr std::array<Simd, 4> kSimdLevels = {Simd::portable, Simd::sse2, Simd::avx2,
                                                    Simd::avx512};

/// The best that this processor and its system have; found once.
Simd best_simd() noexcept;

}  // namespace hfshard
