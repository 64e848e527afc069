#include "format/archive.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32.h"
#include "base/text.h"
#include "format/zip.h"

namespace hfshard::format {
namespace {

// Bytes that are read at once at each end of an item. torch's directories have a few hundred.
constexpr std::uint64_t kEndBytes = 2048;
// A comment can follow the end record.
constexpr std::uint64_t kMaxComment = 65535;
// Enough for a million records, far more than any model has.
constexpr std::uint64_t kMaxDirectory = std::uint64_t{128} << 20;
// Source: pytorch/pytorch caffe2/serialize/inline_container.h, kFieldAlignment.
constexpr std::uint64_t kTorchAlignment = 64;
// The extra fields of a header: two sizes of eight bytes, then the padding.
constexpr std::uint64_t kMaxExtra = 20 + 4 + kTorchAlignment;

}  // namespace

Archive::Archive(const Source& file, ByteRange item, std::string_view what)
    : file_(file), item_(item), what_(what) {
  const std::uint64_t size = item_.end - item_.begin;
  if (!in_range(item_.begin, size, file.size_bytes()))
    fail(fmt::format("the {} passes the end of its file", what_));
  front_ = bytes(0, std::min(size, kEndBytes));
  back_ = bytes(size - std::min(size, kEndBytes), std::min(size, kEndBytes));
  read_records(find_directory());
}

void Archive::fail(std::string sentence, ErrorCode code) const {
  throw Error(code, std::move(sentence)).in_file(file_.name()).at(item_, file_.size_bytes());
}

std::string Archive::bytes(std::uint64_t offset, std::uint64_t size) const {
  const std::uint64_t total = item_.end - item_.begin;
  if (!in_range(offset, size, total)) {
    fail(fmt::format("the archive has {} bytes at {}, but the {} has {} in all", size, offset,
                     what_, total));
  }
  if (in_range(offset, size, front_.size())) return front_.substr(offset, size);
  const std::uint64_t back = total - back_.size();
  if (offset >= back && !back_.empty()) return back_.substr(offset - back, size);
  std::string out(size, '\0');
  file_.read_at(item_.begin + offset, std::as_writable_bytes(std::span(out)));
  return out;
}

const Archive::Record* Archive::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(by_name_, name, {}, [&](std::uint32_t index) {
    return std::string_view(records_[index].name);
  });
  return found == by_name_.end() || records_[*found].name != name ? nullptr : &records_[*found];
}

Archive::Directory Archive::find_directory() {
  const std::uint64_t size = item_.end - item_.begin;
  const std::uint64_t looked = std::min(size, kMaxComment + zip::kEndBytes);
  // Known writers leave no comment, so the last record is at the end.
  std::string last = bytes(size - std::min(size, zip::kEndBytes), std::min(size, zip::kEndBytes));
  std::uint64_t end_bytes = size - last.size();
  if (!last.starts_with(zip::kEnd)) {
    last = bytes(size - looked, looked);
    const std::size_t at = last.rfind(zip::kEnd);
    if (at == std::string::npos || last.size() - at < zip::kEndBytes)
      fail(fmt::format("the {} isn't an archive: it doesn't end with a zip directory", what_));
    end_bytes = size - looked + at;
    last = last.substr(at, zip::kEndBytes);
  }
  if (zip::number_at<std::uint16_t>(last, 20) != size - end_bytes - zip::kEndBytes)
    fail("the archive has bytes after its end that aren't a comment");
  Directory out{zip::number_at<std::uint32_t>(last, 16), zip::number_at<std::uint32_t>(last, 12),
                zip::number_at<std::uint16_t>(last, 10)};
  if (zip::number_at<std::uint16_t>(last, 4) != 0 || zip::number_at<std::uint16_t>(last, 6) != 0)
    fail("the archive is split into several parts");
  if (end_bytes < zip::kLocatorBytes) return out;
  const std::string locator = bytes(end_bytes - zip::kLocatorBytes, zip::kLocatorBytes);
  if (!locator.starts_with(zip::kLocator)) return out;
  const Directory wide = wide_directory(zip::number_at<std::uint64_t>(locator, 8));
  const auto agrees = [](std::uint64_t narrow, std::uint64_t other, std::uint64_t open) {
    return narrow == other || narrow == open;
  };
  if (!agrees(out.begin, wide.begin, UINT32_MAX) || !agrees(out.size, wide.size, UINT32_MAX) ||
      !agrees(out.count, wide.count, UINT16_MAX))
    fail("the archive's two end records contradict each other");
  return wide;
}

Archive::Directory Archive::wide_directory(std::uint64_t end_bytes) const {
  const std::string end = bytes(end_bytes, zip::kWideEndBytes);
  if (!end.starts_with(zip::kWideEnd)) fail("the archive lacks its ZIP64 end record");
  return {zip::number_at<std::uint64_t>(end, 48), zip::number_at<std::uint64_t>(end, 40),
          zip::number_at<std::uint64_t>(end, 32)};
}

// Reads the ZIP64 field of a directory entry. It has the sizes and the offset that don't fit.
void Archive::read_wide(std::string_view extra, Record& record, bool stored_wide) const {
  while (extra.size() >= 4) {
    const auto id = zip::number_at<std::uint16_t>(extra, 0);
    const std::size_t size = zip::number_at<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    std::string_view field = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != zip::kWideField) continue;
    const auto take = [&]() -> std::uint64_t {
      if (field.size() < 8) fail("a ZIP64 field that is too short");
      const auto out = zip::number_at<std::uint64_t>(field, 0);
      field.remove_prefix(8);
      return out;
    };
    if (record.size_bytes == UINT32_MAX) record.size_bytes = take();
    if (stored_wide && take() != record.size_bytes) fail("a record whose two sizes differ");
    if (record.header_bytes == UINT32_MAX) record.header_bytes = take();
    return;
  }
}

// Torch doesn't compress. If the header agrees with the directory, another program compressed it.
void Archive::check_stored(const Record& record, std::uint16_t method) const {
  if (method == 0 && (record.flags & zip::kEncrypted) == 0) return;
  const std::string head = bytes(record.header_bytes, zip::kHeaderBytes);
  const bool agree = zip::number_at<std::uint16_t>(head, 6) == record.flags &&
                     zip::number_at<std::uint16_t>(head, 8) == method;
  if (agree && record.name.find("/code/") != std::string::npos)
    fail("a TorchScript program, which hfshard can't read", ErrorCode::unsupported);
  fail(fmt::format("the record {} is compressed or encrypted", quote(record.name)),
       agree ? ErrorCode::unsupported : ErrorCode::corrupt);
}

void Archive::read_records(const Directory& directory) {
  if (directory.size > kMaxDirectory)
    fail(fmt::format("a zip directory of {}", human_bytes(directory.size)), ErrorCode::limit);
  directory_ = bytes(directory.begin, directory.size);
  directory_begin_ = directory.begin;
  std::string_view rest = directory_;
  std::string folder;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < zip::kEntryBytes || !rest.starts_with(zip::kEntry))
      fail(fmt::format("the zip directory is truncated: it has {} of {} entries", i,
                       directory.count));
    const std::size_t name_bytes = zip::number_at<std::uint16_t>(rest, 28);
    const std::size_t extra_bytes = zip::number_at<std::uint16_t>(rest, 30);
    const std::size_t total =
        zip::kEntryBytes + name_bytes + extra_bytes + zip::number_at<std::uint16_t>(rest, 32);
    if (total > rest.size()) fail("an entry passes the end of the zip directory");
    Record record;
    record.name = rest.substr(zip::kEntryBytes, name_bytes);
    record.flags = zip::number_at<std::uint16_t>(rest, 8);
    record.crc = zip::number_at<std::uint32_t>(rest, 16);
    record.size_bytes = zip::number_at<std::uint32_t>(rest, 24);
    record.header_bytes = zip::number_at<std::uint32_t>(rest, 42);
    const auto stored = zip::number_at<std::uint32_t>(rest, 20);
    check_stored(record, zip::number_at<std::uint16_t>(rest, 10));
    if (stored != UINT32_MAX && stored != record.size_bytes)
      fail(fmt::format("the record {} has two sizes", quote(record.name)));
    read_wide(rest.substr(zip::kEntryBytes + name_bytes, extra_bytes), record,
              stored == UINT32_MAX);
    const std::size_t slash = record.name.find('/');
    if (slash == std::string::npos) fail("a record of the archive isn't in a folder");
    if (i == 0) folder = record.name.substr(0, slash + 1);
    if (!record.name.starts_with(folder)) fail("the records of the archive are in two folders");
    record.name.erase(0, folder.size());
    has_crcs_ = has_crcs_ || record.crc != 0;
    records_.push_back(std::move(record));
    rest.remove_prefix(total);
  }
  if (records_.empty()) fail("an archive without records");
  folder_bytes_ = folder.size();
  index_records();
}

void Archive::index_records() {
  const auto name_of = [&](std::uint32_t index) { return std::string_view(records_[index].name); };
  by_name_.resize(records_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::uint32_t{0});
  std::ranges::sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice != by_name_.end())
    fail(fmt::format("the archive has the record {} twice", quote(name_of(*twice))));
  headers_.reserve(records_.size());
  for (const Record& record : records_) headers_.push_back(record.header_bytes);
  std::ranges::sort(headers_);
}

std::optional<std::uint64_t> Archive::placed_bytes(const Record& record) const {
  const auto next = std::ranges::upper_bound(headers_, record.header_bytes);
  const std::uint64_t end = next == headers_.end() ? directory_begin_ : *next;
  const auto least =
      checked_add(record.header_bytes, zip::kHeaderBytes + folder_bytes_ + record.name.size());
  if (!least || *least > end || !in_range(0, end, item_.end - item_.begin)) return std::nullopt;
  std::optional<std::uint64_t> out;
  for (const std::uint64_t behind : {zip::kDescriptorBytes, zip::kWideDescriptorBytes}) {
    if (record.size_bytes > end - *least || behind > end - *least - record.size_bytes) continue;
    const std::uint64_t begin = end - behind - record.size_bytes;
    if (begin % kTorchAlignment != 0 || begin - *least > kMaxExtra) continue;
    out = item_.begin + begin;  // the two differ by 8, so one is aligned
  }
  return (record.flags & zip::kSizesFollow) != 0 ? out : std::nullopt;
}

std::uint64_t Archive::payload_bytes(const Record& record) const {
  const std::string head = bytes(record.header_bytes, zip::kHeaderBytes);
  const std::uint64_t begin = record.header_bytes + zip::kHeaderBytes +
                              zip::number_at<std::uint16_t>(head, 26) +
                              zip::number_at<std::uint16_t>(head, 28);
  const std::string name =
      bytes(record.header_bytes + zip::kHeaderBytes, zip::number_at<std::uint16_t>(head, 26));
  const bool later = (record.flags & zip::kSizesFollow) != 0;
  if (!head.starts_with(zip::kHeader) || zip::number_at<std::uint16_t>(head, 6) != record.flags ||
      zip::number_at<std::uint16_t>(head, 8) != 0 || !name.ends_with("/" + record.name) ||
      (!later && zip::number_at<std::uint32_t>(head, 14) != record.crc))
    fail(fmt::format("the header of the record {} differs from the directory", quote(record.name)));
  if (!in_range(begin, record.size_bytes, item_.end - item_.begin))
    fail(fmt::format("the record {} passes the end of its {}", quote(record.name), what_));
  return item_.begin + begin;
}

std::string Archive::read(const Record& record, std::uint64_t most) const {
  if (record.size_bytes > most)
    fail(fmt::format("the record {} of {}", quote(record.name), human_bytes(record.size_bytes)),
         ErrorCode::limit);
  std::string out = bytes(payload_bytes(record) - item_.begin, record.size_bytes);
  if (has_crcs() && crc32(as_bytes(out)) != record.crc)
    fail(fmt::format("the record {} doesn't match its CRC", quote(record.name)));
  return out;
}

}  // namespace hfshard::format
