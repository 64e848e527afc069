#include "format/dcp/packed_item.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32.h"
#include "base/text.h"
#include "format/archive.h"
#include "format/zip.h"

namespace hfshard::format::dcp {
namespace {

Error broken(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

// Reads the records in front of the elements from their headers. If a header lacks the size, the
// record ends at a descriptor that has its size and CRC.
class Front {
 public:
  Front(ItemStream& stream, std::span<std::byte> room) : stream_(stream), room_(room) {}

  // Reads up to the elements.
  TensorPickle read(const std::string& file, const BoxForm& form) {
    std::optional<TensorPickle> tensor;
    while (true) {
      const Header header = read_header();
      if (tensor && header.name == tensor->record) return *std::move(tensor);
      const std::string_view content = read_content(header);
      if (header.name == "byteorder") check_byte_order(content);
      if (header.name == "data.pkl")
        tensor = read_box_pickle(Pickle(std::string(content), file, Persistent::allowed), form);
    }
  }
  // Returns the bytes of the archive that were read.
  std::size_t size_bytes() const noexcept { return read_; }

 private:
  struct Header {
    std::string name;  // without the folder
    bool size_follows = false;
    std::uint32_t crc = 0;
    std::uint32_t size_bytes = 0;
  };

  // Returns the archive from `begin` to `end`.
  std::string_view bytes(std::size_t begin, std::uint64_t end) {
    if (end > room_.size()) {
      throw Error(ErrorCode::limit, fmt::format("more than {} before the elements of an item",
                                                human_bytes(room_.size())));
    }
    if (end > read_) {
      stream_.read(room_.subspan(read_, end - read_));
      read_ = end;
    }
    return as_text(room_.first(end)).substr(begin);
  }

  Header read_header() {
    const std::string_view head = bytes(at_, at_ + zip::kHeaderBytes);
    if (!head.starts_with(zip::kHeader)) throw broken("the item isn't an archive with elements");
    const auto flags = zip::number_at<std::uint16_t>(head, 6);
    Header out;
    out.size_follows = (flags & zip::kSizesFollow) != 0;
    out.crc = zip::number_at<std::uint32_t>(head, 14);
    out.size_bytes = zip::number_at<std::uint32_t>(head, 22);
    const bool plain =
        zip::number_at<std::uint16_t>(head, 8) == 0 && (flags & zip::kEncrypted) == 0;
    const std::size_t name_bytes = zip::number_at<std::uint16_t>(head, 26);
    const std::size_t extra_bytes = zip::number_at<std::uint16_t>(head, 28);
    at_ += zip::kHeaderBytes;
    const std::string_view name = bytes(at_, at_ + name_bytes + extra_bytes).substr(0, name_bytes);
    out.name = name.substr(std::min(name.find('/'), name.size() - 1) + 1);
    at_ += name_bytes + extra_bytes;
    if (plain) return out;
    throw Error(ErrorCode::unsupported,
                fmt::format("the record {} is compressed or encrypted", quote(out.name)));
  }

  std::string_view read_content(const Header& header) {
    if (header.size_follows) return read_described();
    const std::string_view out = bytes(at_, at_ + std::uint64_t{header.size_bytes});
    at_ += out.size();
    if (crc32(as_bytes(out)) == header.crc) return out;
    throw broken(fmt::format("the record {} doesn't match its CRC", quote(header.name)));
  }

  std::string_view read_described() {
    const std::size_t begin = at_;
    while (true) {
      // At least one descriptor follows.
      const std::string_view ahead = bytes(at_, at_ + zip::kDescriptorBytes);
      const std::size_t found = ahead.find(zip::kDescriptor);
      if (found != 0) {
        at_ += found != ahead.npos ? found : ahead.size() - (zip::kDescriptor.size() - 1);
        continue;
      }
      const std::string_view content =
          bytes(begin, at_ + zip::kDescriptorBytes).substr(0, at_ - begin);
      const std::uint64_t descriptor_bytes = descriptor_at(content);
      if (descriptor_bytes == 0) {
        ++at_;
        continue;
      }
      at_ += descriptor_bytes;
      return content;
    }
  }

  // Returns the length of this content's descriptor at at_, or 0 if at_ has no such descriptor. If
  // the record's header has a ZIP64 field, the descriptor's two sizes have eight bytes each.
  std::uint64_t descriptor_at(std::string_view content) {
    const std::string_view narrow = bytes(at_, at_ + zip::kDescriptorBytes);
    if (zip::number_at<std::uint32_t>(narrow, 8) != content.size() ||
        zip::number_at<std::uint32_t>(narrow, 4) != crc32(as_bytes(content)))
      return 0;
    const auto next_is = [&](std::uint64_t size) {
      return bytes(at_ + size, at_ + size + 2) == zip::kHeader.substr(0, 2);
    };
    if (zip::number_at<std::uint32_t>(narrow, 12) == content.size() &&
        next_is(zip::kDescriptorBytes))
      return zip::kDescriptorBytes;
    const std::string_view wide = bytes(at_, at_ + zip::kWideDescriptorBytes);
    const bool is_wide = zip::number_at<std::uint64_t>(wide, 8) == content.size() &&
                         zip::number_at<std::uint64_t>(wide, 16) == content.size();
    return is_wide && next_is(zip::kWideDescriptorBytes) ? zip::kWideDescriptorBytes : 0;
  }

  ItemStream& stream_;
  std::span<std::byte> room_;
  std::size_t read_ = 0;
  std::size_t at_ = 0;
};

// An archive whose elements read as zeros. Archive never reads the elements, and PackedItem checks
// their CRC.
class Surroundings final : public Source {
 public:
  Surroundings(const std::string& name, std::span<const std::byte> front, std::uint64_t between,
               std::span<const std::byte> back)
      : name_(name), front_(front), back_begin_(front.size() + between), back_(back) {}
  std::uint64_t size_bytes() const override { return back_begin_ + back_.size(); }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    std::ranges::fill(out, std::byte{0});
    copy_part(front_, 0, offset_bytes, out);
    copy_part(back_, back_begin_, offset_bytes, out);
  }

 private:
  // Copies the bytes of `part`, which begins at `part_begin`, that are in the range of `out`.
  static void copy_part(std::span<const std::byte> part, std::uint64_t part_begin,
                        std::uint64_t offset, std::span<std::byte> out) {
    const std::uint64_t begin = std::max(part_begin, offset);
    const std::uint64_t end = std::min(part_begin + part.size(), offset + out.size());
    if (begin >= end) return;
    std::ranges::copy(part.subspan(begin - part_begin, end - begin),
                      out.subspan(begin - offset).begin());
  }

  const std::string& name_;
  std::span<const std::byte> front_;
  std::uint64_t back_begin_;
  std::span<const std::byte> back_;
};

}  // namespace

std::uint64_t PackedItem::scratch_bytes() noexcept {
  return ItemStream::scratch_bytes() + 2 * kMostAround;
}

PackedItem::PackedItem(const Source& file, const ItemPlace& place, BoxForm form,
                       std::span<std::byte> scratch)
    : file_(file),
      item_(place.range()),
      form_(std::move(form)),
      stream_(file, item_, scratch.subspan(2 * kMostAround)),
      front_(scratch.first(kMostAround)),
      room_(scratch.subspan(kMostAround, kMostAround)) {
  named([&] { read_front(); });
}

// Replaces ranges in the archive with the item's range in the file.
template <typename Action>
void PackedItem::named(const Action& action) const {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io || error.code() == ErrorCode::network ||
        error.code() == ErrorCode::access)
      throw;
    throw Error(error.code(), error.sentence()).in_file(file_.name()).at(item_, file_.size_bytes());
  }
}

void PackedItem::read_front() {
  if (!in_range(item_.begin, item_.end - item_.begin, file_.size_bytes()))
    throw broken("the item passes the end of its file");
  Front front(stream_, front_);
  TensorPickle found = front.read(file_.name(), form_);
  front_ = front_.first(front.size_bytes());
  payload_ = {front_.size(), found.storage_bytes, found.offset, std::move(found.strides), true, 0};
}

void PackedItem::pass_to(std::uint64_t record_byte) {
  while (at_ < record_byte) {
    const auto dropped = room_.first(std::min<std::uint64_t>(room_.size(), record_byte - at_));
    stream_.read(dropped);
    crc_ = crc32_extend(crc_, dropped);
    at_ += dropped.size();
  }
}

void PackedItem::read(std::uint64_t record_byte, std::span<std::byte> out) {
  HFSHARD_CHECK(record_byte >= at_ && in_range(record_byte, out.size(), payload_.size_bytes));
  named([&] {
    pass_to(record_byte);
    stream_.read(out);
    crc_ = crc32_extend(crc_, out);
    at_ += out.size();
  });
}

void PackedItem::finish() {
  named([&] {
    pass_to(payload_.size_bytes);
    const auto back = room_.first(stream_.read_some(room_));
    if (back.size() == room_.size()) {
      throw Error(ErrorCode::limit, fmt::format("{} or more after the elements of an item",
                                                human_bytes(room_.size())));
    }
    check_archive(back);
  });
}

// Checks that the directory agrees with the front: the same layout, and the CRC of the elements.
void PackedItem::check_archive(std::span<const std::byte> back) const {
  const Surroundings around(file_.name(), front_, payload_.size_bytes, back);
  const Archive archive(around, {0, around.size_bytes()});
  const Payload found = find_payload(archive, form_);
  if (found.offset_units != payload_.offset_units || found.strides != payload_.strides)
    throw broken("the headers of the archive and its directory have different elements");
  if (found.crc == crc_) return;
  throw broken(
      fmt::format("the elements don't match their CRC: {:08x} instead of {:08x}", crc_, found.crc));
}

}  // namespace hfshard::format::dcp
