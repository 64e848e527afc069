#include "support/toy_format/toy_piece.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32c.h"
#include "base/zstd.h"
#include "catalog/format.h"

#include "hfshard/error.h"

namespace hfshard::toy {
namespace {

constexpr std::string_view kMagic = "TOYPIECE";
constexpr std::uint32_t kHeadBytes = 16;
constexpr std::uint32_t kCrcBytes = 4;

bool fills_bytes(DType dtype) { return size_bits(dtype) % 8 == 0; }

// Ends bytes with the crc32c of those before it.
void put_crc(std::span<std::byte> bytes) {
  const auto end = bytes.size() - kCrcBytes;
  store_le(bytes.data() + end, crc32c(bytes.first(end)));
}

bool crc_holds(std::span<const std::byte> bytes) {
  const auto end = bytes.size() - kCrcBytes;
  return load_le<std::uint32_t>(bytes.data() + end) == crc32c(bytes.first(end));
}

class ToyPiece final : public PieceReader {
 public:
  ToyPiece(std::shared_ptr<const SourceFile> file, const Place& place, const PieceForm& form,
           const std::string& array)
      : file_(std::move(file)), place_(place), form_(form), array_(array) {
    const auto leading = stored({0, kLeading.size()});
    if (as_text(leading) != kLeading) fail("not a data file of this format", {0, leading.size()});
    const ByteRange head{place.offset_bytes, place.offset_bytes + kHeadBytes};
    const auto found = stored(head);
    const bool good = as_text(found).starts_with(kMagic) && crc_holds(found) &&
                      load_le<std::uint32_t>(found.data() + kMagic.size()) == form.cells;
    if (!good) fail("the head of a piece is not as it was", head);
    const std::uint64_t end = place.offset_bytes + place.length_bytes;
    const ByteRange tail{end - form.tail_bytes, end};
    lengths_ = stored(tail);
    if (!crc_holds(lengths_)) fail("the tail of a piece is not as it was", tail);
    next_cell_ = head.end;
  }

  void read(std::span<std::byte> out) override {
    while (!out.empty()) {
      if (at_ == cell_.size()) load_cell();
      const std::size_t size = std::min(out.size(), cell_.size() - at_);
      std::memcpy(out.data(), cell_.data() + at_, size);
      at_ += size;
      out = out.subspan(size);
    }
  }

  void skip(std::uint64_t bytes) override {
    std::vector<std::byte> dropped(bytes);
    read(dropped);
  }

 private:
  std::vector<std::byte> stored(ByteRange range) const {
    std::vector<std::byte> out(range.end - range.begin);
    try {
      file_->read_at(range.begin, out);
    } catch (Error& error) {  // only here is the array known
      throw error.in_tensor(array_);
    }
    return out;
  }

  [[noreturn]] void fail(std::string sentence, ByteRange range) const {
    throw Error(ErrorCode::corrupt, std::move(sentence))
        .in_file(file_->name())
        .in_tensor(array_)
        .at(range, file_->size_bytes());
  }

  void load_cell() {
    const auto length = load_le<std::uint32_t>(lengths_.data() + std::size_t{4} * cells_read_++);
    const ByteRange range{next_cell_, next_cell_ + length + form_.cell_suffix_bytes};
    next_cell_ = range.end;
    cell_ = stored(range);
    if (form_.cell_suffix_bytes != 0 && !crc_holds(cell_)) fail("a cell is not as it was", range);
    cell_.resize(length);
    try {
      if (form_.zstd_level != 0) cell_ = decode_zstd(cell_, form_.cell_bytes);
    } catch (const Error& error) {  // only here is the frame's place known
      fail(error.sentence(), range);
    }
    if (cell_.size() != form_.cell_bytes) fail("a cell has another size", range);
    at_ = 0;
  }

  std::shared_ptr<const SourceFile> file_;
  Place place_;
  PieceForm form_;
  std::string array_;
  std::vector<std::byte> lengths_;
  std::uint64_t next_cell_ = 0;
  std::size_t cells_read_ = 0;
  std::vector<std::byte> cell_;
  std::size_t at_ = 0;
};

}  // namespace

PieceForm form_of(const Array& array, const Grid& grid, const Encoding& encoding) {
  if (!fills_bytes(array.dtype) || array.dtype == DType::boolean || array.dtype == DType::c64) {
    throw Error(ErrorCode::unsupported,
                "the toy format has no " + std::string(to_string(array.dtype)))
        .in_tensor(array.name);
  }
  PieceForm out;
  out.head_bytes = kHeadBytes;
  out.cell_bytes = packed_bytes(array.dtype, grid.inner.numel());
  for (std::size_t d = 0; d < grid.chunk.rank(); ++d)
    out.cells *= static_cast<std::uint32_t>(grid.chunk[d] / grid.inner[d]);
  out.cell_suffix_bytes = encoding.checksum ? kCrcBytes : 0;
  out.tail_bytes = 4 * out.cells + kCrcBytes;
  out.zstd_level = encoding.zstd_level;
  if (encoding.zstd_level == 0) return out;
  out.cell_growth_bytes = zstd_most_bytes(out.cell_bytes) - out.cell_bytes;
  out.scratch_bytes = round_up(zstd_most_bytes(out.cell_bytes), 64) +
                      zstd_encoder_bytes(out.zstd_level, out.cell_bytes);
  return out;
}

std::uint64_t seal(const PieceForm& form, std::span<std::byte> stored,
                   std::span<std::byte> scratch) {
  HFSHARD_CHECK(stored.size() == form.stored_bytes());
  std::vector<std::byte> tail(form.tail_bytes);
  std::memcpy(stored.data(), kMagic.data(), kMagic.size());
  store_le(stored.data() + kMagic.size(), form.cells);
  put_crc(stored.first(kHeadBytes));
  std::uint64_t length = kHeadBytes;
  for (std::uint64_t cell = 0; cell < form.cells; ++cell) {
    const auto bytes = stored.subspan(kHeadBytes + cell * form.cell_step_bytes(), form.cell_bytes);
    std::uint64_t size = form.cell_bytes;
    if (form.zstd_level != 0) {
      const auto frame = scratch.first(round_up(form.cell_bytes + form.cell_growth_bytes, 64));
      size = encode_zstd(bytes, form.zstd_level, frame, scratch.subspan(frame.size()));
      std::memcpy(stored.data() + length, frame.data(), size);
    }
    store_le(tail.data() + 4 * cell, static_cast<std::uint32_t>(size));
    size += form.cell_suffix_bytes;
    if (form.cell_suffix_bytes != 0) put_crc(stored.subspan(length, size));
    length += size;
  }
  put_crc(tail);
  std::ranges::copy(tail, stored.begin() + static_cast<std::ptrdiff_t>(length));
  return length + tail.size();
}

std::unique_ptr<PieceReader> open_piece(std::shared_ptr<const SourceFile> file, const Place& place,
                                        const PieceForm& form, const std::string& array) {
  return std::make_unique<ToyPiece>(std::move(file), place, form, array);
}

}  // namespace hfshard::toy
