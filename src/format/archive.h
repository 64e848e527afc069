#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/local/source.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format {

/// The records of a zip archive, which is a file or a range of one. Checks sizes and offsets
/// against that range, and headers against the directory. dcp/FORMAT.md, Archives.
class Archive {
 public:
  struct Record {
    std::string name;  ///< without the archive's folder: "data.pkl", "data/0"
    std::uint32_t crc = 0;
    std::uint16_t flags = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t header_bytes = 0;  ///< of its header, in the item
  };

  /// Reads the directory. `file` outlives this. `what` names the range in errors. Throws: corrupt
  /// (not an archive, or it contradicts itself), unsupported (a compressed or encrypted record),
  /// io; each with file and range.
  Archive(const Source& file, ByteRange item, std::string_view what = "item");

  const std::vector<Record>& records() const noexcept { return records_; }
  const Record* find(std::string_view name) const noexcept;
  /// Returns whether its records have checksums. Without torch.utils.serialization.config.save.
  /// compute_crc32, torch writes 0 for each.
  bool has_crcs() const noexcept { return has_crcs_; }
  /// Returns the offset of a record's bytes in the file, from its header.
  std::uint64_t payload_bytes(const Record& record) const;
  /// Returns the same without reading the header, if torch's layout leaves only one place. In it,
  /// records follow each other, each with padding before it and a descriptor after it. Empty for
  /// others.
  std::optional<std::uint64_t> placed_bytes(const Record& record) const;
  static constexpr std::uint64_t kMaxRecord = std::uint64_t{16} << 20;
  /// Reads a record of at most `most` bytes and checks its CRC, if it has one.
  std::string read(const Record& record, std::uint64_t most = kMaxRecord) const;
  /// Returns the zip directory, which has the CRC of every record.
  const std::string& directory() const noexcept { return directory_; }
  ByteRange item() const noexcept { return item_; }
  const Source& file() const noexcept { return file_; }
  /// Reads bytes at an offset in the item.
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
  void index_records();
  void check_stored(const Record& record, std::uint16_t method) const;
  void read_wide(std::string_view extra, Record& record, bool stored_wide) const;

  const Source& file_;
  ByteRange item_;
  std::string front_;  // the item's first and last bytes
  std::string back_;
  std::string_view what_;
  std::string directory_;
  std::uint64_t directory_begin_ = 0;  // in the item
  std::uint64_t folder_bytes_ = 0;     // of the names' prefix
  std::vector<Record> records_;
  bool has_crcs_ = false;
  std::vector<std::uint32_t> by_name_;  // sorted
  std::vector<std::uint64_t> headers_;  // their offsets, sorted
};

}  // namespace hfshard::format
