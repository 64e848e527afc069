#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bytes/source.h"
#include "format/dcp/item_stream.h"
#include "format/dcp/metadata.h"
#include "format/dcp/payload.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// The elements of a box whose item went through stream.zstd/1: an archive that can only be read
/// from front to back. What is in front of the elements is read at once, from the headers of its
/// records; when the elements have been read, what stands behind them comes too, and all of it is
/// judged as any archive is. Everything that throws names file and the item's range; after an error
/// there is nothing more to read. FORMAT.md, Packed items.
class PackedItem {
 public:
  /// So much may be in front of the elements, and behind them.
  static constexpr std::uint64_t kMostAround = std::uint64_t{64} << 10;
  static std::uint64_t scratch_bytes() noexcept;

  /// `file` and `scratch` (scratch_bytes) live as long as this. Throws: corrupt, unsupported, limit
  /// (more than kMostAround in front), io.
  PackedItem(const Source& file, const ItemPlace& place, BoxForm form,
             std::span<std::byte> scratch);

  /// Where the elements are in the archive; their CRC is not known yet.
  const Payload& payload() const noexcept { return payload_; }
  /// Elements from a byte of their record on, which is not before what was read; what is passed
  /// over is decoded too. Throws: corrupt, limit, io.
  void read(std::uint64_t record_byte, std::span<std::byte> out);
  /// Reads what is left, and compares it. Throws: corrupt (a CRC, the directory, anything behind
  /// the archive), unsupported, limit (kMostAround or more behind the elements), io.
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
  std::span<std::byte> room_;  // for what is dropped, then for what is behind the elements
  Payload payload_;
  std::uint64_t at_ = 0;  // behind what was read of the record
  std::uint32_t crc_ = 0;
};

}  // namespace hfshard::format::dcp
