#pragma once

#include <random>
#include <string>
#include <string_view>

#include "support/torch_checkpoint.h"
#include "support/zstd_frames.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {

inline std::string noise_of(std::size_t size, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

/// Returns one frame that doesn't state its content's size, as torch writes it.
inline std::string packed(std::string_view content) { return zstd_frame(content, {3, 0, false}); }

/// Returns the archive with bytes changed at a distance from the first `mark`.
inline std::string altered(std::string archive, std::string_view mark, std::size_t at,
                           std::string_view bytes) {
  const std::size_t found = archive.find(mark);
  HFSHARD_CHECK(found != std::string::npos);
  return archive.replace(found + at, bytes.size(), bytes);
}

inline std::string u8_archive(const std::string& elements) {
  return torch_archive(DType::u8, {elements.size()}, elements);
}

}  // namespace hfshard::format::dcp
