#include "format/dcp/pieces.h"

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

StoredTensor tensor_of(const Shape& shape, const std::vector<std::pair<Shape, Shape>>& boxes) {
  StoredTensor out;
  out.name = "w";
  out.shape = shape;
  for (const auto& [begin, extent] : boxes) out.boxes.push_back({begin, extent, {}});
  return out;
}

PieceBoxes cut(const Shape& shape, const std::vector<std::pair<Shape, Shape>>& boxes) {
  return cut_pieces(tensor_of(shape, boxes), ".metadata");
}

TEST(DcpPieces, ShardsAreAGridWhoseLastPieceIsShort) {
  const PieceBoxes rows =
      cut({7, 2}, {{{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}, {{4, 0}, {2, 2}}, {{6, 0}, {1, 2}}});
  EXPECT_EQ(rows.chunk, (Shape{2, 2}));
  EXPECT_EQ(rows.counts, (Shape{4, 1}));
  EXPECT_EQ(rows.first, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  const PieceBoxes both =
      cut({4, 5}, {{{0, 0}, {2, 3}}, {{0, 3}, {2, 2}}, {{2, 0}, {2, 3}}, {{2, 3}, {2, 2}}});
  EXPECT_EQ(both.chunk, (Shape{2, 3}));
  EXPECT_EQ(cut({}, {{{}, {}}}).counts, Shape{});
  EXPECT_EQ(cut({0, 4}, {}).counts.numel(), 0U);
}

TEST(DcpPieces, BoxesOfSeveralLengthsShareAPiece) {
  const PieceBoxes rows = cut({10}, {{{0}, {3}}, {{3}, {2}}, {{5}, {3}}, {{8}, {2}}});
  EXPECT_EQ(rows.chunk, (Shape{5}));
  EXPECT_EQ(rows.first, (std::vector<std::uint32_t>{0, 2, 4}));
  EXPECT_EQ(cut({10}, {{{0}, {3}}, {{3}, {7}}}).chunk, (Shape{10}));
  // Not a grid: a pinwheel around a filled hole.
  const PieceBoxes wheel = cut(
      {3, 3},
      {{{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}, {{2, 1}, {1, 2}}});
  EXPECT_EQ(wheel.chunk, (Shape{3, 3}));
  EXPECT_EQ(wheel.boxes.size(), 5U);
}

TEST(DcpPieces, AtMost4096BoxesNeedNotFormAGrid) {
  const auto beside_one_row = [](std::uint64_t boxes) {
    std::vector<std::pair<Shape, Shape>> out;
    for (std::uint64_t i = 0; i + 1 < boxes; ++i) out.push_back({{0, i}, {1, 1}});
    out.push_back({{1, 0}, {1, boxes - 1}});
    return cut({2, boxes - 1}, out);
  };
  EXPECT_EQ(beside_one_row(4096).boxes.size(), 4096U);
  const Error error = catch_error([&] { beside_one_row(4097); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.tensor(), "w");
}

// The chunks have as many elements as the tensor, and their edges form its grid.
TEST(DcpPieces, AChunkInPlaceOfAnotherOverlaps) {
  const auto sentence = [](const Shape& first, const Shape& second, const Shape& third,
                           const Shape& last) {
    const Shape each{2, 2};
    const Error error = catch_error([&] {
      cut({4, 4}, {{first, each}, {second, each}, {third, each}, {last, each}});
    });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.sentence();
    EXPECT_EQ(error.tensor(), "w");
    return error.sentence();
  };
  EXPECT_EQ(sentence({0, 0}, {0, 0}, {0, 2}, {2, 0}),
            "two chunks overlap: 2x2 at 0x0, and 2x2 at 0x0");
  EXPECT_EQ(sentence({0, 0}, {0, 2}, {2, 0}, {2, 0}),
            "two chunks overlap: 2x2 at 2x0, and 2x2 at 2x0");
}

TEST(DcpPieces, HolesAndOverlapsNameTheTensor) {
  const auto refused = [](const Shape& shape, const std::vector<std::pair<Shape, Shape>>& boxes,
                          const char* what) {
    const Error error = catch_error([&] { cut(shape, boxes); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.tensor(), "w");
    EXPECT_EQ(error.file(), ".metadata");
    EXPECT_NE(error.sentence().find(what), std::string::npos) << error.sentence();
  };
  refused({8}, {{{0}, {4}}}, "don't cover");
  refused({8}, {}, "don't cover");
  refused({8}, {{{0}, {4}}, {{3}, {5}}}, "overlap");
  refused({8}, {{{0}, {4}}, {{0}, {4}}}, "overlap");
  // The number of elements is right, but there is a hole.
  refused({4, 4}, {{{0, 0}, {2, 4}}, {{1, 0}, {2, 4}}}, "overlap");
  refused({2, 4}, {{{0, 0}, {1, 4}}, {{0, 1}, {2, 2}}}, "overlap");
  // More elements than a number can count.
  refused({8}, {{{0}, {8}}, {{8}, {UINT64_MAX}}}, "hold 0 of 8 elements");
  refused({8}, {{{0}, {8}}, {{8}, {UINT64_MAX}}, {{9}, {0}}}, "hold 0 of 8 elements");
  EXPECT_EQ(catch_error([&] { cut({UINT64_MAX, 3}, {{{0, 0}, {1, 1}}}); }).tensor(), "w");
}

}  // namespace
}  // namespace hfshard::format::dcp
