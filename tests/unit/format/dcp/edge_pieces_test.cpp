// Pieces at the far edges of an array.

#include <algorithm>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "format/archive.h"
#include "format/dcp/write.h"
#include "format/formats.h"
#include "support/memory_source.h"

namespace hfshard::format::dcp {
namespace {

// Counts up the digits of `at` in a box. Returns false after the last one.
bool next_in(Shape& at, const Shape& box) {
  for (std::size_t d = box.rank(); d > 0; --d) {
    if (++at[d - 1] < box[d - 1]) return true;
    at[d - 1] = 0;
  }
  return false;
}

// Seals the piece of a chunk, and returns the elements in its archive. An element tells its place.
std::string sealed_elements(const Leaf& leaf, const Grid& grid, const Shape& chunk) {
  const PieceForm form = piece_form(leaf, grid, {});
  std::string stored(form.stored_bytes(), '?');
  for (std::uint64_t i = 0; i < form.cell_bytes; ++i)
    stored[form.head_bytes + i] = static_cast<char>('!' + i);
  const std::uint64_t length =
      seal_piece(form, {&leaf, &grid, chunk}, std::as_writable_bytes(std::span(stored)));
  EXPECT_EQ(stored.substr(length), std::string(stored.size() - length, '\0'));
  const MemorySource file(stored.substr(0, length));
  const Archive archive(file, {0, length});
  return archive.read(*archive.find("data/0"));
}

// Returns the elements of a box at the front of a larger one, as sealed_elements numbers them.
std::string front_of(const Shape& larger, const Shape& box) {
  std::string out;
  const Shape strides = larger.strides();
  Shape at = box;
  for (std::size_t d = 0; d < at.rank(); ++d) at[d] = 0;
  do {
    std::uint64_t place = 0;
    for (std::size_t d = 0; d < at.rank(); ++d) place += at[d] * strides[d];
    out += static_cast<char>('!' + place);
  } while (next_in(at, box));
  return out;
}

void expect_pieces(const Shape& array, const Shape& chunk) {
  const Leaf leaf{{"w", DType::u8, array}, {}, {}};
  const Grid grid{chunk, chunk, chunk};
  Shape counts = array;
  Shape at = array;
  for (std::size_t d = 0; d < array.rank(); ++d) {
    counts[d] = (array[d] + chunk[d] - 1) / chunk[d];
    at[d] = 0;
  }
  do {
    Shape box = chunk;
    for (std::size_t d = 0; d < box.rank(); ++d)
      box[d] = std::min(chunk[d], array[d] - at[d] * chunk[d]);
    EXPECT_EQ(sealed_elements(leaf, grid, at), front_of(chunk, box));
  } while (next_in(at, counts));
}

TEST(DcpEdgePieces, HaveTheElementsOfTheirPartOfTheArrayInOrder) {
  expect_pieces({5}, {3});
  expect_pieces({5, 5}, {3, 3});
  expect_pieces({5, 5, 5}, {3, 3, 3});
  expect_pieces({4, 3, 5, 3}, {3, 2, 3, 2});
}

}  // namespace
}  // namespace hfshard::format::dcp
