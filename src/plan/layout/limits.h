#pragma once

#include <cstdint>

namespace hfshard {

/// All sizes that shape the output or the run and aren't options (design.md 6). They are constants
/// for users. Tests shrink them so that tiny fixtures have many chunks, tiles and files. The first
/// block affects bytes and is part of the plan id.
struct Limits {
  std::uint64_t floor_bytes = std::uint64_t{1} << 20;  ///< smaller leaves are one chunk
  std::uint64_t fan_bytes = std::uint64_t{128} << 20;  ///< bound on fan x chunk
  /// Bound where fan_bytes would force chunks below the floor.
  std::uint64_t fan_small_bytes = std::uint64_t{256} << 20;
  std::uint64_t slab_bytes = std::uint64_t{256} << 20;  ///< largest unit (closed group of chunks)
  /// Shortest contiguous run of a source that is worth reading.
  std::uint64_t run_bytes = std::uint64_t{64} << 10;
  /// Data files have total / file_share bytes, within the minimum and maximum.
  std::uint64_t file_min_bytes = std::uint64_t{256} << 20;
  std::uint64_t file_max_bytes = std::uint64_t{2} << 30;
  std::uint64_t file_share = 64;
  std::uint64_t outer_shards = 32;  ///< more: inner chunks follow the mesh
  /// Chunks start at multiples of it, unless the format sets the alignment.
  std::uint64_t alignment_bytes = 4096;
  /// Shorter pieces of longer tensors aren't linked, since they load slowly and their index is
  /// long. Only in the plan id of a plan that links.
  std::uint64_t link_piece_bytes = std::uint64_t{16} << 10;

  /// Neighboring units are one tile up to this.
  std::uint64_t merge_bytes = std::uint64_t{32} << 20;
  std::uint64_t segment_bytes = std::uint64_t{2} << 20;  ///< source bytes read and moved at once
  /// Longer arrays aren't unpacked whole if possible.
  std::uint64_t unpack_bytes = std::uint64_t{1} << 30;
  /// Shortest run of a stored piece that is read alone if the rest of it must wait.
  std::uint64_t part_run_bytes = std::uint64_t{16} << 10;
  std::uint64_t request_bytes = std::uint64_t{8} << 20;  ///< per request to a remote source
  std::uint64_t commit_bytes = std::uint64_t{1} << 30;   ///< data per journal record
  std::uint64_t commit_ms = 5000;                        ///< or this much time
  /// Bytes of sources, and of output, that stay in the page cache.
  std::uint64_t cached_bytes = std::uint64_t{256} << 20;
};

/// The largest output of a plan. A pebibyte is several hundred times the largest model, so a larger
/// one has a mistyped size.
inline constexpr std::uint64_t kMaxOutputBytes = std::uint64_t{1} << 50;

/// Size of a digest block of a 1-d tensor (design.md 7, Digests). Part of the format.
inline constexpr std::uint64_t kDigestRunBytes = std::uint64_t{64} << 10;

}  // namespace hfshard
