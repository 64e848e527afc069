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

// Of stored bytes that are decoded: large enough for the disk, small beside a chunk.
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
// What is passed over but must be looked at goes here.
constexpr std::size_t kDropBytes = std::size_t{16} << 10;

Error bad_chunk(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

// Coordinates of inner chunk `index` in C order.
Shape cell_at(const Array& array, std::uint64_t index) {
  Shape out = array.chunk;
  for (std::size_t axis = array.chunk.rank(); axis-- > 0;) {
    const std::uint64_t along = array.chunk[axis] / array.inner[axis];
    out[axis] = index % along;
    index /= along;
  }
  return out;
}

// True if no element of an inner chunk lies in the array.
bool is_outside(const Array& array, const Shape& chunk, const Shape& cell) {
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    const std::uint64_t begin = chunk[axis] * array.chunk[axis] + cell[axis] * array.inner[axis];
    if (begin >= array.shape[axis]) return true;
  }
  return false;
}

std::uint64_t window_of(const Array& array, PieceSteps steps) {
  return array.zstd && steps == PieceSteps::any ? ChunkReader::kMaxWindowBytes : 0;
}

}  // namespace

std::uint64_t chunk_scratch_bytes(const Array& array, const PieceForm& form,
                                  std::uint64_t longest_bytes, PieceSteps steps) {
  if (!array.zstd) return form.tail_bytes;
  return form.tail_bytes + ZstdStream::scratch_bytes(window_of(array, steps)) +
         std::min(longest_bytes, kBlockBytes);
}

ChunkReader::ChunkReader(const Array& array, const PieceForm& form, const Shape& chunk,
                         const Source& stored, PieceSteps steps, std::span<std::byte> scratch)
    : array_(array),
      form_(form),
      chunk_(chunk),
      stored_(stored),
      window_bytes_(window_of(array, steps)) {
  HFSHARD_CHECK(scratch.size() >= chunk_scratch_bytes(array, form, stored.size_bytes(), steps));
  index_ = scratch.first(form.tail_bytes);
  if (!array.zstd) return;
  const std::uint64_t decoder = ZstdStream::scratch_bytes(window_bytes_);
  decoder_scratch_ = scratch.subspan(form.tail_bytes, decoder);
  block_ = scratch.subspan(form.tail_bytes + decoder);
  block_ = block_.first(std::min<std::uint64_t>(block_.size(), kBlockBytes));
}

// Adds the range, which is known only here, to what goes wrong in an inner chunk.
template <typename Action>
void ChunkReader::in_cell(const Action& action) {
  try {
    action();
  } catch (Error& error) {
    if (array_.sharded && range_ && error.file().empty()) error.at(*range_, stored_.size_bytes());
    throw;
  }
}

// What a checksum calls damaged is called so, whatever the decoder makes of it.
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
    if (array_.zstd || array_.crc32c) {
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
  if (total < form_.tail_bytes) {
    throw bad_chunk(fmt::format("{} bytes, too few for an index of {}", total, form_.tail_bytes));
  }
  stored_.read_at(total - form_.tail_bytes, index_);
  const auto entries = index_.first(index_.size() - kCrcBytes);
  if (crc32c(entries) != load_le<std::uint32_t>(entries.data() + entries.size())) {
    throw bad_chunk("checksum mismatch in the index of inner chunks")
        .at({total - index_.size(), total}, total);
  }
  has_index_ = true;
}

// Where the index says that the cell is; nothing if it is not there and need not be.
std::optional<ByteRange> ChunkReader::indexed_range() const {
  const std::uint64_t total = stored_.size_bytes();
  const std::uint64_t data_bytes = total - form_.tail_bytes;
  const std::uint64_t at = cell_ * kIndexEntryBytes;
  const auto offset = load_le<std::uint64_t>(index_.data() + at);
  const auto length = load_le<std::uint64_t>(index_.data() + at + 8);
  const std::uint64_t wanted = form_.cell_bytes + form_.cell_suffix_bytes;
  const bool absent = offset == UINT64_MAX && length == UINT64_MAX;
  if (absent && is_outside(array_, chunk_, cell_at(array_, cell_))) return std::nullopt;
  if (in_range(offset, length, data_bytes) && (array_.zstd || length == wanted)) {
    return ByteRange{offset, offset + length};
  }
  throw bad_chunk(absent ? fmt::format("inner chunk {} of {} is missing", cell_, form_.cells)
                         : fmt::format("inner chunk {} has offset {} and length {}; {} within {} "
                                       "bytes is wanted",
                                       cell_, offset, length,
                                       array_.zstd ? "a range" : fmt::format("length {}", wanted),
                                       data_bytes))
      .at({data_bytes + at, data_bytes + at + kIndexEntryBytes}, total);
}

// Sets the range of the cell's coded bytes, without the checksum.
void ChunkReader::find_cell() {
  next_ = range_->begin;
  end_ = range_->end;
  crc_ = 0;
  if (array_.crc32c) {
    if (end_ - next_ < kCrcBytes)
      throw bad_chunk(fmt::format("{} bytes, too few for a checksum", end_ - next_));
    end_ -= kCrcBytes;
  }
  if (!array_.zstd && end_ - next_ != form_.cell_bytes) {
    throw bad_chunk(fmt::format("{} bytes where {} are wanted", end_ - next_, form_.cell_bytes));
  }
  if (!array_.zstd) return;
  input_ = {};
  zstd_ = ZstdStream(form_.cell_bytes, window_bytes_, decoder_scratch_);
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
    std::ranges::fill(out, std::byte{0});
  } else if (array_.zstd) {
    HFSHARD_CHECK(window_bytes_ != 0 || out.size() == form_.cell_bytes);
    in_frame([&] { decode(out); });
  } else {
    // Straight to where it belongs: a second, tiny read for the checksum is cheaper than a copy.
    stored_.read_at(next_, out);
    next_ += out.size();
    if (array_.crc32c) crc_ = crc32c_extend(crc_, out);
  }
}

void ChunkReader::close_cell() {
  if (range_ && array_.zstd) in_frame([&] { end_frame(); });
  if (range_ && array_.crc32c) check_sum();
  is_open_ = false;
  done_bytes_ = 0;
  ++cell_;
}

void ChunkReader::check_sum() {
  std::array<std::byte, kCrcBytes> suffix{};
  stored_.read_at(end_, suffix);
  const auto stored = load_le<std::uint32_t>(suffix.data());
  if (stored == crc_) return;
  throw bad_chunk(
      fmt::format("checksum mismatch: {:08x} is stored, {:08x} is computed", stored, crc_));
}

// -- Frames

void ChunkReader::fill_input() {
  const auto block = block_.first(std::min<std::uint64_t>(block_.size(), end_ - next_));
  stored_.read_at(next_, block);
  next_ += block.size();
  if (array_.crc32c) crc_ = crc32c_extend(crc_, block);
  input_ = block;
}

// Decodes some of the frame to the front of `out`, which becomes the rest; false if there is no way
// on.
bool ChunkReader::step(std::span<std::byte>& out) {
  if (input_.empty() && next_ < end_) fill_input();
  const auto [used, made] = zstd_.step(input_, out);
  input_ = input_.subspan(used);
  out = out.subspan(made);
  return used + made > 0 || zstd_.done() || (input_.empty() && next_ < end_);
}

void ChunkReader::decode(std::span<std::byte> out) {
  while (!out.empty()) {
    if (step(out)) continue;
    throw bad_chunk(
        fmt::format("a zstd frame passes the end of its {} bytes", range_->end - range_->begin));
  }
}

// The content is there; so must be the end of the frame, and nothing behind it.
void ChunkReader::end_frame() {
  std::span<std::byte> none;
  while (!zstd_.done()) {
    if (step(none)) continue;
    throw bad_chunk(input_.empty() ? fmt::format("a zstd frame passes the end of its {} bytes",
                                                 range_->end - range_->begin)
                                   : fmt::format("a zstd frame of more than {} bytes of content",
                                                 form_.cell_bytes));
  }
  const std::uint64_t left = input_.size() + (end_ - next_);
  if (left == 0) return;
  throw bad_chunk(fmt::format("a zstd frame ends {} bytes before the end of its {} bytes", left,
                              range_->end - range_->begin));
}

}  // namespace hfshard::format::orbax::zarr
