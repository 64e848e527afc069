#include "format/dcp/piece.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/crc32.h"
#include "format/dcp/packed_item.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// Room for bytes that are only checked or skipped.
constexpr std::uint64_t kDropBytes = std::uint64_t{64} << 10;

// One box, with its axes in the order of the piece and the bytes of a unit as the last axis. All
// numbers are in bytes.
struct Lane {
  PiecePart part;
  std::vector<std::uint64_t> begin;  // in the piece
  std::vector<std::uint64_t> end;
  std::vector<std::uint64_t> stride;
  std::uint64_t first_byte = 0;  // of its elements, in the record
  std::uint64_t end_byte = 0;    // end of the last element
  // Axes behind it are whole in the piece, and packed.
  std::size_t level = 0;
  std::unique_ptr<PackedItem> packed;  // of a packed item, while reading it
  std::size_t decoder = 0;             // its scratch, for a packed item
  bool counted = false;                // read in order, so CRCs work
  std::uint64_t at = 0;                // end of the last read
  std::uint64_t open_begin = 0;        // start of the unreported part
  std::uint32_t crc = 0;
};

class BoxReader final : public PieceReader {
 public:
  BoxReader(std::vector<PiecePart> parts, PieceShape form, const StoredTensor& tensor,
            CrcParts& checks, std::span<std::byte> scratch)
      : form_(std::move(form)),
        tensor_(tensor),
        checks_(checks),
        scratch_(scratch.first(kDropBytes)),
        decoders_(scratch.subspan(kDropBytes)),
        taken_(decoders_.size() / PackedItem::scratch_bytes()) {
    for (const std::uint8_t axis : form_.order) {
      extent_.push_back(form_.extent[axis]);
      const std::uint64_t left = form_.shape[axis] - form_.begin[axis];
      valid_.push_back(std::min(form_.extent[axis], left));
    }
    extent_.push_back(form_.unit_bytes);
    valid_.push_back(form_.unit_bytes);
    below_.assign(extent_.size(), 1);
    for (std::size_t k = extent_.size() - 1; k-- > 0;) below_[k] = below_[k + 1] * extent_[k + 1];
    lanes_.reserve(parts.size());
    for (PiecePart& part : parts) {
      is_packed_ = is_packed_ || part.box->place.zstd;
      lanes_.push_back(make_lane(std::move(part)));
    }
  }

  void read(std::span<std::byte> out) override {
    while (!out.empty()) {
      const Run run = run_at(out.size());
      const auto to = out.first(run.bytes);
      if (run.lane == nullptr) {
        std::ranges::fill(to, std::byte{0});
      } else {
        read_lane(*run.lane, run.record_byte, to);
      }
      done_ += run.bytes;
      out = out.subspan(run.bytes);
    }
  }
  void skip(std::uint64_t bytes) override {
    const bool whole = done_ == 0 && bytes == below_[0] * extent_[0];
    while (bytes > 0 && is_packed_ && !whole) {
      const auto dropped = scratch_.first(std::min<std::uint64_t>(bytes, scratch_.size()));
      read(dropped);
      bytes -= dropped.size();
    }
    done_ += bytes;
  }

 private:
  struct Run {
    Lane* lane = nullptr;  // null: outside of the tensor
    std::uint64_t record_byte = 0;
    std::uint64_t bytes = 0;
  };

  Lane make_lane(PiecePart part) {
    Lane out;
    const StoredBox& box = *part.box;
    for (const std::uint8_t axis : form_.order) {
      out.begin.push_back(box.begin[axis] - form_.begin[axis]);
      out.end.push_back(out.begin.back() + box.extent[axis]);
    }
    out.begin.push_back(0);
    out.end.push_back(form_.unit_bytes);
    out.part = std::move(part);
    if (box.place.zstd) return out;
    place_elements(out);
    // Elements that aren't read in order need their CRC checked now.
    if (out.part.payload.has_crc && !out.counted) named(out, [&] { check_whole(out); });
    return out;
  }

  // Finds each element in the payload.
  void place_elements(Lane& out) const {
    const StoredBox& box = *out.part.box;
    const Payload& payload = out.part.payload;
    const bool in_order = is_packed(box.extent, payload.strides, form_.order);
    for (const std::uint8_t axis : form_.order)
      out.stride.push_back(payload.strides[axis] * form_.unit_bytes);
    out.stride.push_back(1);
    if (in_order) {  // an axis of one element may have any stride
      for (std::size_t k = out.stride.size() - 1; k-- > 0;)
        out.stride[k] = out.stride[k + 1] * (out.end[k + 1] - out.begin[k + 1]);
    }
    out.first_byte = payload.offset_units * form_.unit_bytes;
    out.end_byte = out.first_byte + 1;
    for (std::size_t k = 0; k < out.stride.size(); ++k)
      out.end_byte += (out.end[k] - out.begin[k] - 1) * out.stride[k];
    out.level = out.stride.size() - 1;
    while (out.level > 0 && out.begin[out.level] == 0 && out.end[out.level] == extent_[out.level] &&
           out.stride[out.level - 1] == out.stride[out.level] * extent_[out.level])
      --out.level;
    const std::uint64_t bytes = box.extent.numel() * form_.unit_bytes;
    out.counted = payload.has_crc && in_order && bytes == payload.size_bytes;
  }

  // -- Packed items

  void open_packed(Lane& lane) {
    const auto free = std::ranges::find(taken_, false);
    HFSHARD_CHECK(free != taken_.end());  // most_packed_at_once counted them
    lane.decoder = static_cast<std::size_t>(free - taken_.begin());
    taken_[lane.decoder] = true;
    const std::uint64_t bytes = PackedItem::scratch_bytes();
    named(lane, [&] {
      const StoredBox& box = *lane.part.box;
      lane.packed = std::make_unique<PackedItem>(*lane.part.file, box.place,
                                                 BoxForm{tensor_.dtype, box.extent},
                                                 decoders_.subspan(lane.decoder * bytes, bytes));
      lane.part.payload = lane.packed->payload();
      place_elements(lane);
      check_forward(lane);
    });
  }

  // Checks that elements follow each other in the record in the same order as in the piece.
  static void check_forward(const Lane& lane) {
    std::uint64_t behind = 1;  // the least that a step may be
    for (std::size_t k = lane.stride.size(); k-- > 0;) {
      const std::uint64_t count = lane.end[k] - lane.begin[k];
      if (count > 1 && lane.stride[k] < behind) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("the elements of an item that went through {} have another order "
                                "than those of the tensor's first item",
                                kZstdTransform));
      }
      if (count > 1) behind += (count - 1) * lane.stride[k];
    }
  }

  void read_packed(Lane& lane, std::uint64_t record_byte, std::span<std::byte> to) {
    named(lane, [&] {
      lane.packed->read(record_byte, to);
      if (record_byte + to.size() != lane.end_byte) return;
      lane.packed->finish();
      lane.packed.reset();
      taken_[lane.decoder] = false;
    });
  }

  void check_whole(const Lane& lane) const {
    const Payload& payload = lane.part.payload;
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < payload.size_bytes;) {
      const auto step =
          scratch_.first(std::min<std::uint64_t>(scratch_.size(), payload.size_bytes - at));
      lane.part.file->read_at(payload.begin_bytes + at, step);
      crc = crc32_extend(crc, step);
      at += step.size();
    }
    if (crc != payload.crc) throw Error(ErrorCode::corrupt, "the elements don't match their CRC");
  }

  template <typename Action>
  void named(const Lane& lane, const Action& action) const {
    try {
      action();
    } catch (Error& error) {
      const ItemPlace& place = lane.part.box->place;
      throw error.in_file(lane.part.file->name())
          .in_tensor(tensor_.name)
          .at(place.range(), lane.part.file->size_bytes());
    }
  }

  // Returns the next contiguous run, of at most `most` bytes.
  Run run_at(std::uint64_t most) {
    std::vector<std::uint64_t>& at = coordinates_;
    at.resize(extent_.size());
    std::uint64_t rest = done_;
    for (std::size_t k = 0; k < extent_.size(); ++k) {
      at[k] = rest / below_[k];
      rest %= below_[k];
    }
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (at[k] < valid_[k]) continue;
      return {nullptr, 0, std::min(most, (extent_[k] - at[k]) * below_[k] - done_ % below_[k])};
    }
    Lane& lane = lane_at();
    if (lane.part.box->place.zstd && !lane.packed) open_packed(lane);
    Run out{&lane, lane.first_byte, 0};
    for (std::size_t k = 0; k < at.size(); ++k)
      out.record_byte += (at[k] - lane.begin[k]) * lane.stride[k];
    const std::size_t level = lane.level;
    out.bytes =
        std::min(most, (lane.end[level] - at[level]) * below_[level] - done_ % below_[level]);
    if (lane.counted && !lane.packed) {  // CRCs are reported there
      const std::uint64_t cell = form_.cell_bytes;
      if (cell != 0) out.bytes = std::min(out.bytes, cell - out.record_byte % cell);
    }
    return out;
  }

  // Returns the box with the element at `coordinates_`, which is mostly the last one.
  Lane& lane_at() {
    const auto holds = [&](const Lane& lane) {
      for (std::size_t k = 0; k < coordinates_.size(); ++k) {
        if (coordinates_[k] < lane.begin[k] || coordinates_[k] >= lane.end[k]) return false;
      }
      return true;
    };
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const std::size_t number = (last_ + i) % lanes_.size();
      if (!holds(lanes_[number])) continue;
      last_ = number;
      return lanes_[number];
    }
    check_failed("boxes fill the tensor", __FILE__, __LINE__);
  }

  void read_lane(Lane& lane, std::uint64_t record_byte, std::span<std::byte> to) {
    if (lane.packed) return read_packed(lane, record_byte, to);
    named(lane, [&] {
      const Payload& payload = lane.part.payload;
      lane.part.file->read_at(payload.begin_bytes + record_byte, to);
      if (!lane.counted) return;
      if (record_byte != lane.at || lane.open_begin == lane.at) {
        // A gap ends a part.
        hand_over(lane);
        lane.open_begin = record_byte;
        lane.crc = 0;
      }
      lane.crc = crc32_extend(lane.crc, to);
      lane.at = record_byte + to.size();
      const std::uint64_t cell = form_.cell_bytes;
      if (lane.at == payload.size_bytes || (cell != 0 && lane.at % cell == 0)) hand_over(lane);
    });
  }

  void hand_over(Lane& lane) {
    const ByteRange part{std::exchange(lane.open_begin, lane.at), lane.at};
    if (part.begin == part.end) return;
    const Payload& payload = lane.part.payload;
    const auto crc =
        checks_.add(lane.part.item, part, std::exchange(lane.crc, 0), payload.size_bytes);
    if (!crc || *crc == payload.crc) return;
    throw Error(ErrorCode::corrupt,
                fmt::format("the elements don't match their CRC: {:08x} instead of {:08x}", *crc,
                            payload.crc));
  }

  const PieceShape form_;
  const StoredTensor& tensor_;
  CrcParts& checks_;
  const std::span<std::byte> scratch_;
  const std::span<std::byte> decoders_;
  std::vector<bool> taken_;  // decoders in use
  bool is_packed_ = false;   // a part is packed
  // By axis in the order of the piece, with the bytes of a unit last.
  std::vector<std::uint64_t> extent_;
  std::vector<std::uint64_t> valid_;  // the extent within the tensor
  std::vector<std::uint64_t> below_;  // bytes of one step
  std::vector<Lane> lanes_;
  std::vector<std::uint64_t> coordinates_;
  std::size_t last_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

std::uint64_t piece_scratch_bytes(std::uint64_t packed_at_once) noexcept {
  return kDropBytes + packed_at_once * PackedItem::scratch_bytes();
}

std::unique_ptr<PieceReader> open_boxes(std::vector<PiecePart> parts, PieceShape form,
                                        const StoredTensor& tensor, CrcParts& checks,
                                        std::span<std::byte> scratch) {
  return std::make_unique<BoxReader>(std::move(parts), std::move(form), tensor, checks, scratch);
}

}  // namespace hfshard::format::dcp
