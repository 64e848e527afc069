#include "service/element_place.h"

#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "unit/service/named_checkpoint.h"

namespace hfshard {
namespace {

// A checkpoint whose pieces are all at this place.
class AtOnePlace final : public CatalogOnly {
 public:
  AtOnePlace(Catalog catalog, std::optional<PiecePlace> place)
      : CatalogOnly(std::move(catalog)), place_(std::move(place)) {}
  std::optional<PiecePlace> find_piece(std::uint32_t /*array*/,
                                       const Shape& /*piece*/) const override {
    return place_;
  }

 private:
  std::optional<PiecePlace> place_;
};

// Returns the place of element [3, 4] of a bf16 array with pieces of 2x3.
ElementPlace place_in(std::optional<PiecePlace> place, const Shape& inner = {2, 3}) {
  Catalog catalog = catalog_named({"w"});
  catalog.tensors[0].dtype = DType::bf16;
  catalog.tensors[0].shape = {4, 6};
  catalog.tensors[0].cut = 0;
  catalog.cuts.emplace_back().grid = {{2, 3}, {2, 3}, inner};
  return element_place(AtOnePlace(std::move(catalog), std::move(place)), 0, {3, 4}, "/here");
}

TEST(ElementPlace, AnUncodedPieceHasTheElementsByte) {
  constexpr std::uint64_t kBytes = 12;
  for (const std::uint64_t checksum : {0U, 4U}) {
    const ElementPlace found = place_in(PiecePlace{"d/0", ByteRange{100, 100 + kBytes + checksum}});
    EXPECT_EQ(found.tensor, "w");
    EXPECT_EQ(found.index, (Shape{3, 4}));
    EXPECT_EQ(found.file, "d/0");
    EXPECT_EQ(found.byte, 100U + (1 * 3 + 1) * 2);
  }
}

TEST(ElementPlace, APieceThatIsPackedOrCutFurtherHasNoByte) {
  const ElementPlace packed = place_in(PiecePlace{"d/0", ByteRange{100, 111}});
  EXPECT_TRUE(packed.range);
  EXPECT_FALSE(packed.byte);
  const ElementPlace inner = place_in(PiecePlace{"d/0", ByteRange{100, 112}}, {1, 3});
  EXPECT_TRUE(inner.range);
  EXPECT_FALSE(inner.byte);
}

TEST(ElementPlace, APieceThatIsTooLongForAChecksumHasNoByte) {
  EXPECT_FALSE(place_in(PiecePlace{"d/0", ByteRange{100, 100 + 12 + 5}}).byte);
  EXPECT_EQ(place_in(PiecePlace{"/here/d/0", ByteRange{100, 112}}).file, "d/0");
}

// Element [3, 4] is [1, 1] of its piece.
TEST(ElementPlace, APieceInAnotherOrderHasTheElementsByte) {
  Catalog catalog = catalog_named({"w"});
  catalog.tensors[0].dtype = DType::bf16;
  catalog.tensors[0].shape = {4, 6};
  catalog.tensors[0].cut = 0;
  catalog.cuts.emplace_back().grid = {{2, 3}, {2, 3}, {2, 3}, {1, 0}};
  const AtOnePlace columns(std::move(catalog), PiecePlace{"d/0", ByteRange{100, 112}});
  EXPECT_EQ(element_place(columns, 0, {3, 4}, "").byte, 100U + (1 * 2 + 1) * 2);
}

TEST(ElementPlace, AnArrayInAFileHasTheElementsByte) {
  Catalog catalog = catalog_named({"a", "w"});
  for (const char* name : {"one", "two"}) catalog.files.emplace_back().name = name;
  TensorInfo& array = catalog.tensors[1];
  array.dtype = DType::f32;
  array.shape = {4, 6};
  array.file = 1;
  array.begin_bytes = 100;
  const ElementPlace found = element_place(CatalogOnly(std::move(catalog)), 1, {3, 4}, "/here");
  EXPECT_EQ(found.tensor, "w");
  EXPECT_EQ(found.index, (Shape{3, 4}));
  EXPECT_EQ(found.file, "two");
  EXPECT_EQ(found.byte, 100U + (3 * 6 + 4) * 4);
}

TEST(ElementPlace, APieceThatIsNotStoredHasNoByte) {
  const ElementPlace missing = place_in(PiecePlace{"d/0", std::nullopt});
  EXPECT_EQ(missing.file, "d/0");
  EXPECT_FALSE(missing.range);
  EXPECT_FALSE(missing.byte);
  const ElementPlace unknown = place_in(std::nullopt);
  EXPECT_EQ(unknown.tensor, "w");
  EXPECT_EQ(unknown.index, (Shape{3, 4}));
  EXPECT_EQ(unknown.file, "");
  EXPECT_FALSE(unknown.range);
  EXPECT_FALSE(unknown.byte);
}

}  // namespace
}  // namespace hfshard
