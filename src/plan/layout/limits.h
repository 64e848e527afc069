#pragma once

#include <cstdint>

namespace hfshard {

/// Every size that shapes the output or the run and is not an option (design.md 6). Constants for
/// users; tests shrink them so that tiny fixtures have many chunks, tiles and files. The first
/// block affects bytes and enters the plan id.
struct Limits {
  std::uint64_t floor_bytes = std::uint64_t{1} << 20;  ///< leaves up to this are one chunk
  std::uint64_t fan_bytes = std::uint64_t{128} << 20;  ///< bound on fan x chunk
  std::uint64_t fan_small_bytes =
      std::uint64_t{256} << 20;  ///< same, where fan_bytes would force chunks below the floor
  std::uint64_t slab_bytes = std::uint64_t{256} << 20;  ///< largest unit (closed group of chunks)
  std::uint64_t run_bytes = std::uint64_t{64}
                            << 10;  ///< shortest contiguous source run worth reading
  std::uint64_t file_min_bytes = std::uint64_t{256}
                                 << 20;  ///< data files: total / file_share within min .. max
  std::uint64_t file_max_bytes = std::uint64_t{2} << 30;
  std::uint64_t file_share = 64;
  std::uint64_t outer_shards = 32;  ///< beyond these, inner chunks follow the mesh
  /// Every chunk starts at a multiple, unless the format says of which.
  std::uint64_t alignment_bytes = 4096;
  /// Pieces of longer tensors that are shorter are not linked: they load too slowly, and their
  /// index is long. Only in the plan id of a plan that links.
  std::uint64_t link_piece_bytes = std::uint64_t{16} << 10;

  std::uint64_t merge_bytes = std::uint64_t{32}
                              << 20;  ///< neighbouring units are one tile up to this
  std::uint64_t segment_bytes = std::uint64_t{2} << 20;  ///< source bytes read and moved at once
  /// Arrays that are longer are not unpacked whole, where that can be helped.
  std::uint64_t unpack_bytes = std::uint64_t{1} << 30;
  /// Shortest run of a stored piece that is read by itself, where the rest of it waits.
  std::uint64_t part_run_bytes = std::uint64_t{16} << 10;
  std::uint64_t request_bytes = std::uint64_t{8} << 20;  ///< asked of a far source at once
  std::uint64_t commit_bytes = std::uint64_t{1} << 30;   ///< data per journal record
  std::uint64_t commit_ms = 5000;                        ///< or this much time
  std::uint64_t cached_bytes = std::uint64_t{256}
                               << 20;  ///< of sources, and of output, left in the page cache
};

/// The largest output that is planned. A pebibyte is several hundred times the largest model; what
/// is above it is a mistyped size.
inline constexpr std::uint64_t kMaxOutputBytes = std::uint64_t{1} << 50;

/// A digest block of a 1-d tensor is a run of this many bytes (design.md 7, Digests). Part of the
/// format.
inline constexpr std::uint64_t kDigestRunBytes = std::uint64_t{64} << 10;

}  // namespace hfshard
