#include "format/dcp/packed_item.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32.h"
#include "format/archive.h"
#include "format/dcp/archive_write.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/tensor_pickle.h"
#include "format/zip.h"
#include "support/catch_error.h"
#include "support/memory_source.h"
#include "support/torch_checkpoint.h"
#include "support/zstd_frames.h"
#include "unit/format/dcp/packed_items.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

constexpr std::string_view kBefore = "before";

// Returns frames with `each` bytes of content, as from a writer that flushes after each.
std::string frames_of(std::string_view content, std::size_t each, const FrameOptions& options) {
  std::string out;
  for (std::size_t at = 0; at < content.size(); at += each)
    out += zstd_frame(content.substr(at, each), options);
  return out;
}

// Reads the elements of a u8 item in steps. A step of 0 skips a byte.
std::string elements_of(const std::string& item, std::uint64_t count,
                        const std::vector<std::size_t>& steps = {SIZE_MAX},
                        std::uint64_t record_bytes = 0) {
  const MemorySource file(std::string(kBefore) + item + "behind");
  ItemPlace place;
  place.offset_bytes = kBefore.size();
  place.length_bytes = item.size();
  static std::vector<std::byte> scratch(PackedItem::scratch_bytes());  // shared by all tests, dirty
  PackedItem opened(file, place, {DType::u8, {count}}, scratch);
  EXPECT_EQ(opened.payload().size_bytes, record_bytes != 0 ? record_bytes : count);
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

TEST(DcpPackedItem, ElementsComeWhateverTheFramesAre) {
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

// A fetch can end within a compressed block. The decoder makes nothing of it until the rest comes.
TEST(DcpPackedItem, ABlockMayCrossTheEndOfAFetch) {
  std::string elements = noise_of(400000);
  for (char& byte : elements) byte = static_cast<char>(byte & 0x0f);
  const std::string item = frames_of(u8_archive(elements), 50000, {3, 0, false});
  EXPECT_LT(item.size(), elements.size() * 2 / 3) << "blocks are stored raw";
  EXPECT_GT(item.size(), std::size_t{150000}) << "one fetch has all";
  EXPECT_EQ(elements_of(item, elements.size()), elements);
}

// The headers have sizes and CRC, as torch.save writes them to seekable files.
TEST(DcpPackedItem, HeadersMayHaveTheSizes) {
  const std::string elements = noise_of(500);
  const std::string pickle = tensor_pickle(DType::u8, {500});
  const ArchiveForm form = archive_form(pickle.size(), elements.size());
  const std::uint32_t crc = crc32(as_bytes(elements));
  const std::string archive = archive_head(pickle, 500, crc, form.head_bytes) + elements +
                              archive_tail(pickle, 500, crc, form.head_bytes);
  EXPECT_EQ(elements_of(packed(archive), 500), elements);
  expect_corrupt(packed(altered(archive, "_rebuild_tensor", 1, "x")), 500, "CRC");
  expect_corrupt(packed(altered(archive, "cpu", 0, "x")), 500, "CRC");
  expect_corrupt(packed(altered(archive, "FB", 10, "x")), 500, "headers and its directory differ");
  constexpr std::size_t kTime = 12;  // in an entry of the directory
  expect_corrupt(packed(altered(archive, "PK\1\2", kTime, "x")), 500,
                 "headers and its directory differ");
}

TEST(DcpPackedItem, AnItemEndsWithItsFile) {
  const std::string item = packed(u8_archive(noise_of(500)));
  const MemorySource file(item);
  ItemPlace place;
  place.length_bytes = item.size() + 1;
  std::vector<std::byte> scratch(PackedItem::scratch_bytes());
  EXPECT_EQ(catch_error([&] {
              PackedItem(file, place, {DType::u8, {500}}, scratch);
            }).code(),
            ErrorCode::corrupt);
}

// Headers of frames cross the end of a fetch.
TEST(DcpPackedItem, FramesMayBeEmptyAndAnyNumber) {
  const std::string elements = noise_of(5000);
  const std::string archive = u8_archive(elements);
  const std::string empty = packed("");
  std::string many;
  for (std::size_t i = 0; i < 20000; ++i) many += empty;
  for (const std::size_t at : {0U, 1000U, 3000U}) {
    EXPECT_EQ(elements_of(packed(archive.substr(0, at)) + many + packed(archive.substr(at)), 5000),
              elements);
  }
}

// Records can have bytes that look like a descriptor.
TEST(DcpPackedItem, ARecordEndsWhereItsOwnDescriptorStands) {
  const std::string elements = noise_of(500);
  const auto numbers = [](std::uint32_t crc, std::uint64_t size, bool wide) {
    std::string out(wide ? 20 : 12, '\0');
    std::byte* at = std::as_writable_bytes(std::span(out)).data();
    store_le<std::uint32_t>(at, crc);
    store_le<std::uint32_t>(at + 4, static_cast<std::uint32_t>(size));
    store_le<std::uint32_t>(at + (wide ? 12 : 8), static_cast<std::uint32_t>(size));
    return std::string(zip::kDescriptor) + out;
  };
  const std::uint32_t crc = crc32(as_bytes(std::string_view("note")));
  for (const bool wide : {false, true}) {
    for (const std::string& fake : {std::string("PKPK\7PK\7\7"), numbers(crc, 3, wide) + "PK",
                                    numbers(crc + 1, 4, wide) + "PK", numbers(crc, 4, wide) + "no",
                                    numbers(crc, 4, wide).substr(0, 14) + "12PK"}) {
      TorchArchive archive{tensor_pickle(DType::u8, {500}), elements, wide, "note" + fake, {}};
      EXPECT_EQ(elements_of(packed(torch_archive(archive)), 500), elements);
      archive.wide = !wide;
      EXPECT_EQ(elements_of(packed(torch_archive(archive)), 500), elements);
      archive.note = fake;
      EXPECT_EQ(elements_of(packed(torch_archive(archive)), 500), elements);
    }
  }
}

TEST(DcpPackedItem, WhatIsPassedOverIsCheckedToo) {
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

TEST(DcpPackedItem, DamagedFramesAreCorrupt) {
  const std::string elements = noise_of(3000);
  const std::string item = packed(u8_archive(elements));
  expect_corrupt("", 3000, "ends before its archive");
  expect_corrupt("no frame", 3000, "aren't a zstd frame");
  expect_corrupt(item + "x", 3000, "aren't a zstd frame");
  expect_corrupt(item + std::string(20, '\0'), 3000, "aren't a zstd frame");
  expect_corrupt(item + "\x50\x2a\x4d\x18" + std::string("\2\0\0\0xx", 6), 3000,
                 "aren't a zstd frame");
  expect_corrupt(item.substr(1), 3000, "aren't a zstd frame");
  expect_corrupt(item.substr(0, item.size() - 1), 3000, "passes the end");
  for (std::size_t size = 1; size < item.size(); size += 97)
    EXPECT_EQ(error_of(item.substr(0, size), 3000).code(), ErrorCode::corrupt) << size;
  // The content of another frame, like a comment of the archive.
  expect_corrupt(item + packed("x"), 3000, "comment");
  expect_corrupt(packed(u8_archive(elements) + "x"), 3000, "comment");
}

// Noise is stored raw in a frame, so only the CRC of the archive detects a changed bit.
TEST(DcpPackedItem, AFlippedBitIsFoundByTheCrcOfTheElements) {
  const std::string elements = noise_of(3000);
  const std::string item = packed(u8_archive(elements));
  const std::size_t at = item.find(elements.substr(1000, 100));
  ASSERT_NE(at, std::string::npos);
  for (std::size_t bit = 0; bit < 8; ++bit) {
    std::string bad = item;
    bad[at + 50] = static_cast<char>(static_cast<unsigned char>(bad[at + 50]) ^ (1U << bit));
    expect_corrupt(bad, 3000, "don't match their CRC");
  }
}

// No flip gives other elements without an error.
TEST(DcpPackedItem, NoFlippedBitGivesOtherElements) {
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

TEST(DcpPackedItem, AWindowBeyondWhatEncodersTakeIsALimit) {
  const std::string elements(std::size_t{9} << 20, 'a');
  const std::string archive = u8_archive(elements);
  EXPECT_EQ(elements_of(zstd_frame(archive, {1, 23, false}), elements.size()), elements);
  EXPECT_EQ(error_of(zstd_frame(archive, {1, 24, false}), elements.size()).code(),
            ErrorCode::limit);
}

TEST(DcpPackedItem, ArchivesThatContradictThemselvesAreCorrupt) {
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
  // Fields of data/0 in the directory: CRC, sizes, and the place of its header.
  const std::size_t entry = archive.rfind(crc) - 16;
  ASSERT_EQ(archive.substr(entry, 4), zip::kEntry);
  corrupt(altered(archive, archive.substr(entry, 20), 16, "\1\2"), "don't match their CRC");
  const std::string two = archive.substr(entry, 46);
  corrupt(altered(archive, two, 20, "\1\1"), "two sizes");
  corrupt(altered(altered(archive, two, 20, "\1\1"), two.substr(0, 20), 24, "\1\1"), "500");
  corrupt(altered(archive, two, 42, "\1"), "differs from the directory");
  corrupt(altered(archive, two, 46 + 8 + 5, "9"), "no record");
  // Bytes in front of the elements.
  corrupt(altered(archive, zip::kHeader, 0, "x"), "isn't an archive");
  corrupt(altered(archive, "_rebuild_tensor", 1, "x"), "ends before its archive");
  corrupt(altered(archive, zip::kDescriptor, 4, "1234"), "ends before its archive");
  corrupt(altered(archive, zip::kDescriptor, 8, "1234"), "ends before its archive");
  corrupt(altered(archive, "archive/data/0", 13, "1"), "an archive with elements");
  corrupt(archive.substr(0, archive.size() - 1), "zip directory");
  corrupt(archive.substr(0, archive.size() - 1000), "ends before its archive");
  const std::string compressed = altered(archive, zip::kHeader, 8, "\x8");
  EXPECT_EQ(error_of(packed(compressed), 500).code(), ErrorCode::unsupported);
}

// Both pickles are for the right tensor, but they lay out its elements differently.
TEST(DcpPackedItem, ADirectoryWithAnotherPickleIsCorrupt) {
  const std::string pickle = tensor_pickle(DType::u8, {500});
  const std::string elements = noise_of(510);
  const auto laid_out = [&](char offset, std::string_view stride) {
    std::string out = pickle;
    std::string of_storage;
    std::string of_all;
    PickleWriter(of_storage).integer(500);
    PickleWriter(of_all).integer(510);
    out.replace(out.find(of_storage), of_storage.size(), of_all);
    const std::size_t at = out.find(std::string("QK\0", 3));
    HFSHARD_CHECK(at != std::string::npos);
    out[at + 2] = offset;
    std::string one;
    PickleWriter(one).integers({1});
    const std::size_t steps = out.rfind(one);
    return out.replace(steps, one.size(), stride);
  };
  std::string one;
  std::string none;
  PickleWriter(one).integers({1});
  PickleWriter(none).integers({0});
  const std::string plain = laid_out(0, one);
  EXPECT_EQ(
      elements_of(packed(torch_archive({plain, elements, false, {}, plain})), 500, {500}, 510),
      elements.substr(0, 500));
  for (const std::string& other : {laid_out(1, one), laid_out(0, none)}) {
    const Error error = catch_error([&] {
      elements_of(packed(torch_archive({plain, elements, false, {}, other})), 500, {500}, 510);
    });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_NE(error.sentence().find("different elements"), std::string::npos) << error.sentence();
  }
}

TEST(DcpPackedItem, AnotherTensorThanTheMetadataSaysIsCorrupt) {
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

TEST(DcpPackedItem, OtherOrdersOfBytesAreRefused) {
  const std::string elements = noise_of(500);
  std::string archive = u8_archive(elements);
  const std::string little = "little";
  const std::size_t at = archive.find("byteorder") + std::string_view("byteorder").size();
  const std::size_t word = archive.find(little, at);
  // The descriptor must follow: another CRC with the same length.
  archive.replace(word, 6, "bigger");
  std::string crc(4, '\0');
  store_le<std::uint32_t>(std::as_writable_bytes(std::span(crc)).data(),
                          crc32(as_bytes(std::string_view("bigger"))));
  archive.replace(word + 10, 4, crc);
  EXPECT_EQ(error_of(packed(archive), 500).code(), ErrorCode::unsupported);
}

// Only a bounded part around the elements is kept.
TEST(DcpPackedItem, WhatIsAroundTheElementsIsBounded) {
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

TEST(DcpPackedItem, ElementsBeginAtMost64KiBAfterTheFront) {
  const std::string elements = noise_of(500);
  const auto archive = [&](std::size_t note_bytes) {
    return torch_archive(
        {tensor_pickle(DType::u8, {500}), elements, false, std::string(note_bytes, 'n')});
  };
  const std::size_t begin = archive(60'000).find(elements);
  const std::size_t note_bytes = 60'000 + PackedItem::kMostAround - begin;
  ASSERT_EQ(archive(note_bytes).find(elements), PackedItem::kMostAround);
  EXPECT_EQ(elements_of(packed(archive(note_bytes)), 500), elements);
  const Error error = error_of(packed(archive(note_bytes + 64)), 500);
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(), "more than 64 KiB before the elements of an item");
}

// A source that can't be read now. Reading it later can work.
class Unreadable final : public Source {
 public:
  explicit Unreadable(ErrorCode code) : code_(code) {}
  std::uint64_t size_bytes() const override { return 100; }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t /*offset_bytes*/, std::span<std::byte> /*out*/) const override {
    throw Error(code_, "no answer").in_file("elsewhere").hint("try again");
  }

 private:
  ErrorCode code_;
  std::string name_ = "unreadable";
};

TEST(DcpPackedItem, ErrorsOfTheSourceAreNotAboutTheItem) {
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::network, ErrorCode::access}) {
    const Unreadable file(code);
    std::vector<std::byte> scratch(PackedItem::scratch_bytes());
    ItemPlace place;
    place.length_bytes = 100;
    const Error error = catch_error([&] {
      const PackedItem item(file, place, {DType::u8, {4}}, scratch);
    });
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.sentence(), "no answer");
    EXPECT_EQ(error.file(), "elsewhere");
    EXPECT_EQ(error.hint_text(), "try again");
    EXPECT_FALSE(error.range());
  }
}

}  // namespace
}  // namespace hfshard::format::dcp
