#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/zstd.h"
#include "bytes/source.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// What an item was before the transform stream.zstd/1, from front to back. Packed it is zstd
/// frames, one behind the other and nothing else; none need state the size of its content. Uses
/// nothing but its scratch.
class ItemStream {
 public:
  static std::uint64_t scratch_bytes() noexcept;
  /// `item`: the range of a file that is to be decoded. `file` and `scratch` (scratch_bytes) live
  /// as long as this.
  ItemStream(const Source& file, ByteRange item, std::span<std::byte> scratch);

  /// Fills `out`, or as much of it as there is before the end. Throws: corrupt (damaged frames, one
  /// that passes the end of the item, bytes behind that are none), limit (a window beyond
  /// ZstdStream::kUsualWindowBytes), io; only the last names the file.
  std::size_t read_some(std::span<std::byte> out);
  /// Fills `out`. Throws: corrupt (the end), as read_some.
  void read(std::span<std::byte> out);

 private:
  bool next_frame();
  void fill_input();

  const Source& file_;
  std::uint64_t next_;  // to be fetched, in the file
  std::uint64_t end_;
  std::span<std::byte> decoder_scratch_;
  std::span<std::byte> block_;
  std::span<const std::byte> input_;  // fetched and not yet decoded
  ZstdStream frame_;
  bool in_frame_ = false;
  bool first_ = true;  // of the blocks
};

}  // namespace hfshard::format::dcp
