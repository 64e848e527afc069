#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bytes/local/source.h"

namespace hfshard::format::torch {

/// One axis of a box of bytes that is copied from a file to memory. Steps are in bytes.
struct CopyAxis {
  std::uint64_t count = 1;
  std::uint64_t from_step = 0;
  std::uint64_t to_step = 0;
};

/// Copies a box. Its first byte is at `from` in the file and at the front of `out`. Reads runs of
/// the file, or windows of at most kWindowBytes with enough needed bytes. It allocates one window
/// at most. Throws: as Source::read_at.
void copy_strided(const Source& file, bool is_far, std::uint64_t from, std::vector<CopyAxis> axes,
                  std::span<std::byte> out);

inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;

}  // namespace hfshard::format::torch
