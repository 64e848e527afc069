#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "ops/index_map.h"

namespace hfshard {

/// Moves the elements of `map` from `src` to `dst`. Element size is 1, 2, 4, 8 or 16 bytes; base
/// offsets and steps are in elements of the two buffers; buffers need no alignment and must not
/// overlap. Picks a kernel by the map (runs: memcpy; transpose: blocked, SIMD where present;
/// gather: element loop); `simd` changes no bytes. Thread-safe, allocates nothing. Every touched
/// offset must lie inside the spans (checked once per call, HFSHARD_CHECK).
void move_elements(const IndexMap& map, std::size_t element_bytes, std::span<const std::byte> src,
                   std::span<std::byte> dst, Simd simd = best_simd());

}  // namespace hfshard
