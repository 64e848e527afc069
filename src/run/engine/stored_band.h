#pragma once

#include <cstdint>

#include "base/checked.h"
#include "plan/layout/band.h"

#include "hfshard/error.h"

namespace hfshard {

/// The elements of a band. For packed codes, includes those that share its first and last byte.
struct StoredBand {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  ByteRange file;  ///< their place
};

/// `begin_bytes` is the array's in its file. `bits` is the size of a stored element.
inline StoredBand stored_band(const Band& band, std::uint64_t begin_bytes, std::uint64_t bits) {
  const std::uint64_t per_byte = bits < 8 ? 8 / bits : 1;
  StoredBand out;
  out.begin = band.begin / per_byte * per_byte;
  out.length = round_up(band.begin + band.length, per_byte) - out.begin;
  out.file.begin = begin_bytes + out.begin * bits / 8;
  out.file.end = out.file.begin + out.length * bits / 8;
  return out;
}

}  // namespace hfshard
