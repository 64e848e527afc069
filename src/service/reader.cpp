#include "hfshard/reader.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "format/formats.h"
#include "ops/index_map.h"
#include "ops/move.h"
#include "ops/read_piece.h"
#include "service/describe.h"
#include "service/linked.h"
#include "service/place.h"
#include "service/step.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// The requested rows of an array, and their destination.
struct Rows {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::span<std::byte> out;
};

// The first axis is the row axis, and the others count as one. A scalar is one row of one element.
std::uint64_t row_count(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[0]; }

Error wrong_size(const StoredArray& array, std::size_t size, std::uint64_t wanted) {
  Error error(ErrorCode::usage,
              fmt::format("the buffer has {} bytes, which is not {}", size, wanted));
  error.in_tensor(array.name);
  return error;
}

// Maps the part of a row-major piece that overlaps the rows to its place in them.
IndexMap overlap(const StoredArray& array, const Shape& place, const Rows& rows) {
  const Shape from = array.chunk.strides();
  const Shape to = array.shape.strides();
  IndexMap map;
  for (std::size_t d = 0; d < array.shape.rank(); ++d) {
    const std::uint64_t first = place[d] * array.chunk[d];
    const std::uint64_t begin = d == 0 ? std::max(first, rows.begin) : first;
    const std::uint64_t end = std::min(first + array.chunk[d], d == 0 ? rows.end : array.shape[d]);
    map.src_base += (begin - first) * from[d];
    map.dst_base += (begin - (d == 0 ? rows.begin : 0)) * to[d];
    map.digits.push_back(
        {end - begin, static_cast<std::int64_t>(from[d]), static_cast<std::int64_t>(to[d])});
  }
  return normalize(map);
}

// If a piece is whole rows and all are wanted, it needs no move. Returns its bytes among `rows`.
std::span<std::byte> place_of(const StoredArray& array, const Shape& place, const Rows& rows) {
  for (std::size_t d = 1; d < array.shape.rank(); ++d) {
    if (array.chunk[d] != array.shape[d]) return {};
  }
  if (array.shape.rank() == 0) return rows.out;
  const std::uint64_t first = place[0] * array.chunk[0];
  if (first < rows.begin || first + array.chunk[0] > rows.end) return {};
  const std::uint64_t row_bytes = rows.out.size() / (rows.end - rows.begin);
  return rows.out.subspan((first - rows.begin) * row_bytes, array.chunk[0] * row_bytes);
}

// Returns how many pieces along each axis overlap the rows. `first`: the first one on axis 0.
Shape met_pieces(const StoredArray& array, const Rows& rows, std::uint64_t& first) {
  Shape counts = chunk_counts(array.shape, array.chunk);
  first = 0;
  if (counts.rank() == 0) return counts;
  first = rows.begin / array.chunk[0];
  counts[0] = ceil_div(rows.end, array.chunk[0]) - first;
  return counts;
}

}  // namespace

struct CheckpointReader::State {
  std::unique_ptr<Checkpoint> opened;
  CheckpointInfo info;

  const StoredArray& array(std::size_t index) const {
    if (index < info.arrays.size()) return info.arrays[index];
    throw Error(ErrorCode::usage, fmt::format("array {} doesn't exist: the checkpoint has {}",
                                              index, info.arrays.size()))
        .in_file(info.path);
  }

  void check_place(std::size_t index, const Shape& place) const {
    const StoredArray& of = array(index);
    const Shape counts = chunk_counts(of.shape, of.chunk);
    bool inside = place.rank() == counts.rank();
    for (std::size_t d = 0; inside && d < counts.rank(); ++d) inside = place[d] < counts[d];
    if (inside) return;
    throw Error(ErrorCode::usage, fmt::format("piece [{}] is outside the grid [{}]",
                                              fmt::join(place.begin(), place.end(), ", "),
                                              fmt::join(counts.begin(), counts.end(), ", ")))
        .in_file(info.path)
        .in_tensor(of.name);
  }

  // Reads the bytes of the array's only piece, from the first row on.
  void read_plain(std::uint32_t index, const Rows& rows) const {
    const StoredArray& of = info.arrays[index];
    Shape origin;
    while (origin.rank() < of.shape.rank()) origin.push_back(0);
    std::vector<std::byte> scratch(opened->scratch_bytes(index, PieceSteps::any));
    const auto reader = opened->open_piece(index, origin, PieceSteps::any, scratch);
    const std::uint64_t row = of.shape.numel() / row_count(of.shape);
    reader->skip(packed_bytes(of.dtype, row * rows.begin));
    reader->read(rows.out);
  }

  void read_cut(std::uint32_t index, const Rows& rows) const {
    const StoredArray& of = info.arrays[index];
    if (size_bits(of.dtype) % 8 != 0) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("can't assemble rows of {}", to_string(of.dtype)))
          .in_tensor(of.name);
    }
    std::vector<std::byte> scratch(row_major_scratch_bytes(*opened, index));
    std::vector<std::byte> piece;
    std::uint64_t first = 0;
    const Shape counts = met_pieces(of, rows, first);
    for_each_chunk(counts, [&](const Shape& at) {
      Shape place = at;
      if (place.rank() > 0) place[0] += first;
      const std::span<std::byte> straight = place_of(of, place, rows);
      if (!straight.empty()) {
        read_row_major(*opened, index, place, straight, scratch);
        return true;
      }
      piece.resize(packed_bytes(of.dtype, of.chunk.numel()));
      read_row_major(*opened, index, place, piece, scratch);
      move_elements(overlap(of, place, rows), size_bits(of.dtype) / 8, piece, rows.out);
      return true;
    });
  }
};

CheckpointReader::CheckpointReader(const SourceName& place) : state_(std::make_unique<State>()) {
  Choice choice;
  choice.items = place.items;
  choice.files.ignore_index = place.ignore_index;
  const StorePath read = read_step(find_place(place), place.step).place;
  check_linked(read);
  state_->opened = open_linked(read, [&] { return open_checkpoint(read, choice); });
  state_->info = describe(state_->opened->catalog(), place.text);
}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader open(const SourceName& place) { return CheckpointReader(place); }

const CheckpointInfo& CheckpointReader::info() const noexcept { return state_->info; }

std::optional<std::size_t> CheckpointReader::find(std::string_view name) const noexcept {
  return state_->opened->catalog().find(name);
}

bool CheckpointReader::has_piece(std::size_t array, const Shape& place) const {
  state_->check_place(array, place);
  return state_->opened->has_piece(static_cast<std::uint32_t>(array), place);
}

std::uint64_t CheckpointReader::piece_bytes(std::size_t array) const {
  const StoredArray& of = state_->array(array);
  return packed_bytes(of.dtype, of.chunk.numel());
}

void CheckpointReader::read_piece(std::size_t array, const Shape& place,
                                  std::span<std::byte> out) const {
  state_->check_place(array, place);
  const std::uint64_t wanted = piece_bytes(array);
  if (out.size() != wanted) throw wrong_size(state_->array(array), out.size(), wanted);
  const auto index = static_cast<std::uint32_t>(array);
  std::vector<std::byte> scratch(row_major_scratch_bytes(*state_->opened, index));
  read_row_major(*state_->opened, index, place, out, scratch);
}

void CheckpointReader::read_rows(std::size_t array, std::uint64_t begin,
                                 std::span<std::byte> out) const {
  const StoredArray& of = state_->array(array);
  const std::uint64_t rows = row_count(of.shape);
  const std::uint64_t row = rows == 0 ? 0 : packed_bytes(of.dtype, of.shape.numel() / rows);
  const std::uint64_t count = row == 0 ? 0 : out.size() / row;
  if (count * row != out.size()) throw wrong_size(of, out.size(), (count + 1) * row);
  if (!in_range(begin, count, rows)) {
    throw Error(ErrorCode::usage, fmt::format("rows [{}, {}) are outside the {} rows of the array",
                                              begin, begin + count, rows))
        .in_tensor(of.name);
  }
  if (count == 0) return;
  const auto index = static_cast<std::uint32_t>(array);
  const Rows wanted{begin, begin + count, out};
  if (state_->opened->catalog().tensors[index].is_whole()) {
    state_->read_plain(index, wanted);
  } else {
    state_->read_cut(index, wanted);
  }
}

}  // namespace hfshard
