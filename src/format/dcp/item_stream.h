#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/zstd.h"
#include "bytes/local/source.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// Decodes an item that went through the transform stream.zstd/1, from front to back. Such an item
/// is a sequence of zstd frames, which needn't state their content's size. Allocates nothing but
/// its scratch.
class ItemStream {
 public:
  static std::uint64_t scratch_bytes() noexcept;
  /// `item` is the file's range to decode. `file` and `scratch` (scratch_bytes) must outlive this.
  ItemStream(const Source& file, ByteRange item, std::span<std::byte> scratch);

  /// Fills `out`, or less at the end of the item. Returns the bytes written. Throws: corrupt
  /// (damaged frames, one that passes the end of the item, other bytes behind them), limit (a
  /// window beyond ZstdStream::kUsualWindowBytes), io; only the last names the file.
  std::size_t read_some(std::span<std::byte> out);
  /// Fills `out`. Throws: corrupt (at the end of the item), as read_some.
  void read(std::span<std::byte> out);

 private:
  bool next_frame();
  void fill_input();

  const Source& file_;
  std::uint64_t next_;  // next offset to fetch, in the file
  std::uint64_t end_;
  std::span<std::byte> decoder_scratch_;
  std::span<std::byte> block_;
  std::span<const std::byte> input_;  // fetched and not yet decoded
  ZstdStream frame_;
  bool in_frame_ = false;
  bool first_ = true;  // the next fetch is the first
};

}  // namespace hfshard::format::dcp
