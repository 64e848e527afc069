#include "service/renamed.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "service/tree_source.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

// Arrays a.x, b.x, b.y and c.x. Array number n has only the piece [n], in file "n".
class PiecesByNumber final : public Checkpoint {
 public:
  PiecesByNumber() {
    for (const char* name : {"a.x", "b.x", "b.y", "c.x"}) {
      TensorInfo info;
      info.name = name;
      info.shape = {8};
      catalog_.tensors.push_back(info);
      catalog_.shardings.push_back({{{name}}});
    }
  }
  const Catalog& catalog() const override { return catalog_; }
  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    return piece[0] == array;
  }
  std::optional<PiecePlace> find_piece(std::uint32_t array, const Shape& piece) const override {
    if (!has_piece(array, piece)) return std::nullopt;
    PiecePlace out;
    out.file = std::to_string(array);
    return out;
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t /*array*/, const Shape& /*piece*/,
                                          PieceSteps /*steps*/,
                                          std::span<std::byte> /*scratch*/) const override {
    return nullptr;
  }
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps /*steps*/) const override {
    return 100 + array;
  }

 private:
  Catalog catalog_;
};

// Checks that an array is this one of PiecesByNumber.
void expect_array(const Checkpoint& made, const std::string& name, std::uint32_t number) {
  SCOPED_TRACE(name);
  const auto found = made.catalog().find(name);
  ASSERT_TRUE(found);
  for (std::uint64_t piece = 0; piece < 4; ++piece) {
    EXPECT_EQ(made.has_piece(*found, {piece}), piece == number);
    EXPECT_EQ(made.find_piece(*found, {piece}).has_value(), piece == number);
  }
  const auto place = made.find_piece(*found, {number});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->file, std::to_string(number));
  EXPECT_EQ(made.scratch_bytes(*found, PieceSteps::any), 100U + number);
}

TEST(Renamed, AnArrayKeepsItsPiecesWhateverItsName) {
  const auto made =
      renamed(std::make_shared<PiecesByNumber>(), {{0, "z"}, {2, "m"}, {3, "b"}}, {"a note"});
  EXPECT_EQ(made->catalog().tensors.size(), 3U);
  EXPECT_EQ(made->catalog().notes, (std::vector<std::string>{"a note"}));
  expect_array(*made, "z", 0);
  expect_array(*made, "m", 2);
  expect_array(*made, "b", 3);
}

TEST(TreeSource, ArraysBelowAKeyKeepTheirPiecesAndShardings) {
  const TempDir dir;
  const TreeSource below(std::make_shared<PiecesByNumber>(), StorePath(dir.path()), "b");
  EXPECT_EQ(below.catalog().tensors.size(), 2U);
  expect_array(below, "x", 1);
  expect_array(below, "y", 2);
  ASSERT_EQ(below.catalog().shardings.size(), 2U);
  EXPECT_EQ(below.catalog().shardings[0], (ArraySharding{{{"b.x"}}}));
  EXPECT_EQ(below.catalog().shardings[1], (ArraySharding{{{"b.y"}}}));
  const TreeSource all(std::make_shared<PiecesByNumber>(), StorePath(dir.path()), "");
  expect_array(all, "c.x", 3);
  const Error error = catch_error(
      [&] { TreeSource(std::make_shared<PiecesByNumber>(), StorePath(dir.path()), "b.x.z"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace hfshard
