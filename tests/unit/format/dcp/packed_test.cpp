// Items that went through stream.zstd/1, as torch writes them.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32.h"
#include "catalog/checkpoint.h"
#include "format/dcp/metadata.h"
#include "format/dcp/packed_item.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/piece.h"
#include "format/dcp/pieces.h"
#include "format/dcp/tensor_pickle.h"
#include "format/dcp/zip.h"
#include "format/formats.h"
#include "support/catch_error.h"
#include "support/memory_source.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "support/zstd_frames.h"

#include "hfshard/hfshard.h"

namespace hfshard::format::dcp {
namespace {

constexpr std::string_view kBefore = "before";

std::string noise_of(std::size_t size, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

// Frames of so many bytes of content each, as a writer makes them that ends one whenever it is
// flushed.
std::string frames_of(std::string_view content, std::size_t each, const FrameOptions& options) {
  std::string out;
  for (std::size_t at = 0; at < content.size(); at += each)
    out += zstd_frame(content.substr(at, each), options);
  return out;
}
std::string packed(std::string_view content) { return zstd_frame(content, {3, 0, false}); }

// The elements of an item of u8, which is read in steps; 0 passes over a byte.
std::string elements_of(const std::string& item, std::uint64_t count,
                        const std::vector<std::size_t>& steps = {SIZE_MAX}) {
  const MemorySource file(std::string(kBefore) + item + "behind");
  ItemPlace place;
  place.offset_bytes = kBefore.size();
  place.length_bytes = item.size();
  std::vector<std::byte> scratch(PackedItem::scratch_bytes());
  PackedItem opened(file, place, {DType::u8, {count}}, scratch);
  EXPECT_EQ(opened.payload().size_bytes, count);
  std::string out(count, '?');
  std::uint64_t at = 0;
  for (std::size_t step = 0; at < count; ++step) {
    const std::uint64_t size = std::min<std::uint64_t>(steps[step % steps.size()], count - at);
    const auto to = std::as_writable_bytes(std::span(out)).subspan(at, size);
    if (size > 0) opened.read(at, to);
    at += std::max<std::uint64_t>(size, 1);
  }
  opened.finish();
  return out;
}

Error error_of(const std::string& item, std::uint64_t count) {
  const Error out = catch_error([&] { elements_of(item, count); });
  EXPECT_EQ(out.file(), "memory");
  EXPECT_EQ(out.range(), (ByteRange{kBefore.size(), kBefore.size() + item.size()}));
  EXPECT_EQ(out.total_bytes(), kBefore.size() + item.size() + 6);
  return out;
}

void expect_corrupt(const std::string& item, std::uint64_t count, std::string_view sentence) {
  const Error error = error_of(item, count);
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_NE(error.sentence().find(sentence), std::string::npos) << error.sentence();
}

// The same archive with bytes changed at a place from the first occurrence of `mark` on.
std::string altered(std::string archive, std::string_view mark, std::size_t at,
                    std::string_view bytes) {
  const std::size_t found = archive.find(mark);
  HFSHARD_CHECK(found != std::string::npos);
  return archive.replace(found + at, bytes.size(), bytes);
}

std::string u8_archive(const std::string& elements) {
  return torch_archive(DType::u8, {elements.size()}, elements);
}

TEST(DcpPacked, ElementsComeWhateverTheFramesAre) {
  for (const std::size_t size : {1U, 100U, 131072U, 700001U}) {
    const std::string elements = noise_of(size / 2) + std::string(size - size / 2, 'a');
    for (const bool wide : {false, true}) {
      const std::string archive = torch_archive({tensor_pickle(DType::u8, {size}), elements, wide});
      for (const bool stated : {false, true}) {
        const FrameOptions options{3, 0, stated, stated};
        EXPECT_EQ(elements_of(zstd_frame(archive, options), size), elements);
        EXPECT_EQ(elements_of(frames_of(archive, 50000, options), size), elements);
        if (size > 1000) continue;
        for (const std::size_t each : {1U, 7U, 300U})
          EXPECT_EQ(elements_of(frames_of(archive, each, options), size), elements) << each;
      }
      EXPECT_EQ(elements_of(packed(archive) + packed(""), size), elements);
      EXPECT_EQ(elements_of(packed(archive), size, {1000, 77}), elements);
    }
  }
}

TEST(DcpPacked, WhatIsPassedOverIsCheckedToo) {
  const std::string elements = noise_of(300000);
  const std::string archive = u8_archive(elements);
  const std::string read = elements_of(packed(archive), elements.size(), {0, 0, 5000, 1});
  EXPECT_EQ(read.substr(0, 2), "??");
  EXPECT_EQ(read.substr(2, 5001), elements.substr(2, 5001));
  EXPECT_EQ(elements_of(packed(archive), elements.size(), {0}), std::string(300000, '?'));
  const std::string flipped = altered(archive, elements.substr(0, 20), 0, "?");
  const Error error = catch_error([&] {
    elements_of(packed(flipped), elements.size(), {0, 1000});
  });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
}

TEST(DcpPacked, DamagedFramesAreCorrupt) {
  const std::string elements = noise_of(3000);
  const std::string item = packed(u8_archive(elements));
  expect_corrupt("", 3000, "ends before the archive");
  expect_corrupt("no frame", 3000, "no zstd frame");
  expect_corrupt(item + "x", 3000, "no zstd frame");
  expect_corrupt(item + std::string(20, '\0'), 3000, "no zstd frame");
  expect_corrupt(item + "\x50\x2a\x4d\x18" + std::string("\2\0\0\0xx", 6), 3000, "no zstd frame");
  expect_corrupt(item.substr(1), 3000, "no zstd frame");
  expect_corrupt(item.substr(0, item.size() - 1), 3000, "passes the end");
  for (std::size_t size = 1; size < item.size(); size += 97)
    EXPECT_EQ(error_of(item.substr(0, size), 3000).code(), ErrorCode::corrupt) << size;
  // Content of another frame, as if it were a comment of the archive.
  expect_corrupt(item + packed("x"), 3000, "comment");
  expect_corrupt(packed(u8_archive(elements) + "x"), 3000, "comment");
}

// Noise lies in a frame as it is, so that only the CRC of the archive knows of a changed bit.
TEST(DcpPacked, AFlippedBitIsFoundByTheCrcOfTheElements) {
  const std::string elements = noise_of(3000);
  const std::string item = packed(u8_archive(elements));
  const std::size_t at = item.find(elements.substr(1000, 100));
  ASSERT_NE(at, std::string::npos);
  for (std::size_t bit = 0; bit < 8; ++bit) {
    std::string bad = item;
    bad[at + 50] = static_cast<char>(static_cast<unsigned char>(bad[at + 50]) ^ (1U << bit));
    expect_corrupt(bad, 3000, "do not have their CRC");
  }
}

// No flip anywhere gives other elements in silence.
TEST(DcpPacked, NoFlippedBitGivesOtherElements) {
  const std::string elements = noise_of(60) + std::string(60, 'a');
  const std::string item = packed(u8_archive(elements));
  std::size_t found = 0;
  for (std::size_t bit = 0; bit < 8 * item.size(); bit += 3) {
    std::string bad = item;
    bad[bit / 8] = static_cast<char>(static_cast<unsigned char>(bad[bit / 8]) ^ (1U << bit % 8));
    try {
      EXPECT_EQ(elements_of(bad, elements.size()), elements) << bit;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << bit;
      ++found;
    }
  }
  EXPECT_GT(found, item.size());
}

TEST(DcpPacked, AWindowBeyondWhatEncodersTakeIsALimit) {
  const std::string elements(std::size_t{9} << 20, 'a');
  const std::string archive = u8_archive(elements);
  EXPECT_EQ(elements_of(zstd_frame(archive, {1, 23, false}), elements.size()), elements);
  EXPECT_EQ(error_of(zstd_frame(archive, {1, 24, false}), elements.size()).code(),
            ErrorCode::limit);
}

TEST(DcpPacked, ArchivesThatContradictThemselvesAreCorrupt) {
  const std::string elements = noise_of(500);
  const std::string archive = u8_archive(elements);
  const std::string crc = [&] {
    std::string out(4, '\0');
    store_le<std::uint32_t>(std::as_writable_bytes(std::span(out)).data(),
                            crc32(as_bytes(elements)));
    return out;
  }();
  const auto corrupt = [&](const std::string& other, std::string_view sentence) {
    expect_corrupt(packed(other), 500, sentence);
  };
  // Of data/0, in the directory: CRC, sizes, and where its header is.
  const std::size_t entry = archive.rfind(crc) - 16;
  ASSERT_EQ(archive.substr(entry, 4), zip::kEntry);
  corrupt(altered(archive, archive.substr(entry, 20), 16, "\1\2"), "do not have their CRC");
  const std::string two = archive.substr(entry, 46);
  corrupt(altered(archive, two, 20, "\1\1"), "two sizes");
  corrupt(altered(altered(archive, two, 20, "\1\1"), two.substr(0, 20), 24, "\1\1"), "500");
  corrupt(altered(archive, two, 42, "\1"), "not as the directory has it");
  corrupt(altered(archive, two, 46 + 8 + 5, "9"), "no record");
  // What is in front of the elements.
  corrupt(altered(archive, zip::kHeader, 0, "x"), "no archive");
  corrupt(altered(archive, "_rebuild_tensor", 1, "x"), "ends before the archive");
  corrupt(altered(archive, zip::kDescriptor, 4, "1234"), "ends before the archive");
  corrupt(altered(archive, zip::kDescriptor, 8, "1234"), "ends before the archive");
  corrupt(altered(archive, "archive/data/0", 13, "1"), "no archive with elements");
  corrupt(archive.substr(0, archive.size() - 1), "zip directory");
  corrupt(archive.substr(0, archive.size() - 1000), "ends before the archive");
  const std::string compressed = altered(archive, zip::kHeader, 8, "\x8");
  EXPECT_EQ(error_of(packed(compressed), 500).code(), ErrorCode::unsupported);
}

TEST(DcpPacked, AnotherTensorThanTheMetadataSaysIsCorrupt) {
  const std::string elements = noise_of(500);
  expect_corrupt(packed(u8_archive(elements)), 499, "the metadata says");
  expect_corrupt(packed(torch_archive(DType::i8, {500}, elements)), 500, "the metadata says");
  // Fewer and more elements than the pickle has.
  const std::string pickle = tensor_pickle(DType::u8, {500});
  expect_corrupt(packed(torch_archive({pickle, elements.substr(1)})), 500, "");
  expect_corrupt(packed(torch_archive({pickle, elements + "x"})), 500, "");
  EXPECT_EQ(error_of(packed(torch_archive({"\x80\2N.", elements})), 500).code(),
            ErrorCode::unsupported);
}

TEST(DcpPacked, OtherOrdersOfBytesAreRefused) {
  const std::string elements = noise_of(500);
  std::string archive = u8_archive(elements);
  const std::string little = "little";
  const std::size_t at = archive.find("byteorder") + std::string_view("byteorder").size();
  const std::size_t word = archive.find(little, at);
  // The descriptor has to follow: another CRC, of the same length.
  archive.replace(word, 6, "bigger");
  std::string crc(4, '\0');
  store_le<std::uint32_t>(std::as_writable_bytes(std::span(crc)).data(),
                          crc32(as_bytes(std::string_view("bigger"))));
  archive.replace(word + 10, 4, crc);
  EXPECT_EQ(error_of(packed(archive), 500).code(), ErrorCode::unsupported);
}

// Only so much is kept of what is around the elements.
TEST(DcpPacked, WhatIsAroundTheElementsIsBounded) {
  const std::string elements = noise_of(500);
  const std::string archive = u8_archive(elements);
  const std::string comment(PackedItem::kMostAround - 2000, 'c');
  std::string commented = archive + comment;
  commented[archive.size() - 2] = static_cast<char>(comment.size());
  commented[archive.size() - 1] = static_cast<char>(comment.size() >> 8U);
  EXPECT_EQ(elements_of(packed(commented), 500), elements);
  EXPECT_EQ(error_of(packed(commented + std::string(2000, 'c')), 500).code(), ErrorCode::limit);
  const std::string first = archive.substr(0, archive.find(zip::kHeader, 4));
  std::string many;
  while (many.size() < PackedItem::kMostAround) many += first;
  EXPECT_EQ(error_of(packed(many + archive), 500).code(), ErrorCode::limit);
}

// -- Checkpoints

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
  // Three columns beside two and one, of which one is not packed.
  made.part({0, 0}, {5, 3}, cells, true).part({0, 3}, {5, 2}, cells, false);
  made.part({0, 5}, {5, 1}, cells, true);
  made.tensor("s", DType::f32, {}).part({}, {}, scalar, true);
  made.write(dir.path());
  EXPECT_EQ(whole_of(dir.path(), "a"), rows);
  EXPECT_EQ(whole_of(dir.path(), "b"), cells);
  EXPECT_EQ(whole_of(dir.path(), "s"), scalar);
  const CheckpointReader opened = open(dir.path());
  for (const StoredArray& array : opened.info().arrays)
    EXPECT_EQ(array.codecs, std::vector<std::string>{"stream.zstd/1"}) << array.name;
}

// A piece as it is stored, in steps; 0 passes over a byte.
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

// What is passed over in part is decoded and compared; a whole piece is not touched.
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

// Rows of a longer storage: what lies between is decoded, and its CRC counts.
TEST(DcpPacked, GapsBetweenElementsAreDecoded) {
  const TempDir dir;
  std::string pickle = tensor_pickle(DType::u8, {3, 2});
  std::string plain;
  std::string wide;
  PickleWriter(plain).integers({2, 1});
  PickleWriter(wide).integers({4, 1});
  pickle.replace(pickle.find(plain), plain.size(), wide);
  const std::size_t numel = pickle.find(std::string("K\6t"));
  ASSERT_NE(numel, std::string::npos);
  pickle[numel + 1] = 12;
  const auto write = [&](const std::string& archive) {
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {3, 2}).box({0, 0}, {3, 2}, packed(archive), kZstdTransform);
    made.write(dir.path());
  };
  const std::string archive = torch_archive({pickle, "ab..cd..ef.."});
  write(archive);
  EXPECT_EQ(whole_of(dir.path(), "w"), "abcdef");
  for (const char* at : {"b..c", "f..P"}) {
    write(altered(archive, at, 2, "?"));
    EXPECT_EQ(catch_error([&] { whole_of(dir.path(), "w"); }).code(), ErrorCode::corrupt);
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
  // Five rows of a piece in two items, once or more often.
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
  // A column, then two by two: pieces begin at the first and in the middle.
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
  EXPECT_EQ(error.tensor(), "w");
}

}  // namespace
}  // namespace hfshard::format::dcp
