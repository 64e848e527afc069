#include "format/dcp/object_digest.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32.h"
#include "base/digest.h"
#include "base/text.h"
#include "format/archive.h"
#include "format/dcp/item_stream.h"
#include "format/dcp/metadata.h"
#include "format/zip.h"

namespace hfshard::format::dcp {
namespace {

// torch's records about the archive itself. Source: pytorch/pytorch
// caffe2/serialize/inline_container.cc, torch/serialization.py.
constexpr std::array<std::string_view, 5> kBookkeeping = {
    ".data/serialization_id", ".format_version", ".storage_alignment", "byteorder", "version"};
constexpr std::string_view kLittle = "little";

// Larger objects are compared as they are stored.
constexpr std::uint64_t kMostUnpackedBytes = std::uint64_t{64} << 20;

// The bytes of an object without zstd.
class Unpacked final : public Source {
 public:
  Unpacked(std::vector<std::byte> bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    HFSHARD_CHECK(in_range(offset_bytes, out.size(), bytes_.size()));
    std::ranges::copy(std::span(bytes_).subspan(offset_bytes, out.size()), out.begin());
  }

 private:
  std::vector<std::byte> bytes_;
  std::string name_;
};

// Empty if the object has more bytes than hfshard holds.
std::optional<Unpacked> unpack(const SourceFile& file, const ObjectInfo& object) {
  const std::uint64_t scratch_bytes = ItemStream::scratch_bytes();
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(scratch_bytes);
  ItemStream stream(file, object.range, {scratch.get(), scratch_bytes});
  std::vector<std::byte> out;
  for (std::size_t made = 0;;) {
    out.resize(made + ObjectReader::kStepBytes);
    made += stream.read_some(std::span(out).subspan(made));
    if (made == out.size() && made < kMostUnpackedBytes) continue;
    if (made == out.size()) return std::nullopt;
    out.resize(made);
    return Unpacked(std::move(out), file.name());
  }
}

bool is_archive(const Source& file, ByteRange item) {
  std::array<std::byte, 4> front{};
  if (item.end - item.begin < front.size()) return false;
  file.read_at(item.begin, front);
  return as_text(front) == zip::kHeader;
}

// Streams a record of any size. Throws: corrupt (its CRC differs).
void read_record(const Archive& archive, const Archive::Record& record, const ByteSink& sink) {
  const std::uint64_t begin = archive.payload_bytes(record);
  std::vector<std::byte> buffer(
      std::min<std::uint64_t>(record.size_bytes, ObjectReader::kStepBytes));
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < record.size_bytes; at += buffer.size()) {
    const auto part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), record.size_bytes - at));
    archive.file().read_at(begin + at, part);
    crc = crc32_extend(crc, part);
    sink(part);
  }
  if (archive.has_crcs() && crc != record.crc)
    archive.fail(fmt::format("the record {} doesn't match its CRC", quote(record.name)));
}

std::string archive_digest(const Source& file, ByteRange item) {
  const Archive archive(file, item);
  std::vector<const Archive::Record*> records;
  for (const Archive::Record& record : archive.records()) records.push_back(&record);
  std::ranges::sort(records, {}, [](const auto* record) { return std::string_view(record->name); });
  Sha256 hash;
  for (const Archive::Record* record : records) {
    std::string order;
    const bool is_order = record->name == "byteorder";
    if (std::ranges::find(kBookkeeping, record->name) == kBookkeeping.end()) {
      hash.update(fmt::format("{}\n{}\n", record->name, record->size_bytes));
      read_record(archive, *record, [&](auto bytes) { hash.update(bytes); });
    } else {
      read_record(archive, *record, [&](auto bytes) {
        if (is_order && order.empty()) order = as_text(bytes);
      });
    }
    // torch writes `little` since 2.1. Older archives omit it, and their bytes are the same.
    if (is_order && order != kLittle) hash.update(order);
  }
  return to_hex(std::span<const std::byte>(hash.finish()));
}

}  // namespace

std::string object_digest(const ObjectReader& reader, const ObjectInfo& object) {
  const auto file = reader.open(object);
  try {
    if (object.transforms.empty() && is_archive(*file, object.range))
      return archive_digest(*file, object.range);
    if (object.transforms == std::vector<std::string>{std::string(kZstdTransform)}) {
      if (const auto unpacked = unpack(*file, object)) {
        const ByteRange all{0, unpacked->size_bytes()};
        if (is_archive(*unpacked, all)) return archive_digest(*unpacked, all);
      }
    }
  } catch (Error& error) {  // only here is the object known, and for zstd errors the file
    if (error.file().empty()) error.in_file(file->name());
    throw error.in_tensor(object.name);
  }
  return object_sha256(reader, object);
}

}  // namespace hfshard::format::dcp
