#include "format/orbax/ocdbt/envelope.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "base/zstd.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kSmallestBytes = 16;

template <typename T>
void put_le(std::string& out, T value) {
  std::array<std::byte, sizeof(T)> bytes{};
  store_le(bytes.data(), value);
  out += as_text(bytes);
}

std::uint32_t swap_bytes(std::uint32_t value) noexcept { return __builtin_bswap32(value); }

Error damaged(const Origin& origin, std::uint64_t size, std::string sentence) {
  Error error(ErrorCode::corrupt, std::move(sentence));
  error.in_file(origin.file).at({origin.begin_bytes, origin.begin_bytes + size}, origin.file_bytes);
  return error;
}

}  // namespace

std::span<const std::byte> Cursor::take(std::string_view field, std::uint64_t size) {
  if (size > left()) {
    fail(fmt::format("{} needs {} bytes where {} are left", field, size, left()));
  }
  const auto out = bytes_.subspan(at_, size);
  at_ += size;
  return out;
}

std::uint8_t Cursor::u8(std::string_view field) {
  return std::to_integer<std::uint8_t>(take(field, 1)[0]);
}

std::uint64_t Cursor::u64_le(std::string_view field) {
  return load_le<std::uint64_t>(take(field, 8).data());
}

std::uint64_t Cursor::varint(std::string_view field, std::uint64_t max) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint64_t byte = u8(field);
    const std::uint64_t low = byte & 0x7fU;
    if (shift > 63 || (shift == 63 && low > 1)) {
      fail(fmt::format("{} does not fit in 64 bits", field));
    }
    value |= low << shift;
    if ((byte & 0x80U) == 0) break;
  }
  if (value > max) fail(fmt::format("{} is {}; at most {} is allowed", field, value, max));
  return value;
}

std::string_view Cursor::text(std::string_view field, std::uint64_t size) {
  return as_text(take(field, size));
}

std::uint64_t Cursor::count(std::string_view field, std::uint64_t max) {
  const std::uint64_t value = varint(field, max);
  if (value > left()) {
    fail(fmt::format("{} is {}, but only {} bytes are left", field, value, left()));
  }
  return value;
}

void Cursor::finish() const {
  if (left() != 0) fail(fmt::format("{} bytes follow the last field", left()));
}

void Cursor::fail(std::string sentence) const {
  if (packed_bytes_ > 0) throw damaged(*origin_, packed_bytes_, std::move(sentence));
  const std::uint64_t at = origin_->begin_bytes + offset_bytes_ + at_;
  throw Error(ErrorCode::corrupt, std::move(sentence))
      .in_file(origin_->file)
      .at({at, at + left()}, origin_->file_bytes);
}

void put_u64_le(std::string& out, std::uint64_t value) { put_le(out, value); }

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(0x80U | (value & 0x7fU));
    value >>= 7;
  }
  out += static_cast<char>(value);
}

std::string seal(std::uint32_t magic, std::string_view body) {
  std::string out;
  out.reserve(body.size() + 18);
  put_le(out, swap_bytes(magic));  // the only big-endian number
  put_le(out, std::uint64_t{kHeaderBytes + 2 + body.size() + kCrcBytes});
  put_varint(out, 0);  // format version
  put_varint(out, 0);  // compression: plain
  out += body;
  put_le(out, crc32c(as_bytes(out)));
  return out;
}

Cursor unseal(std::uint32_t magic, std::span<const std::byte> bytes, const Origin& origin,
              std::string_view what, std::vector<std::byte>& unpacked) {
  const auto fail = [&](std::string sentence) -> Error {
    return damaged(origin, bytes.size(), fmt::format("{} {}", what, sentence));
  };
  if (bytes.size() < kSmallestBytes) {
    throw fail(fmt::format("has {} bytes; at least {} are needed", bytes.size(), kSmallestBytes));
  }
  const std::uint32_t found = swap_bytes(load_le<std::uint32_t>(bytes.data()));
  if (found != magic) throw fail(fmt::format("starts with {:08x} instead of {:08x}", found, magic));
  const auto length = load_le<std::uint64_t>(bytes.data() + 4);
  if (length != bytes.size()) {
    throw fail(fmt::format("states a length of {} bytes but has {}", length, bytes.size()));
  }
  const auto checked = bytes.first(bytes.size() - kCrcBytes);
  const std::uint32_t computed = crc32c(checked);
  const auto stored = load_le<std::uint32_t>(checked.data() + checked.size());
  if (stored != computed) {
    throw fail(fmt::format("has checksum {:08x}, but {:08x} is computed", stored, computed));
  }
  Cursor header(checked.subspan(kHeaderBytes), origin, kHeaderBytes);
  const std::uint64_t version = header.varint("format version");
  if (version != 0) throw fail(fmt::format("has format version {}; 0 is the last known", version));
  const std::uint64_t compression = header.varint("compression");
  if (compression == 0) return header;
  if (compression != 1) throw fail(fmt::format("has the unknown compression {}", compression));
  try {
    unpacked = decode_zstd(checked.last(header.left()), kMaxNodeBytes);
  } catch (const Error& error) {  // only here are file and range known
    throw Error(error.code(), fmt::format("{} holds {}", what, error.sentence()))
        .in_file(origin.file)
        .at({origin.begin_bytes, origin.begin_bytes + bytes.size()}, origin.file_bytes);
  }
  return Cursor::unpacked(unpacked, origin, bytes.size());
}

void put_data_files(std::string& out, const std::vector<DataFile>& files) {
  put_varint(out, files.size());
  std::string suffixes;
  std::string suffix_lengths;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::size_t prefix = 0;
    if (i > 0) {
      prefix = common_prefix(files[i - 1].path, files[i].path);
      // A prefix may include the relative part only if both bases are the same.
      if (files[i - 1].base_bytes != files[i].base_bytes) {
        prefix = std::min<std::size_t>({prefix, files[i - 1].base_bytes, files[i].base_bytes});
      }
      put_varint(out, prefix);
    }
    put_varint(suffix_lengths, files[i].path.size() - prefix);
    suffixes.append(files[i].path, prefix);
  }
  out += suffix_lengths;
  for (const DataFile& file : files) put_varint(out, file.base_bytes);
  out += suffixes;
}

std::vector<DataFile> get_data_files(Cursor& cursor) {
  const std::uint64_t n = cursor.count("number of data files");
  std::vector<std::uint64_t> prefixes(n, 0);
  std::vector<std::uint64_t> suffixes(n, 0);
  std::vector<DataFile> out(n);
  for (std::size_t i = 1; i < n; ++i)
    prefixes[i] = cursor.varint("path prefix length", kMaxPathBytes);
  for (auto& suffix : suffixes) suffix = cursor.varint("path suffix length", kMaxPathBytes);
  for (DataFile& file : out) {
    file.base_bytes = static_cast<std::uint32_t>(cursor.varint("base path length", kMaxPathBytes));
  }
  for (std::size_t i = 0; i < n; ++i) {
    DataFile& file = out[i];
    if (i > 0) {
      const DataFile& last = out[i - 1];
      if (prefixes[i] > last.path.size())
        cursor.fail("a path prefix is longer than the path before");
      if (prefixes[i] > std::min(last.base_bytes, file.base_bytes) &&
          last.base_bytes != file.base_bytes) {
        cursor.fail("a path prefix passes the end of its base path");
      }
      file.path.assign(last.path, 0, prefixes[i]);
    }
    file.path += cursor.text("path suffix", suffixes[i]);
    if (file.path.size() > kMaxPathBytes || file.base_bytes > file.path.size()) {
      cursor.fail(fmt::format("a data file path of {} bytes with a base path of {}",
                              file.path.size(), file.base_bytes));
    }
  }
  return out;
}

Statistics& Statistics::operator+=(const Statistics& other) noexcept {
  keys += other.keys;
  tree_bytes += other.tree_bytes;
  indirect_value_bytes += other.indirect_value_bytes;
  return *this;
}

}  // namespace hfshard::format::orbax::ocdbt
