#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bytes/local/source.h"
#include "format/dcp/item_stream.h"
#include "format/dcp/metadata.h"
#include "format/dcp/payload.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// The elements of a box whose item went through stream.zstd/1. Such an archive can only be read
/// from front to back. The constructor reads the bytes in front of the elements, by the headers of
/// the records. `finish` reads the bytes behind them, and checks the archive like any other. Errors
/// name the file and the item's range; don't read after an error. FORMAT.md, Packed items.
class PackedItem {
 public:
  /// The most bytes in front of the elements, and behind them.
  static constexpr std::uint64_t kMostAround = std::uint64_t{64} << 10;
  static std::uint64_t scratch_bytes() noexcept;

  /// `file` and `scratch` (scratch_bytes) must outlive this. Throws: corrupt, unsupported, limit
  /// (more than kMostAround in front), io.
  PackedItem(const Source& file, const ItemPlace& place, BoxForm form,
             std::span<std::byte> scratch);

  /// Returns the place of the elements in the archive. Its CRC isn't known yet.
  const Payload& payload() const noexcept { return payload_; }
  /// Reads elements from a byte of their record, at or after the last read. Decodes the bytes that
  /// it skips. Throws: corrupt, limit, io.
  void read(std::uint64_t record_byte, std::span<std::byte> out);
  /// Reads and checks the rest. Throws: corrupt (a CRC, the directory, anything behind the
  /// archive), unsupported, limit (kMostAround or more behind the elements), io.
  void finish();

 private:
  void read_front();
  void pass_to(std::uint64_t record_byte);
  void check_archive(std::span<const std::byte> back) const;
  template <typename Action>
  void named(const Action& action) const;

  const Source& file_;
  const ByteRange item_;
  const BoxForm form_;
  ItemStream stream_;
  std::span<std::byte> front_;
  std::span<std::byte> room_;  // for skipped bytes, then the bytes behind
  Payload payload_;
  std::uint64_t at_ = 0;  // end of the last read, in the record
  std::uint32_t crc_ = 0;
};

}  // namespace hfshard::format::dcp
