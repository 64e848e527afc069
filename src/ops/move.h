#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "ops/index_map.h"

namespace hfshard {

/// Moves the elements of `map` from `src` to `dst`. An element has 1, 2, 4, 8 or 16 bytes. Base
/// offsets and steps are in elements of the two buffers. Buffers need no alignment and must not
/// overlap. Selects a kernel for the map (runs: memcpy; transpose: blocked, SIMD if present;
/// gather: element loop). `simd` doesn't change bytes. Thread-safe, allocates nothing. Every
/// touched offset must be inside the spans (checked once per call, HFSHARD_CHECK).
void move_elements(const IndexMap& map, std::size_t element_bytes, std::span<const std::byte> src,
                   std::span<std::byte> dst, Simd simd = best_simd());

}  // namespace hfshard
