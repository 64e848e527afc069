#include "catalog/catalog.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/heap.h"
#include "catalog/format.h"
#include "support/catch_error.h"
#include "support/heap_members.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TensorInfo stored_array(std::string name, Shape shape, std::uint32_t cut) {
  TensorInfo out;
  out.name = std::move(name);
  out.shape = shape;
  out.cut = cut;
  return out;
}

// A plain array, a compressed one, and one whose inner chunks exist in memory only.
Catalog three_arrays() {
  Catalog out;
  out.location = "/checkpoint";
  out.tensors = {stored_array("a", {4, 0}, TensorInfo::kWhole), stored_array("b", {8, 6}, 0),
                 stored_array("c", {8, 6}, 1)};
  out.cuts = {{{{4, 6}, {4, 6}, {2, 6}}, {"zstd"}, false, false},
              {{{8, 6}, {8, 6}, {1, 6}}, {}, true, true}};
  return out;
}

TEST(Catalog, AnArrayIsFoundByItsWholeName) {
  const Catalog catalog = three_arrays();
  EXPECT_EQ(catalog.find("a"), 0U);
  EXPECT_EQ(catalog.find("c"), 2U);
  for (const char* absent : {"", "aa", "bb", "d", "A"})
    EXPECT_EQ(catalog.find(absent), std::nullopt) << absent;
  EXPECT_EQ(Catalog().find("a"), std::nullopt);
}

TEST(Catalog, APlainArrayIsOnePiece) {
  const Catalog catalog = three_arrays();
  EXPECT_EQ(catalog.grid_of(0), (Grid{{4, 1}, {4, 1}, {4, 1}}));
  EXPECT_EQ(catalog.stored_grid_of(0), catalog.grid_of(0));
  EXPECT_TRUE(catalog.codecs_of(0).empty());
  EXPECT_TRUE(catalog.tensors[0].is_whole());
  TensorInfo info;
  info.begin_bytes = 10;
  info.size_bytes = 7;
  EXPECT_EQ(info.range(), (ByteRange{10, 17}));
}

TEST(Catalog, InnerChunksOfMemoryAreNotStored) {
  const Catalog catalog = three_arrays();
  EXPECT_EQ(catalog.codecs_of(1), std::vector<std::string>{"zstd"});
  EXPECT_EQ(catalog.grid_of(1).inner, (Shape{2, 6}));
  EXPECT_EQ(catalog.stored_grid_of(1).inner, (Shape{2, 6}));
  EXPECT_EQ(catalog.grid_of(2).inner, (Shape{1, 6}));
  EXPECT_EQ(catalog.stored_grid_of(2).inner, (Shape{8, 6}));
}

TEST(Catalog, AnArrayIsInItsFileOrInTheWholeTree) {
  Catalog catalog = three_arrays();
  EXPECT_EQ(catalog.file_name(catalog.tensors[1]), "/checkpoint") << "no files";
  catalog.files.resize(2);
  catalog.files[0].name = kWholeTree;
  catalog.files[1].name = "model-2.safetensors";
  EXPECT_EQ(catalog.file_name(catalog.tensors[1]), "/checkpoint");
  catalog.tensors[1].file = 1;
  EXPECT_EQ(catalog.file_name(catalog.tensors[1]), "model-2.safetensors");
}

TEST(NestedKeys, AreThoseOfTheName) {
  const std::vector<NestedName> names{{"a.b", R"(["a","b"])"}, {"a.c", R"(["a.c"])"}};
  EXPECT_EQ(nested_keys(names, "a.b"), R"(["a","b"])");
  EXPECT_EQ(nested_keys(names, "a.c"), R"(["a.c"])");
  for (const char* absent : {"", "a", "a.bb", "z"}) EXPECT_EQ(nested_keys(names, absent), "");
  EXPECT_EQ(nested_keys({}, "a"), "");
}

TEST(FileLayout, NamesStepsAndDataFiles) {
  FileLayout layout;
  layout.step_prefix = "step-";
  layout.step_digits = 3;
  EXPECT_EQ(layout.step_directory(7), "step-007");
  EXPECT_EQ(layout.step_directory(12345), "step-12345");
  layout.has_steps = false;
  EXPECT_EQ(layout.step_directory(7), "");
  layout.data_prefix = "d/";
  layout.data_suffix = ".bin";
  EXPECT_EQ(layout.data_file(0, 3), "d/00000.bin");
  EXPECT_EQ(layout.data_file(123456, 3), "d/123456.bin");
  layout.data_count = "-of-";
  EXPECT_EQ(layout.data_file(0, 3), "d/00001-of-00003.bin");
  EXPECT_EQ(layout.data_file(0, 1), "d/00001-of-00001.bin");
  layout.single_file = "model.bin";
  EXPECT_EQ(layout.data_file(0, 1), "model.bin");
  EXPECT_EQ(layout.data_file(1, 2), "d/00002-of-00002.bin");
}

TEST(FileLayout, PiecesBeginBehindTheLeadingBytes) {
  FileLayout layout;
  EXPECT_EQ(layout.begin_bytes(4096), 0U);
  layout.leading = "12345";
  EXPECT_EQ(layout.begin_bytes(4096), 4096U);
  EXPECT_EQ(layout.begin_bytes(5), 5U);
  EXPECT_EQ(layout.begin_bytes(1), 5U);
}

TEST(StepNumbered, IsOneOfTheStepsThatExist) {
  const std::vector<Found::Step> steps{{7, "7", true}, {10, "10", false}};
  EXPECT_EQ(step_numbered(steps, 10, "/run"), steps[1]);
  EXPECT_EQ(step_numbered(steps, 7, "/run"), steps[0]);
  const Error absent = catch_error([&] { (void)step_numbered(steps, 8, "/run"); });
  EXPECT_EQ(absent.code(), ErrorCode::not_found);
  EXPECT_EQ(absent.sentence(), "step 8 doesn't exist");
  EXPECT_EQ(absent.file(), "/run");
  EXPECT_EQ(absent.hint_text(), "there are 7, 10");
  const Error none = catch_error([] { (void)step_numbered({}, 8, "/run"); });
  EXPECT_EQ(none.code(), ErrorCode::usage);
  EXPECT_EQ(none.sentence(), "--step selects a step, but this isn't a directory of steps");
  EXPECT_EQ(none.file(), "/run");
}

TEST(ArrayFiles, AFileHasTheArraysUpToTheNextOne) {
  const ArrayFiles files{{4, 2, 0, 1, 3}, {0, 2, 2, 5}, {8, 8, 8}};
  const auto in = [&](std::uint32_t file) {
    const auto part = files.in_file(file);
    return std::vector<std::uint32_t>(part.begin(), part.end());
  };
  EXPECT_EQ(in(0), (std::vector<std::uint32_t>{4, 2}));
  EXPECT_EQ(in(1), std::vector<std::uint32_t>{});
  EXPECT_EQ(in(2), (std::vector<std::uint32_t>{0, 1, 3}));
}

// A run's memory is bounded by what its catalog holds.
TEST(HeapBytes, OfACatalogAreThoseOfEachMember) {
  using Set = void (*)(Catalog&, const std::string&);
  const Set members[] = {
      [](Catalog& c, const std::string& w) { c.location = w; },
      [](Catalog& c, const std::string& w) { c.root = w; },
      [](Catalog& c, const std::string& w) { c.directory = w; },
      [](Catalog& c, const std::string& w) { c.wording.kind = w; },
      [](Catalog& c, const std::string& w) { c.wording.array = w; },
      [](Catalog& c, const std::string& w) { c.wording.arrays = w; },
      [](Catalog& c, const std::string& w) { c.wording.name = w; },
      [](Catalog& c, const std::string& w) { c.files.resize(1), c.files[0].path = w; },
      [](Catalog& c, const std::string& w) { c.files.resize(1), c.files[0].name = w; },
      [](Catalog& c, const std::string& w) { c.files.resize(1), c.files[0].version = w; },
      [](Catalog& c, const std::string& w) { c.files.resize(1), c.files[0].header_sha256 = w; },
      [](Catalog& c, const std::string& w) { c.tensors = {stored_array(w, {}, 0)}; },
      [](Catalog& c, const std::string& w) { c.cuts.resize(1), c.cuts[0].codecs = {w}; },
      [](Catalog& c, const std::string& w) { c.shardings.push_back({{{w}}}); },
      [](Catalog& c, const std::string& w) { c.attributes["x"] = w; },
      [](Catalog& c, const std::string& w) { c.config_text = w; },
      [](Catalog& c, const std::string& w) { c.part = w; },
      [](Catalog& c, const std::string& w) { c.side_files = {w}; },
      [](Catalog& c, const std::string& w) { c.beside.files = {w}; },
      [](Catalog& c, const std::string& w) { c.beside.empty = {w}; },
      [](Catalog& c, const std::string& w) { c.beside.root_files = {w}; },
      [](Catalog& c, const std::string& w) { c.notes = {w}; },
      [](Catalog& c, const std::string& w) { c.objects.resize(1), c.objects[0].name = w; },
      [](Catalog& c, const std::string& w) { c.objects.resize(1), c.objects[0].transforms = {w}; },
      [](Catalog& c, const std::string& w) {
        c.nested = {{w, ""}};
      },
      [](Catalog& c, const std::string& w) {
        c.nested = {{"", w}};
      },
      [](Catalog& c, const std::string& w) {
        c.shared = {{w, ""}};
      },
      [](Catalog& c, const std::string& w) {
        c.shared = {{"", w}};
      },
      [](Catalog& c, const std::string& w) { c.unreadable.resize(1), c.unreadable[0].name = w; },
      [](Catalog& c, const std::string& w) { c.unreadable.resize(1), c.unreadable[0].why = w; },
      [](Catalog& c, const std::string& w) { c.object_files = {StorePath(w)}; }};
  expect_heap_of_members(members);
  Catalog catalog;
  catalog.files.resize(1);
  const std::uint64_t before = heap_bytes(catalog);
  catalog.files[0].inodes.resize(3);
  EXPECT_GE(heap_bytes(catalog), before + 3 * sizeof(InodeState));
}

}  // namespace
}  // namespace hfshard
