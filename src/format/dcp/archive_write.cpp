#include "format/dcp/archive_write.h"

#include <array>
#include <string>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32.h"
#include "format/zip.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// The format's first date, 1980-01-01, because times must be constant.
constexpr std::uint16_t kFirstDate = 0x21;
constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kWideVersion = 45;
constexpr std::uint64_t kFieldBytes = 4;
constexpr std::uint64_t kWideBytes = 16;  // two sizes

struct Part {
  std::string_view name;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
};

// The order of the records. The tensor's elements come last; torch finds records by name.
constexpr std::size_t kParts = 4;
constexpr std::string_view kByteOrder = "little";
constexpr std::string_view kFormatVersion = "3\n";

std::array<Part, kParts> parts_of(std::string_view pickle, std::uint64_t payload_bytes,
                                  std::uint32_t crc) {
  return {{{"archive/data.pkl", pickle.size(), crc32(as_bytes(pickle))},
           {"archive/byteorder", kByteOrder.size(), crc32(as_bytes(kByteOrder))},
           {"archive/version", kFormatVersion.size(), crc32(as_bytes(kFormatVersion))},
           {"archive/data/0", payload_bytes, crc}}};
}

bool is_wide(std::uint64_t size) { return size >= UINT32_MAX; }

template <typename T>
void put(std::string& out, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  out += as_text(bytes);
}

// Writes the fields that headers and entries share: from the version needed to the name's length.
void put_common(std::string& out, const Part& part) {
  const bool wide = is_wide(part.size);
  put(out, wide ? kWideVersion : kVersion);
  put(out, zip::kUtf8);
  put(out, std::uint16_t{0});  // stored
  put(out, std::uint16_t{0});  // time
  put(out, kFirstDate);
  put(out, part.crc);
  const std::uint32_t size = wide ? UINT32_MAX : static_cast<std::uint32_t>(part.size);
  put(out, size);
  put(out, size);
  put(out, static_cast<std::uint16_t>(part.name.size()));
}

void put_wide(std::string& out, const Part& part) {
  if (!is_wide(part.size)) return;
  put(out, zip::kWideField);
  put(out, std::uint16_t{kWideBytes});
  put(out, part.size);
  put(out, part.size);
}

std::uint64_t wide_bytes(const Part& part) {
  return is_wide(part.size) ? kFieldBytes + kWideBytes : 0;
}

void put_header(std::string& out, const Part& part, std::uint64_t pad_field) {
  out += zip::kHeader;
  put_common(out, part);
  put(out, static_cast<std::uint16_t>(wide_bytes(part) + pad_field));
  out += part.name;
  put_wide(out, part);
  if (pad_field == 0) return;
  put(out, zip::kPadField);
  put(out, static_cast<std::uint16_t>(pad_field - kFieldBytes));
  out.append(pad_field - kFieldBytes, '\0');
}

void put_entry(std::string& out, const Part& part, std::uint64_t header) {
  out += zip::kEntry;
  put(out, is_wide(part.size) ? kWideVersion : kVersion);  // made by
  put_common(out, part);
  put(out, static_cast<std::uint16_t>(wide_bytes(part)));
  out.append(10, '\0');  // comment, disk, attributes
  put(out, static_cast<std::uint32_t>(header));
  out += part.name;
  put_wide(out, part);
}

// Returns the head's size without the padding field.
std::uint64_t least_head(const std::array<Part, kParts>& parts) {
  std::uint64_t out = 0;
  for (const Part& part : parts) out += zip::kHeaderBytes + part.name.size() + wide_bytes(part);
  return out + parts[0].size + parts[1].size + parts[2].size;
}

}  // namespace

ArchiveForm archive_form(std::uint64_t pickle_bytes, std::uint64_t payload_bytes) {
  const auto parts = parts_of(std::string(pickle_bytes, '\0'), payload_bytes, 0);
  ArchiveForm out;
  // The padding field has at least four bytes.
  out.head_bytes = round_up(least_head(parts) + kFieldBytes, kPayloadAlignment);
  for (const Part& part : parts)
    out.tail_bytes += zip::kEntryBytes + part.name.size() + wide_bytes(part);
  out.tail_bytes += zip::kWideEndBytes + zip::kLocatorBytes + zip::kEndBytes;
  return out;
}

std::string archive_head(std::string_view pickle, std::uint64_t payload_bytes, std::uint32_t crc,
                         std::uint64_t head_bytes) {
  const auto parts = parts_of(pickle, payload_bytes, crc);
  HFSHARD_CHECK(head_bytes >= least_head(parts) + kFieldBytes);
  std::string out;
  out.reserve(head_bytes);
  put_header(out, parts[0], 0);
  out += pickle;
  put_header(out, parts[1], 0);
  out += kByteOrder;
  put_header(out, parts[2], 0);
  out += kFormatVersion;
  put_header(out, parts[3], head_bytes - least_head(parts));
  HFSHARD_CHECK(out.size() == head_bytes);
  return out;
}

std::string archive_tail(std::string_view pickle, std::uint64_t payload_bytes, std::uint32_t crc,
                         std::uint64_t head_bytes) {
  const auto parts = parts_of(pickle, payload_bytes, crc);
  std::string out;
  std::uint64_t header = 0;
  for (const Part& part : parts) {
    put_entry(out, part, header);
    header += zip::kHeaderBytes + part.name.size() + part.size;
  }
  const std::uint64_t size = out.size();
  const std::uint64_t begin = head_bytes + payload_bytes;
  out += zip::kWideEnd;
  put(out, std::uint64_t{zip::kWideEndBytes - 12});
  put(out, kWideVersion);
  put(out, kWideVersion);
  put(out, std::uint64_t{0});  // disks
  put(out, std::uint64_t{kParts});
  put(out, std::uint64_t{kParts});
  put(out, size);
  put(out, begin);
  out += zip::kLocator;
  put(out, std::uint32_t{0});
  put(out, begin + size);
  put(out, std::uint32_t{1});
  out += zip::kEnd;
  put(out, std::uint32_t{0});
  put(out, static_cast<std::uint16_t>(kParts));
  put(out, static_cast<std::uint16_t>(kParts));
  put(out, static_cast<std::uint32_t>(size));
  put(out, begin >= UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(begin));
  put(out, std::uint16_t{0});
  return out;
}

}  // namespace hfshard::format::dcp
