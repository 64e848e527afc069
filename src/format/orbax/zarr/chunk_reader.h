#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bytes/local/source.h"
#include "catalog/checkpoint.h"
#include "catalog/piece.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/frame.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {

/// Returns the scratch of a ChunkReader for stored chunks of at most `longest_bytes`. It has the
/// index of inner chunks and, with a compressor, a decoder and a block of stored bytes.
std::uint64_t chunk_scratch_bytes(const Array& array, const PieceForm& form,
                                  std::uint64_t longest_bytes, PieceSteps steps);

/// Writes bytes of missing elements, from an offset on: the array's fill value.
void put_fill(const Array& array, std::uint64_t offset_bytes, std::span<std::byte> out);

/// Decodes a stored chunk from front to back. Inner chunks can have any place outside of the index.
/// Those outside of the array may be missing, since TensorStore doesn't write them; with
/// Array::may_lack, any may be. Missing ones have the fill value. Errors don't name a file. Their
/// ranges count from the start of the chunk, and are absent for the whole chunk.
class ChunkReader final : public PieceReader {
 public:
  /// `chunk` is the place in the grid of `array`, whose form is `form`. `stored` has the chunk's
  /// bytes and can have any length. All must outlive this.
  ChunkReader(const Array& array, const PieceForm& form, const Shape& chunk, const Source& stored,
              PieceSteps steps, std::span<std::byte> scratch);
  /// Throws: corrupt (length, index, checksum, frame or stream, a missing inner chunk), limit (a
  /// zstd window above kMaxWindowBytes, if there is a window), as `stored`.
  void read(std::span<std::byte> out) override;
  void skip(std::uint64_t bytes) override;

  static constexpr std::uint64_t kMaxWindowBytes = ZstdStream::kUsualWindowBytes;

 private:
  void read_index();
  void open_cell();
  void find_cell();
  void open_decoder();
  void read_cell(std::span<std::byte> out);
  void decode(std::span<std::byte> out);
  bool step(std::span<std::byte>& out);
  void fill_input();
  void end_frame();
  void close_cell();
  void check_sum();
  void check_inner_sum();
  static void compare_sums(std::span<const std::byte> suffix, std::uint32_t computed);
  std::optional<ByteRange> indexed_range() const;
  void drop(std::uint64_t bytes);
  template <typename Action>
  void in_cell(const Action& action);
  template <typename Action>
  void in_frame(const Action& action);

  const Array& array_;
  const PieceForm& form_;
  const Shape& chunk_;
  const Source& stored_;
  std::uint64_t content_bytes_;  // of a cell, decompressed
  std::uint64_t window_bytes_;   // 0: cells are decoded in place
  std::span<std::byte> index_;
  std::span<std::byte> decoder_scratch_;
  std::span<std::byte> block_;

  std::uint64_t cell_ = 0;        // the next or open one
  std::uint64_t done_bytes_ = 0;  // of this cell
  bool is_open_ = false;
  bool has_index_ = false;
  std::optional<ByteRange> range_;    // with its checksum; empty: not stored
  std::uint64_t next_ = 0;            // the next coded byte to fetch
  std::uint64_t end_ = 0;             // of the coded bytes
  std::uint32_t crc_ = 0;             // of the fetched bytes
  std::uint32_t inner_crc_ = 0;       // of the decoded bytes
  std::span<const std::byte> input_;  // fetched and not yet decoded
  Frame frame_;
};

}  // namespace hfshard::format::orbax::zarr
