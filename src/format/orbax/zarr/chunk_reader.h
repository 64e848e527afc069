#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bytes/source.h"
#include "catalog/checkpoint.h"
#include "catalog/piece.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/frame.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {

/// Scratch of a ChunkReader whose stored chunk has at most `longest_bytes`: with a compressor a
/// decoder and a block of stored bytes; the index of inner chunks.
std::uint64_t chunk_scratch_bytes(const Array& array, const PieceForm& form,
                                  std::uint64_t longest_bytes, PieceSteps steps);

/// Bytes of elements that are not stored, from an offset on: the array's fill value.
void put_fill(const Array& array, std::uint64_t offset_bytes, std::span<std::byte> out);

/// Decodes a stored chunk from front to back. Inner chunks may lie anywhere beside the index; those
/// outside of the array, which TensorStore does not write, may be missing, and all of them where
/// Array::may_lack says so. What is missing has the fill value.
/// Errors name no file, and ranges that count from the start of the chunk; none if it is the whole
/// of it.
class ChunkReader final : public PieceReader {
 public:
  /// `chunk`: its place in the grid of `array`, whose form is `form`; `stored`: its bytes, of any
  /// length. All live as long as this.
  ChunkReader(const Array& array, const PieceForm& form, const Shape& chunk, const Source& stored,
              PieceSteps steps, std::span<std::byte> scratch);
  /// Throws: corrupt (length, index, checksum, frame or stream, a missing inner chunk), limit (a
  /// zstd window above kMaxWindowBytes, where there is a window), and what `stored` throws.
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
  std::uint64_t content_bytes_;  // of a cell before the compressor
  std::uint64_t window_bytes_;   // 0: cells are decoded in place
  std::span<std::byte> index_;
  std::span<std::byte> decoder_scratch_;
  std::span<std::byte> block_;

  std::uint64_t cell_ = 0;        // which comes next, or is open
  std::uint64_t done_bytes_ = 0;  // of it
  bool is_open_ = false;
  bool has_index_ = false;
  std::optional<ByteRange> range_;    // of the open cell, with its checksum; nothing: not stored
  std::uint64_t next_ = 0;            // to be fetched, of the cell's coded bytes
  std::uint64_t end_ = 0;             // of them
  std::uint32_t crc_ = 0;             // of what was fetched
  std::uint32_t inner_crc_ = 0;       // of what was decoded
  std::span<const std::byte> input_;  // fetched and not yet decoded
  Frame frame_;
};

}  // namespace hfshard::format::orbax::zarr
