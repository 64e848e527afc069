#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard::format::orbax::ocdbt {

// Primitive encodings, the envelope of manifest and nodes, and the data file table (FORMAT.md 3).
// Source: google/tensorstore tensorstore/kvstore/ocdbt/format/{codec_util,data_file_id_codec}.cc.

inline constexpr std::uint32_t kManifestMagic = 0x0cdb3a2a;
inline constexpr std::uint32_t kNodeMagic = 0x0cdb20de;

inline constexpr std::uint64_t kMaxKeyBytes = 65535;
inline constexpr std::uint64_t kMaxPathBytes = 65535;
inline constexpr std::uint64_t kMaxInlineBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxNodeEntries = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxEndOffset = (std::uint64_t{1} << 63) - 1;
/// Orbax splits nodes at 100 MB, and 2^20 entries take about 100 MB too.
inline constexpr std::uint64_t kMaxNodeBytes = std::uint64_t{512} << 20;

/// The origin of bytes, for errors.
struct Origin {
  std::string file;
  std::uint64_t begin_bytes = 0;  ///< of the bytes in the file
  std::uint64_t file_bytes = 0;
};

/// Reads the fields of a body in order. Every failure is `corrupt` and names file and range.
class Cursor {
 public:
  /// `offset_bytes` is the place of `bytes` in the origin's range. Both must outlive the cursor.
  Cursor(std::span<const std::byte> bytes, const Origin& origin, std::uint64_t offset_bytes)
      : bytes_(bytes), origin_(&origin), offset_bytes_(offset_bytes) {}
  /// Returns a cursor for a decompressed body. Its fields have no places in the file, so errors
  /// name the `size_bytes` of the whole envelope.
  static Cursor unpacked(std::span<const std::byte> bytes, const Origin& origin,
                         std::uint64_t size_bytes) {
    Cursor out(bytes, origin, 0);
    out.packed_bytes_ = size_bytes;
    return out;
  }

  std::uint8_t u8(std::string_view field);
  std::uint64_t u64_le(std::string_view field);
  /// Reads an unsigned LEB128 number, at most `max`.
  std::uint64_t varint(std::string_view field, std::uint64_t max = UINT64_MAX);
  std::string_view text(std::string_view field, std::uint64_t size);
  /// Reads a count of things that take at least one byte each. The remaining bytes bound it.
  std::uint64_t count(std::string_view field, std::uint64_t max = UINT64_MAX);
  std::uint64_t left() const noexcept { return bytes_.size() - at_; }
  /// Throws unless everything was read.
  void finish() const;
  [[noreturn]] void fail(std::string sentence) const;

 private:
  std::span<const std::byte> take(std::string_view field, std::uint64_t size);

  std::span<const std::byte> bytes_;
  const Origin* origin_;
  std::uint64_t offset_bytes_;
  std::uint64_t packed_bytes_ = 0;  // of the envelope; 0: `bytes_` are the file's
  std::size_t at_ = 0;
};

void put_u64_le(std::string& out, std::uint64_t value);
void put_varint(std::string& out, std::uint64_t value);

/// Puts header and checksum around a plain body.
std::string seal(std::uint32_t magic, std::string_view body);
/// Checks the envelope and returns a cursor over the body. A compressed body goes to `unpacked`.
/// `what` is "manifest" or "index node". Throws: corrupt; limit (a body beyond kMaxNodeBytes).
/// `bytes`, `origin` and `unpacked` must outlive the cursor.
Cursor unseal(std::uint32_t magic, std::span<const std::byte> bytes, const Origin& origin,
              std::string_view what, std::vector<std::byte>& unpacked);

/// One row of the data file table. `path` is relative to the directory in the node's transitive
/// path. Its first `base_bytes` become part of the transitive path of nodes in this file.
struct DataFile {
  std::string path;
  std::uint32_t base_bytes = 0;
  friend bool operator==(const DataFile&, const DataFile&) = default;
};

void put_data_files(std::string& out, const std::vector<DataFile>& files);
std::vector<DataFile> get_data_files(Cursor& cursor);

/// Totals of a subtree.
struct Statistics {
  std::uint64_t keys = 0;
  std::uint64_t tree_bytes = 0;
  std::uint64_t indirect_value_bytes = 0;
  Statistics& operator+=(const Statistics& other) noexcept;
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

}  // namespace hfshard::format::orbax::ocdbt
