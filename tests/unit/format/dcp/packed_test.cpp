// Checkpoints with items that went through stream.zstd/1.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32.h"
#include "catalog/checkpoint.h"
#include "format/dcp/metadata.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/piece.h"
#include "format/dcp/pieces.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/formats.h"
#include "format/tensor_pickle.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "unit/format/dcp/packed_items.h"

#include "hfshard/hfshard.h"

namespace hfshard::format::dcp {
namespace {

std::string whole_of(const std::string& path, const std::string& name) {
  const CheckpointReader opened = open(path);
  const auto array = opened.find(name);
  HFSHARD_CHECK(array.has_value());
  const StoredArray& info = opened.info().arrays[*array];
  std::string out(info.size_bytes, '?');
  opened.read_rows(*array, 0, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(DcpPacked, TensorsOfPackedItemsAreReadAsAnyOther) {
  const TempDir dir;
  const std::string rows = noise_of(2 * 7 * 3, 1);
  const std::string cells = noise_of(4 * 5 * 6, 2);
  const std::string scalar = noise_of(4, 4);
  TorchCheckpoint made;
  made.tensor("a", DType::bf16, {7, 3});
  for (std::uint64_t first = 0; first < 7; first += 3)
    made.part({first, 0}, {std::min<std::uint64_t>(3, 7 - first), 3}, rows, true);
  made.tensor("b", DType::f32, {5, 6});
  // Three columns next to two and one, of which one isn't packed.
  made.part({0, 0}, {5, 3}, cells, true).part({0, 3}, {5, 2}, cells, false);
  made.part({0, 5}, {5, 1}, cells, true);
  made.tensor("s", DType::f32, {}).part({}, {}, scalar, true);
  // Not packed, in pieces like those of another tensor.
  made.tensor("z", DType::f32, {5, 6}).part({0, 0}, {5, 3}, cells, false);
  made.part({0, 3}, {5, 3}, cells, false);
  made.write(dir.path());
  EXPECT_EQ(whole_of(dir.path(), "a"), rows);
  EXPECT_EQ(whole_of(dir.path(), "b"), cells);
  EXPECT_EQ(whole_of(dir.path(), "s"), scalar);
  const CheckpointReader opened = open(dir.path());
  EXPECT_EQ(whole_of(dir.path(), "z"), cells);
  for (const StoredArray& array : opened.info().arrays) {
    const std::vector<std::string> through{"stream.zstd/1"};
    EXPECT_EQ(array.codecs, array.name == "z" ? std::vector<std::string>() : through);
  }
}

// Reads a stored piece in steps. A step of 0 skips a byte.
std::string stored_piece(const Checkpoint& opened, std::uint32_t array,
                         const std::vector<std::size_t>& steps) {
  const Grid grid = opened.catalog().grid_of(array);
  Shape origin = grid.chunk;
  for (std::size_t d = 0; d < origin.rank(); ++d) origin[d] = 0;
  std::string out(packed_bytes(opened.catalog().tensors[array].dtype, grid.chunk.numel()), '?');
  std::vector<std::byte> scratch(opened.scratch_bytes(array, PieceSteps::any));
  const auto reader = opened.open_piece(array, origin, PieceSteps::any, scratch);
  auto left = std::as_writable_bytes(std::span(out));
  for (std::size_t i = 0; !left.empty(); ++i) {
    const std::size_t size = std::min(steps[i % steps.size()], left.size());
    if (size == 0) reader->skip(1);
    if (size > 0) reader->read(left.first(size));
    left = left.subspan(std::max<std::size_t>(size, 1));
  }
  return out;
}

TEST(DcpPacked, PiecesOfSeveralItemsAreReadInStepsOfAnyLength) {
  const TempDir dir;
  const std::string tensor = noise_of(8 * 10, 2);
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {8, 10});
  for (const auto& [row, rows] : {std::pair<std::uint64_t, std::uint64_t>{0, 5}, {5, 3}}) {
    for (const auto& [at, columns] :
         {std::pair<std::uint64_t, std::uint64_t>{0, 2}, {2, 3}, {5, 5}})
      made.part({row, at}, {rows, columns}, tensor, true);
  }
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  EXPECT_EQ(opened->catalog().grid_of(0).chunk, (Shape{5, 5}));
  EXPECT_FALSE(opened->catalog().grid_of(0).has_inner());
  EXPECT_EQ(opened->scratch_bytes(0, PieceSteps::any), piece_scratch_bytes(2));
  std::string wanted;
  for (std::size_t row = 0; row < 5; ++row) wanted += tensor.substr(10 * row, 5);
  EXPECT_EQ(stored_piece(*opened, 0, {25}), wanted);
  EXPECT_EQ(stored_piece(*opened, 0, {1}), wanted);
  EXPECT_EQ(stored_piece(*opened, 0, {3, 7}), wanted);
  wanted[3] = wanted[8] = wanted[13] = wanted[18] = wanted[23] = '?';
  EXPECT_EQ(stored_piece(*opened, 0, {3, 0, 1}), wanted);
  EXPECT_EQ(whole_of(dir.path(), "w"), tensor);
}

TEST(DcpPacked, ItemsOfAPieceThatFollowEachOtherTakeTurns) {
  const TempDir dir;
  const std::string tensor = noise_of(14 * 4);
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {14, 4});
  std::uint64_t at = 0;
  for (const std::uint64_t rows : {2U, 1U, 4U, 2U, 1U, 4U}) {
    made.part({at, 0}, {rows, 4}, tensor, true);
    at += rows;
  }
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  EXPECT_EQ(opened->catalog().grid_of(0).chunk, (Shape{7, 4}));
  EXPECT_EQ(opened->scratch_bytes(0, PieceSteps::any), piece_scratch_bytes(1));
  EXPECT_EQ(stored_piece(*opened, 0, {5}), tensor.substr(0, 28));
}

// Skipped elements aren't in any part. Parts from several readers are joined.
TEST(DcpPacked, TheCrcOfAPlainItemIsJoinedFromWhatReadersRead) {
  const std::string tensor = noise_of(40);
  std::vector<std::size_t> back(20, 0);
  back.push_back(20);
  std::vector<std::size_t> front{20};  // then the end, since a part is reported at the next read
  front.insert(front.end(), 10, 0);
  for (const bool damaged : {false, true}) {
    const TempDir dir;
    std::string archive = u8_archive(tensor);
    if (damaged) archive = altered(archive, tensor, 12, "?");
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {40}).box({0}, {40}, archive).write(dir.path());
    const auto opened = open_checkpoint(dir.path());
    EXPECT_EQ(stored_piece(*opened, 0, back).substr(20), tensor.substr(20));
    if (damaged) {
      const Error error = catch_error([&] { stored_piece(*opened, 0, front); });
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      EXPECT_EQ(error.tensor(), "w");
    } else {
      EXPECT_EQ(stored_piece(*opened, 0, front).substr(0, 20), tensor.substr(0, 20));
    }
  }
}

// Reading part of a large packed piece decodes all of it.
TEST(DcpPacked, PiecesHaveNoCells) {
  const TempDir dir;
  const std::string tensor(std::size_t{5} << 20, 'x');
  const Shape all{5, 1 << 17};
  TorchCheckpoint made;
  made.tensor("p", DType::f64, all).part({0, 0}, all, tensor, true);
  made.tensor("u", DType::f64, all).part({0, 0}, all, tensor, false);
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  EXPECT_FALSE(opened->catalog().grid_of(0).has_inner());
  EXPECT_TRUE(opened->catalog().grid_of(1).has_inner());
}

// A cell is a run of rows that divides the piece, of at most 4 MiB. Much shorter runs don't count.
TEST(DcpPacked, APieceThatNoLongRunDividesHasNoCells) {
  const auto rows_of_cell = [](std::uint64_t rows, std::uint64_t row_bytes) {
    const TempDir dir;
    const Shape all{rows, row_bytes};
    TorchCheckpoint made;
    made.tensor("w", DType::u8, all).part({0, 0}, all, std::string(rows * row_bytes, 'x'), false);
    made.write(dir.path());
    return open_checkpoint(dir.path())->catalog().grid_of(0).inner[0];
  };
  EXPECT_EQ(rows_of_cell(34, 1 << 17), 17U);
  EXPECT_EQ(rows_of_cell(37, 1 << 17), 37U) << "one row instead of 32";
  EXPECT_EQ(rows_of_cell(17, 1 << 18), 1U) << "one row instead of 16";
}

// A reader that stops after a cell has told its part of the CRC.
TEST(DcpPacked, TheCrcOfALargePlainItemIsJoinedFromItsCells) {
  const TempDir dir;
  const std::string tensor(std::size_t{5} << 20, 'x');
  const std::string archive = torch_archive(DType::u8, {5, 1 << 20}, tensor);
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {5, 1 << 20})
      .box({0, 0}, {5, 1 << 20}, altered(archive, "xxx", 1, "?"));
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  ASSERT_EQ(opened->catalog().grid_of(0).inner, (Shape{1, 1 << 20}));
  std::vector<std::byte> scratch(opened->scratch_bytes(0, PieceSteps::any));
  std::vector<std::byte> out(tensor.size());
  const auto cells = std::span(out);
  opened->open_piece(0, {0, 0}, PieceSteps::any, scratch)->read(cells.first(1 << 20));
  const auto others = opened->open_piece(0, {0, 0}, PieceSteps::any, scratch);
  others->skip(1 << 20);
  const Error error = catch_error([&] { others->read(cells.subspan(1 << 20)); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_TRUE(error.sentence().starts_with("the elements don't match their CRC: "));
}

// A plain box of a tensor, in which the second element is '?' if it is damaged.
struct SmallBox {
  Shape begin;
  Shape extent;
  std::string elements;
};

// Each box is checked, even if it is smaller than its piece.
void expect_each_checked(const Shape& shape, const std::string& whole,
                         const std::vector<SmallBox>& boxes) {
  for (std::size_t damaged = 0; damaged <= boxes.size(); ++damaged) {
    const TempDir dir;
    TorchCheckpoint made;
    made.tensor("w", DType::u8, shape);
    std::vector<ByteRange> places;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const SmallBox& box = boxes[i];
      const std::string good = torch_archive(DType::u8, box.extent, box.elements);
      const std::string item = i == damaged ? altered(good, box.elements, 1, "?") : good;
      made.box(box.begin, box.extent, item);
      const std::uint64_t begin = places.empty() ? 0 : places.back().end;
      places.push_back({begin, begin + item.size()});
    }
    made.write(dir.path());
    if (damaged == boxes.size()) {
      EXPECT_EQ(whole_of(dir.path(), "w"), whole);
      continue;
    }
    const std::string& elements = boxes[damaged].elements;
    std::string found = elements;
    found[1] = '?';
    const auto crc = [](const std::string& bytes) {
      return fmt::format("{:08x}", crc32(as_bytes(bytes)));
    };
    const Error error = catch_error([&] { whole_of(dir.path(), "w"); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << elements;
    EXPECT_EQ(error.sentence(),
              "the elements don't match their CRC: " + crc(found) + " instead of " + crc(elements));
    EXPECT_EQ(error.tensor(), "w");
    EXPECT_EQ(error.file(), dir / TorchCheckpoint::kDataFile);
    EXPECT_EQ(error.range(), places[damaged]);
    EXPECT_EQ(error.total_bytes(), places.back().end);
  }
}

TEST(DcpPacked, APlainItemThatIsPartOfAPieceIsChecked) {
  expect_each_checked({10}, "0123456789",
                      {{{0}, {3}, "012"}, {{3}, {2}, "34"}, {{5}, {3}, "567"}, {{8}, {2}, "89"}});
  expect_each_checked({7}, "0123456", {{{0}, {4}, "0123"}, {{4}, {3}, "456"}});
  expect_each_checked({2, 5}, "0123456789", {{{0, 0}, {2, 2}, "0156"}, {{0, 2}, {2, 3}, "234789"}});
}

TEST(DcpPacked, OpeningReadsFrontsOnly) {
  const TempDir dir;
  std::string item = packed(torch_archive(DType::u8, {1000, 1000}, noise_of(1000000)));
  std::fill(item.begin() + 200000, item.end(), '?');
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {1000, 1000}).box({0, 0}, {1000, 1000}, item, kZstdTransform);
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  std::vector<std::byte> scratch(opened->scratch_bytes(0, PieceSteps::any));
  std::vector<std::byte> out(1000000);
  const auto reader = opened->open_piece(0, {0, 0}, PieceSteps::any, scratch);
  EXPECT_EQ(catch_error([&] { reader->read(out); }).code(), ErrorCode::corrupt);
  const std::string whole = packed(torch_archive(DType::u8, {300, 300}, noise_of(90000)));
  TorchCheckpoint cut;
  cut.tensor("w", DType::u8, {300, 300});
  cut.box({0, 0}, {300, 300}, whole.substr(0, 80000), kZstdTransform);
  cut.write(dir / "cut");
  EXPECT_EQ(open_checkpoint(dir / "cut")->catalog().tensors.size(), 1U);
  EXPECT_EQ(catch_error([&] { whole_of(dir / "cut", "w"); }).code(), ErrorCode::corrupt);
}

// Partly skipped items are decoded and checked. Wholly skipped pieces aren't read.
TEST(DcpPacked, SkippingAPartFindsDamageAndSkippingAllReadsNothing) {
  const TempDir dir;
  const std::string tensor = noise_of(100000);
  const std::string archive = u8_archive(tensor);
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {100000});
  made.box({0}, {100000}, packed(altered(archive, tensor.substr(0, 50), 0, "?")), kZstdTransform);
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  std::vector<std::byte> scratch(opened->scratch_bytes(0, PieceSteps::any));
  opened->open_piece(0, {0}, PieceSteps::any, scratch)->skip(100000);
  const auto reader = opened->open_piece(0, {0}, PieceSteps::any, scratch);
  std::vector<std::byte> one(1);
  reader->read(one);
  const Error error = catch_error([&] { reader->skip(99999); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.file(), dir / TorchCheckpoint::kDataFile);
}

std::string turned_pickle(std::uint64_t rows, std::uint64_t columns) {
  std::string out = tensor_pickle(DType::u8, {rows, columns});
  std::string plain;
  std::string turned;
  PickleWriter(plain).integers({columns, 1});
  PickleWriter(turned).integers({1, rows});
  return out.replace(out.find(plain), plain.size(), turned);
}

TEST(DcpPacked, AnOrderOfAxesIsThatOfAllPartsOrRefused) {
  const TempDir dir;
  const std::string elements = "adgjbehkcfil";  // columns of abc def ghi jkl
  const std::string item = packed(torch_archive({turned_pickle(4, 3), elements}));
  TorchCheckpoint alone;
  alone.tensor("w", DType::u8, {4, 3}).box({0, 0}, {4, 3}, item, kZstdTransform);
  alone.write(dir.path());
  EXPECT_EQ(whole_of(dir.path(), "w"), "abcdefghijkl");
  TorchCheckpoint mixed;
  mixed.tensor("w", DType::u8, {8, 3});
  mixed.part({0, 0}, {4, 3}, std::string(24, 'x'), true).box({4, 0}, {4, 3}, item, kZstdTransform);
  mixed.write(dir / "mixed");
  const Error error = catch_error([&] { whole_of(dir / "mixed", "w"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.file(), dir / "mixed/" + TorchCheckpoint::kDataFile);
}

// If a part is lost, verify finds the order in the next one. An item of another form isn't lost.
TEST(DcpPacked, OnlyALostPartLeavesTheOrderToTheNextOne) {
  const std::string turned = torch_archive({turned_pickle(4, 3), "adgjbehkcfil"});
  const auto order_after = [&](const std::string& first) {
    const TempDir dir;
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {8, 3}).box({0, 0}, {4, 3}, first).box({4, 0}, {4, 3}, turned);
    made.write(dir.path());
    Choice choice;
    choice.despite_loss = true;
    return open_checkpoint(dir.path(), choice)->catalog().grid_of(0).order;
  };
  EXPECT_EQ(order_after("no archive"), (std::vector<std::uint8_t>{1, 0}));
  const std::string pickle = altered(tensor_pickle(DType::u8, {4, 3}), "ByteStorage", 0, "Lyte");
  const std::string other = torch_archive({pickle, std::string(12, 'x')});
  EXPECT_EQ(catch_error([&] { order_after(other); }).code(), ErrorCode::unsupported);
}

// Returns three rows of two elements that view a storage of twelve.
std::string archive_of_view(std::uint64_t row_stride, const std::string& storage) {
  std::string pickle = tensor_pickle(DType::u8, {3, 2});
  std::string plain;
  std::string wide;
  PickleWriter(plain).integers({2, 1});
  PickleWriter(wide).integers({row_stride, 1});
  pickle.replace(pickle.find(plain), plain.size(), wide);
  const std::size_t numel = pickle.find(std::string("K\6t"));
  HFSHARD_CHECK(numel != std::string::npos);
  pickle[numel + 1] = 12;
  return torch_archive({pickle, storage});
}

// The bytes between or behind the elements are read and count for the CRC.
void expect_all_checked(const std::string& archive, const std::vector<std::string>& places) {
  const TempDir dir;
  for (const bool is_packed : {true, false}) {
    const auto write = [&](const std::string& item) {
      TorchCheckpoint made;
      made.tensor("w", DType::u8, {3, 2});
      made.box({0, 0}, {3, 2}, is_packed ? packed(item) : item, is_packed ? kZstdTransform : "");
      made.write(dir.path());
    };
    write(archive);
    EXPECT_EQ(whole_of(dir.path(), "w"), "abcdef");
    for (const std::string& at : places) {
      write(altered(archive, at, 2, "?"));
      const Error error = catch_error([&] { whole_of(dir.path(), "w"); });
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << at;
      EXPECT_EQ(error.tensor(), "w") << at;
    }
  }
}

TEST(DcpPacked, GapsBetweenElementsAreRead) {
  expect_all_checked(archive_of_view(4, "ab..cd..ef.."), {"b..c", "f..P"});
}

TEST(DcpPacked, AViewOfTheFrontOfAStorageIsCheckedWithAllOfIt) {
  expect_all_checked(archive_of_view(2, "abcdef......"), {"abcd", "f...", "....P"});
}

TEST(DcpPacked, AStorageOfAnotherLengthThanItsPickleSaysIsCorrupt) {
  const TempDir dir;
  for (const bool is_packed : {true, false}) {
    for (const std::string bytes : {"abc", "abcd", "abcde"}) {
      const std::string archive = torch_archive({tensor_pickle(DType::u8, {4}), bytes});
      TorchCheckpoint made;
      made.tensor("w", DType::u8, {4});
      made.box({0}, {4}, is_packed ? packed(archive) : archive, is_packed ? kZstdTransform : "");
      made.write(dir.path());
      if (bytes == "abcd") {
        EXPECT_EQ(whole_of(dir.path(), "w"), bytes);
      } else {
        EXPECT_EQ(catch_error([&] { whole_of(dir.path(), "w"); }).code(), ErrorCode::corrupt)
            << bytes;
      }
    }
  }
}

TEST(DcpPacked, ElementsOfAnotherByteOrderAreRefused) {
  const TempDir dir;
  for (const bool is_packed : {true, false}) {
    for (const std::string order : {"little", "big"}) {
      const std::string archive = torch_records(
          {{"data.pkl", tensor_pickle(DType::i16, {2})}, {"byteorder", order}, {"data/0", "abcd"}});
      TorchCheckpoint made;
      made.tensor("w", DType::i16, {2});
      made.box({0}, {2}, is_packed ? packed(archive) : archive, is_packed ? kZstdTransform : "");
      made.write(dir.path());
      if (order == "little") {
        EXPECT_EQ(whole_of(dir.path(), "w"), "abcd");
      } else {
        EXPECT_EQ(catch_error([&] { whole_of(dir.path(), "w"); }).code(), ErrorCode::unsupported);
      }
    }
  }
}

TEST(DcpPacked, OtherTransformsAreRefusedByName) {
  const TempDir dir;
  for (const char* name : {"stream.zstd/2", "stream.lz4/1", "STREAM.ZSTD/1"}) {
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {4}).box({0}, {4}, packed(u8_archive("abcd")), name);
    made.write(dir.path());
    const Error error = catch_error([&] { open_checkpoint(dir.path()); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "w");
    EXPECT_NE(error.sentence().find(name), std::string::npos);
  }
}

// -- Decoders

StoredTensor packed_tensor(const Shape& shape, const std::vector<std::pair<Shape, Shape>>& boxes) {
  StoredTensor out;
  out.name = "w";
  out.shape = shape;
  ItemPlace place;
  place.zstd = true;
  for (const auto& [begin, extent] : boxes) out.boxes.push_back({begin, extent, place});
  return out;
}

TEST(DcpPacked, ItemsOneBehindTheOtherShareADecoder) {
  const auto most = [](const StoredTensor& tensor, const std::vector<std::uint8_t>& order) {
    return most_packed_at_once(tensor, cut_pieces(tensor, ".metadata"), order);
  };
  // Five rows of a piece in two items, once or several times.
  EXPECT_EQ(most(packed_tensor({10}, {{{0}, {3}}, {{3}, {2}}, {{5}, {3}}, {{8}, {2}}}), {0}), 1U);
  const StoredTensor columns =
      packed_tensor({4, 6}, {{{0, 0}, {4, 3}}, {{0, 3}, {4, 1}}, {{0, 4}, {4, 2}}});
  EXPECT_EQ(most(columns, {0, 1}), 2U);
  EXPECT_EQ(most(columns, {1, 0}), 1U);
  EXPECT_EQ(most(packed_tensor({4, 6}, {{{0, 0}, {4, 6}}}), {0, 1}), 1U);
  EXPECT_EQ(most(packed_tensor({0, 6}, {}), {0, 1}), 0U);
  StoredTensor plain = columns;
  plain.boxes[0].place.zstd = plain.boxes[2].place.zstd = false;
  EXPECT_EQ(most(plain, {0, 1}), 1U);
}

TEST(DcpPacked, TooManyItemsSideBySideAreALimit) {
  const TempDir dir;
  const std::string tensor = noise_of(2 * 255);
  // One column, then pairs: pieces begin at the first and in the middle.
  const auto write = [&](std::uint64_t columns) {
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {2, columns}).part({0, 0}, {2, 1}, tensor, true);
    for (std::uint64_t at = 1; at < columns; at += 2) made.part({0, at}, {2, 2}, tensor, true);
    made.write(dir.path());
  };
  write(253);
  EXPECT_EQ(whole_of(dir.path(), "w"), tensor.substr(0, 506));
  write(255);
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(),
            "a piece of 65 packed items side by side; at most 64 are decoded together");
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.file(), dir / ".metadata");
}

}  // namespace
}  // namespace hfshard::format::dcp
