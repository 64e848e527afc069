#include "service/renamed.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "service/tree_source.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/named_checkpoint.h"

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

TEST(TreeSource, KeysOfANestedStateAreThoseBelowTheRoot) {
  Catalog tree = catalog_named({"a.x", "b.0", "b.x", "b.x.y", "b.z"});
  const auto nested = [&](const std::vector<NestedName>& names) {
    tree.nested = names;
    const TempDir dir;
    std::vector<std::string> out;
    const TreeSource below(checkpoint_of(tree), StorePath(dir.path()), "b");
    for (const NestedName& name : below.catalog().nested) out.push_back(name.name + name.keys);
    return std::pair(out, below.catalog().notes);
  };
  using Found = std::vector<std::string>;
  EXPECT_EQ(nested({{"b.x.y", R"(["b", "x", "y"])"}, {"b.z", R"(["b", "z"])"}}),
            std::pair(Found{R"(x.y["x","y"])"}, Found{}));
  EXPECT_EQ(nested({{"b.z", R"(["b", "w"])"}}), std::pair(Found{R"(z["w"])"}, Found{}));
  EXPECT_EQ(nested({{"b.x", R"(["c", "y"])"}, {"b.x.y", R"(["b"])"}, {"b.z", R"([""])"}}),
            std::pair(Found{}, Found{}))
      << "keys that don't show where the root ends";
  EXPECT_EQ(nested({{"b.0", R"(["b", 0])"}}),
            std::pair(Found{}, Found{root_becomes_dict("\"b\"")}));
}

TEST(TakeOff, ANameIsMoreThanThePrefix) {
  Catalog tree = catalog_named({"a.", "a.x"});
  const Error error = catch_error([&] { take_off("a.", tree); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "a.");
  EXPECT_EQ(error.sentence(), "the name doesn't begin with the prefix \"a.\"");
  tree = catalog_named({"a.x"});
  take_off("a.", tree);
  EXPECT_EQ(names_of_arrays(tree), std::vector<std::string>{"x"});
}

TEST(Renamed, ObjectsBelowTheRootAndTheNotesOfBothStay) {
  Catalog tree = catalog_named({"a.x"});
  tree.notes = {"first"};
  tree.nested = {{"a.x", R"(["a", "x"])"}};
  tree.structure = std::make_shared<TreeStructure>();
  for (const char* name : {"a.o", "b.o"}) tree.objects.emplace_back().name = name;
  const auto made = renamed(checkpoint_of(tree), {{0, "x"}}, {"second"}, "a.");
  EXPECT_EQ(made->catalog().notes, (std::vector<std::string>{"first", "second"}));
  ASSERT_EQ(made->catalog().objects.size(), 1U);
  EXPECT_EQ(made->catalog().objects[0].name, "o");
  EXPECT_TRUE(made->catalog().nested.empty());
  EXPECT_EQ(made->catalog().structure, nullptr);
  EXPECT_TRUE(made->catalog().shardings.empty());
  const auto whole = renamed(checkpoint_of(tree), {{0, "z"}}, {});
  EXPECT_EQ(whole->catalog().objects.size(), 2U);
  EXPECT_GT(whole->heap_bytes(), checkpoint_of(tree)->heap_bytes());
}

TEST(Renamed, ArraysAreSortedByTheirNewNamesWithTheirShardings) {
  const auto made = renamed(std::make_shared<PiecesByNumber>(), {{0, "z"}, {2, "m"}, {2, "b"}}, {});
  EXPECT_EQ(names_of_arrays(made->catalog()), (std::vector<std::string>{"b", "m", "z"}));
  ASSERT_EQ(made->catalog().shardings.size(), 3U);
  EXPECT_EQ(made->catalog().shardings[0], (ArraySharding{{{"b.y"}}}));
  EXPECT_EQ(made->catalog().shardings[1], (ArraySharding{{{"b.y"}}}));
  EXPECT_EQ(made->catalog().shardings[2], (ArraySharding{{{"a.x"}}}));
}

}  // namespace
}  // namespace hfshard
