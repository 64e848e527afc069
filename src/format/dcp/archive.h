#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/source.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// The records of one item: a zip archive within a file. Sizes and offsets are checked against the
/// item, headers against the directory. FORMAT.md, Archives.
class Archive {
 public:
  struct Record {
    std::string name;  ///< without the archive's folder: "data.pkl", "data/0"
    std::uint32_t crc = 0;
    std::uint16_t flags = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t header_bytes = 0;  ///< where its header begins in the item
  };

  /// Reads the directory. `file` outlives this. Throws: corrupt (no archive, or one that
  /// contradicts itself), unsupported (a compressed or encrypted record), io; each with file and
  /// the item's range.
  Archive(const Source& file, ByteRange item);

  const std::vector<Record>& records() const noexcept { return records_; }
  const Record* find(std::string_view name) const noexcept;
  /// Where the bytes of a record begin in the file.
  std::uint64_t payload_bytes(const Record& record) const;
  /// A small record, its CRC compared.
  std::string read(const Record& record) const;
  ByteRange item() const noexcept { return item_; }
  const Source& file() const noexcept { return file_; }
  /// Bytes of the item, from an offset in it.
  std::string bytes(std::uint64_t offset, std::uint64_t size) const;
  [[noreturn]] void fail(std::string sentence, ErrorCode code = ErrorCode::corrupt) const;

 private:
  struct Directory {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::uint64_t count = 0;
  };
  Directory find_directory();
  Directory wide_directory(std::uint64_t end_bytes) const;
  void read_records(const Directory& directory);
  void check_stored(const Record& record, std::uint16_t method) const;
  void read_wide(std::string_view extra, Record& record, bool stored_wide) const;

  const Source& file_;
  ByteRange item_;
  std::string front_;  // of the item, as are the last bytes: what small items are read from
  std::string back_;
  std::vector<Record> records_;
};

/// What is around the elements of a tensor in an archive that this program writes: the pickle that
/// describes it and three small records in front, the directory behind. FORMAT.md, What is written.
struct ArchiveForm {
  std::uint64_t head_bytes = 0;
  std::uint64_t tail_bytes = 0;
};
/// Of a pickle of so many bytes in front of so many bytes of elements, which begin at a multiple of
/// kPayloadAlignment in the archive.
ArchiveForm archive_form(std::uint64_t pickle_bytes, std::uint64_t payload_bytes);
inline constexpr std::uint64_t kPayloadAlignment = 64;

/// The bytes in front: exactly `head_bytes`, which are at least archive_form's.
std::string archive_head(std::string_view pickle, std::uint64_t payload_bytes, std::uint32_t crc,
                         std::uint64_t head_bytes);
std::string archive_tail(std::string_view pickle, std::uint64_t payload_bytes, std::uint32_t crc,
                         std::uint64_t head_bytes);

}  // namespace hfshard::format::dcp
