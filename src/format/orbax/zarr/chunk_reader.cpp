#include "format/orbax/zarr/chunk_reader.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32c.h"
#include "format/orbax/zarr/codec.h"

namespace hfshard::format::orbax::zarr {
namespace {

// Stored bytes that are decoded at once: enough for a disk, small compared to a chunk.
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
// Room for skipped bytes that must be decoded.
constexpr std::size_t kDropBytes = std::size_t{16} << 10;

Error bad_chunk(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

std::string_view noun(const Array& array) {
  return array.compressor == Compressor::zstd ? "a zstd frame" : "a deflate stream";
}

bool is_packed(const Array& array) { return array.compressor != Compressor::none; }

// Returns the coordinates of inner chunk `index` in C order.
Shape cell_at(const Array& array, std::uint64_t index) {
  Shape out = array.chunk;
  for (std::size_t axis = array.chunk.rank(); axis-- > 0;) {
    const std::uint64_t along = array.chunk[axis] / array.inner[axis];
    out[axis] = index % along;
    index /= along;
  }
  return out;
}

// Returns the place in the index for inner chunk number `cell` in C order.
std::uint64_t index_of(const Array& array, std::uint64_t cell) {
  if (array.index_order.empty()) return cell;
  const Shape at = cell_at(array, cell);
  std::uint64_t out = 0;
  for (const std::uint8_t axis : array.index_order)
    out = out * (array.chunk[axis] / array.inner[axis]) + at[axis];
  return out;
}

// Returns whether an inner chunk has no element in the array.
bool is_outside(const Array& array, const Shape& chunk, const Shape& cell) {
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    const std::uint64_t begin = chunk[axis] * array.chunk[axis] + cell[axis] * array.inner[axis];
    if (begin >= array.shape[axis]) return true;
  }
  return false;
}

// A checksum that is decoded with the elements must not reach the output.
std::uint64_t window_of(const Array& array, PieceSteps steps) {
  const bool in_place = steps == PieceSteps::whole_cells && !array.inner_crc32c;
  return array.compressor == Compressor::zstd && !in_place ? ChunkReader::kMaxWindowBytes : 0;
}

std::uint64_t index_bytes(const PieceForm& form) { return form.head_bytes + form.tail_bytes; }

}  // namespace

void put_fill(const Array& array, std::uint64_t offset_bytes, std::span<std::byte> out) {
  const std::array<std::byte, 8> element = array.fill.value_or(std::array<std::byte, 8>{});
  const std::size_t size = size_bits(array.dtype) / 8;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = element[(offset_bytes + i) % size];
}

std::uint64_t chunk_scratch_bytes(const Array& array, const PieceForm& form,
                                  std::uint64_t longest_bytes, PieceSteps steps) {
  if (!is_packed(array)) return index_bytes(form);
  return index_bytes(form) + Frame::scratch_bytes(array.compressor, window_of(array, steps)) +
         std::min(longest_bytes, kBlockBytes);
}

ChunkReader::ChunkReader(const Array& array, const PieceForm& form, const Shape& chunk,
                         const Source& stored, PieceSteps steps, std::span<std::byte> scratch)
    : array_(array),
      form_(form),
      chunk_(chunk),
      stored_(stored),
      content_bytes_(array.content_bytes(form)),
      window_bytes_(window_of(array, steps)) {
  HFSHARD_CHECK(scratch.size() >= chunk_scratch_bytes(array, form, stored.size_bytes(), steps));
  index_ = scratch.first(index_bytes(form));
  if (!is_packed(array)) return;
  const std::uint64_t decoder = Frame::scratch_bytes(array.compressor, window_bytes_);
  decoder_scratch_ = scratch.subspan(index_.size(), decoder);
  block_ = scratch.subspan(index_.size() + decoder);
  block_ = block_.first(std::min<std::uint64_t>(block_.size(), kBlockBytes));
}

// Adds the range, which is known only here, to errors in an inner chunk.
template <typename Action>
void ChunkReader::in_cell(const Action& action) {
  try {
    action();
  } catch (Error& error) {
    if (array_.sharded && range_ && error.file().empty()) error.at(*range_, stored_.size_bytes());
    throw;
  }
}

// Reports a checksum mismatch instead of the decoder's error.
template <typename Action>
void ChunkReader::in_frame(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt || !array_.crc32c || !error.file().empty()) throw;
    while (next_ < end_) fill_input();
    check_sum();
    throw;
  }
}

void ChunkReader::read(std::span<std::byte> out) {
  while (!out.empty()) {
    HFSHARD_CHECK(cell_ < form_.cells);
    if (!is_open_) open_cell();
    const auto part =
        out.first(std::min<std::uint64_t>(out.size(), form_.cell_bytes - done_bytes_));
    in_cell([&] { read_cell(part); });
    done_bytes_ += part.size();
    if (done_bytes_ == form_.cell_bytes) in_cell([&] { close_cell(); });
    out = out.subspan(part.size());
  }
}

void ChunkReader::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    HFSHARD_CHECK(cell_ < form_.cells);
    const bool whole = done_bytes_ == 0 && bytes >= form_.cell_bytes;
    if (whole) {
      bytes -= form_.cell_bytes;
      ++cell_;
      continue;
    }
    const std::uint64_t part = std::min(bytes, form_.cell_bytes - done_bytes_);
    bytes -= part;
    if (is_packed(array_) || array_.crc32c) {
      drop(part);
      continue;
    }
    if (!is_open_) open_cell();
    next_ += part;
    done_bytes_ += part;
    if (done_bytes_ == form_.cell_bytes) close_cell();
  }
}

void ChunkReader::drop(std::uint64_t bytes) {
  std::array<std::byte, kDropBytes> dropped{};
  while (bytes > 0) {
    const auto part = std::span(dropped).first(std::min<std::uint64_t>(bytes, dropped.size()));
    read(part);
    bytes -= part.size();
  }
}

// -- Cells

void ChunkReader::read_index() {
  const std::uint64_t total = stored_.size_bytes();
  if (total < index_.size()) {
    throw bad_chunk(fmt::format("{} bytes, too few for an index of {}", total, index_.size()));
  }
  const std::uint64_t at = array_.index_first ? 0 : total - index_.size();
  stored_.read_at(at, index_);
  has_index_ = true;
  if (!array_.index_crc32c) return;
  const auto entries = index_.first(index_.size() - kCrcBytes);
  if (crc32c(entries) != load_le<std::uint32_t>(entries.data() + entries.size())) {
    throw bad_chunk("checksum mismatch in the index of inner chunks")
        .at({at, at + index_.size()}, total);
  }
}

// Returns the cell's range from the index. Empty if the cell is missing and may be.
std::optional<ByteRange> ChunkReader::indexed_range() const {
  const std::uint64_t total = stored_.size_bytes();
  const std::uint64_t begin = form_.head_bytes;
  const std::uint64_t data_bytes = total - index_.size();
  const std::uint64_t at = index_of(array_, cell_) * kIndexEntryBytes;
  const auto offset = load_le<std::uint64_t>(index_.data() + at);
  const auto length = load_le<std::uint64_t>(index_.data() + at + 8);
  const std::uint64_t wanted = form_.cell_bytes + form_.cell_suffix_bytes;
  const bool absent = offset == UINT64_MAX && length == UINT64_MAX;
  if (absent && (array_.may_lack || is_outside(array_, chunk_, cell_at(array_, cell_))))
    return std::nullopt;
  if (offset >= begin && in_range(offset - begin, length, data_bytes) &&
      (is_packed(array_) || length == wanted)) {
    return ByteRange{offset, offset + length};
  }
  const std::uint64_t entry = (array_.index_first ? 0 : data_bytes) + at;
  throw bad_chunk(
      absent ? fmt::format("inner chunk {} of {} is missing", cell_, form_.cells)
             : fmt::format(
                   "inner chunk {} has offset {} and length {}; it needs {} within {} bytes", cell_,
                   offset, length, is_packed(array_) ? "a range" : fmt::format("length {}", wanted),
                   data_bytes))
      .at({entry, entry + kIndexEntryBytes}, total);
}

// Sets the range of the cell's coded bytes, without the checksum.
void ChunkReader::find_cell() {
  next_ = range_->begin;
  end_ = range_->end;
  crc_ = 0;
  inner_crc_ = 0;
  if (array_.crc32c) {
    if (end_ - next_ < kCrcBytes)
      throw bad_chunk(fmt::format("{} bytes, too few for a checksum", end_ - next_));
    end_ -= kCrcBytes;
  }
  if (is_packed(array_)) {
    input_ = {};
    frame_ = Frame(array_.compressor, content_bytes_, window_bytes_, decoder_scratch_);
  } else if (end_ - next_ != form_.cell_bytes) {
    throw bad_chunk(fmt::format("{} bytes instead of {}", end_ - next_, form_.cell_bytes));
  }
}

void ChunkReader::open_cell() {
  if (array_.sharded) {
    if (!has_index_) read_index();
    range_ = indexed_range();
  } else {
    range_ = ByteRange{0, stored_.size_bytes()};
  }
  if (range_) in_cell([&] { find_cell(); });
  is_open_ = true;
}

void ChunkReader::read_cell(std::span<std::byte> out) {
  if (!range_) {
    put_fill(array_, done_bytes_, out);
  } else if (is_packed(array_)) {
    HFSHARD_CHECK(array_.compressor != Compressor::zstd || window_bytes_ != 0 ||
                  out.size() == form_.cell_bytes);
    in_frame([&] { decode(out); });
    if (array_.inner_crc32c) inner_crc_ = crc32c_extend(inner_crc_, out);
  } else {
    // Reads directly into `out`. A second, tiny read for the checksum is cheaper than a copy.
    stored_.read_at(next_, out);
    next_ += out.size();
    if (array_.crc32c) crc_ = crc32c_extend(crc_, out);
  }
}

void ChunkReader::close_cell() {
  if (range_ && is_packed(array_)) {
    in_frame([&] {
      if (array_.inner_crc32c) check_inner_sum();
      end_frame();
    });
  }
  if (range_ && array_.crc32c) check_sum();
  is_open_ = false;
  done_bytes_ = 0;
  ++cell_;
}

void ChunkReader::compare_sums(std::span<const std::byte> suffix, std::uint32_t computed) {
  const auto stored = load_le<std::uint32_t>(suffix.data());
  if (stored == computed) return;
  throw bad_chunk(
      fmt::format("checksum mismatch: {:08x} is stored, {:08x} is computed", stored, computed));
}

void ChunkReader::check_inner_sum() {
  std::array<std::byte, kCrcBytes> suffix{};
  decode(suffix);
  compare_sums(suffix, inner_crc_);
}

void ChunkReader::check_sum() {
  std::array<std::byte, kCrcBytes> suffix{};
  stored_.read_at(end_, suffix);
  compare_sums(suffix, crc_);
}

// -- Frames

void ChunkReader::fill_input() {
  const auto block = block_.first(std::min<std::uint64_t>(block_.size(), end_ - next_));
  stored_.read_at(next_, block);
  next_ += block.size();
  if (array_.crc32c) crc_ = crc32c_extend(crc_, block);
  input_ = block;
}

// Decodes part of the frame to the front of `out`, and shortens `out`. Returns false if it can't
// make progress.
bool ChunkReader::step(std::span<std::byte>& out) {
  if (input_.empty() && next_ < end_) fill_input();
  const auto [used, made] = frame_.step(input_, out);
  input_ = input_.subspan(used);
  out = out.subspan(made);
  return used + made > 0 || frame_.done() || (input_.empty() && next_ < end_);
}

void ChunkReader::decode(std::span<std::byte> out) {
  while (!out.empty()) {
    if (step(out)) continue;
    throw bad_chunk(fmt::format("{} passes the end of its {} bytes", noun(array_),
                                range_->end - range_->begin));
  }
}

// Checks that the frame ends here, with no bytes behind it.
void ChunkReader::end_frame() {
  std::span<std::byte> none;
  while (!frame_.done()) {
    if (step(none)) continue;
    throw bad_chunk(input_.empty() ? fmt::format("{} passes the end of its {} bytes", noun(array_),
                                                 range_->end - range_->begin)
                                   : fmt::format("{} of more than {} bytes of content",
                                                 noun(array_), content_bytes_));
  }
  const std::uint64_t left = input_.size() + (end_ - next_);
  if (left == 0) return;
  throw bad_chunk(fmt::format("{} ends {} bytes before the end of its {} bytes", noun(array_), left,
                              range_->end - range_->begin));
}

}  // namespace hfshard::format::orbax::zarr
