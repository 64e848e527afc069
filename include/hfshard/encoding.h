#pragma once

namespace hfshard {

/// How chunks are encoded.
struct Encoding {
  bool checksum = true;  ///< crc32c behind every cell
  int zstd_level = 0;    ///< 1 to 22; 0: not compressed
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

}  // namespace hfshard
