#pragma once

#include <cstddef>
#include <span>

namespace hfshard {

/// Throws: corrupt, if a byte of elements of the dtype bool is neither 0 nor 1. TensorStore refuses
/// to read such arrays, and what C++ makes of them in torch isn't defined.
void check_bools(std::span<const std::byte> elements);

}  // namespace hfshard
