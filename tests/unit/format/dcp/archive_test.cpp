#include "format/archive.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32.h"
#include "base/digest.h"
#include "bytes/local/files.h"
#include "format/dcp/archive_write.h"
#include "format/dcp/dcp.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/tensor_pickle.h"
#include "format/zip.h"
#include "support/catch_error.h"
#include "support/checkpoint_builder.h"
#include "support/memory_source.h"

namespace hfshard::format::dcp {
namespace {

std::string archive_of(DType dtype, const Shape& shape, const std::string& elements) {
  const std::string pickle = tensor_pickle(dtype, shape);
  const std::uint32_t crc = crc32(as_bytes(elements));
  const ArchiveForm form = archive_form(pickle.size(), elements.size());
  return archive_head(pickle, elements.size(), crc, form.head_bytes) + elements +
         archive_tail(pickle, elements.size(), crc, form.head_bytes);
}

// A bf16 tensor of 2 x 3 with the values 0 to 5, in the form that torch 2.6 to 2.14 load. The hash
// is for bytes that they loaded.
TEST(DcpArchive, BytesAreThoseThatTorchLoads) {
  const std::string elements("\0\0\x80\x3f\0\x40\x40\x40\x80\x40\xa0\x40", 12);
  const std::string made = archive_of(DType::bf16, {2, 3}, elements);
  EXPECT_EQ(made.size(), 740U);
  EXPECT_EQ(sha256_hex(made), "8cf3baf552655cda014ee2b8c56134731e4c84d0ece6dbc6f38e1ff97419ba01");
}

TEST(DcpArchive, RecordsAreFoundFromTheEnd) {
  const std::string made = archive_of(DType::f32, {2}, "12345678");
  for (const std::string& comment : {std::string(), std::string("a comment")}) {
    std::string all = "before" + made + comment;
    all[6 + made.size() - 2] = static_cast<char>(comment.size());
    const std::size_t end = all.size();
    const MemorySource file(all + "after");
    const Archive archive(file, {6, end});
    ASSERT_NE(archive.find("data/0"), nullptr);
    EXPECT_EQ(archive.read(*archive.find("data/0")), "12345678");
    EXPECT_EQ(archive.read(*archive.find("byteorder")), "little");
    EXPECT_EQ(archive.find("data/1"), nullptr);
    EXPECT_EQ(archive.payload_bytes(*archive.find("data/0")) - 6, 320U);
  }
}

// Sizes that don't fit are in the ZIP64 fields. The elements don't exist.
TEST(DcpArchive, LargeRecordsHaveWideSizes) {
  const std::string pickle = tensor_pickle(DType::u8, {1ULL << 33});
  const ArchiveForm form = archive_form(pickle.size(), 1ULL << 33);
  const std::string head = archive_head(pickle, 1ULL << 33, 7, form.head_bytes);
  const std::string tail = archive_tail(pickle, 1ULL << 33, 7, form.head_bytes);
  EXPECT_EQ(head.size(), form.head_bytes);
  EXPECT_EQ(tail.size(), form.tail_bytes);
  const TempDir dir;
  write_text(dir / "sparse", head);
  std::filesystem::resize_file(dir / "sparse", head.size() + (1ULL << 33));
  std::ofstream(dir / "sparse", std::ios::app | std::ios::binary) << tail;
  const FileSource file(dir / "sparse");
  const Archive archive(file, {0, file.size_bytes()});
  EXPECT_EQ(archive.find("data/0")->size_bytes, 1ULL << 33);
  EXPECT_EQ(archive.payload_bytes(*archive.find("data/0")), form.head_bytes);
}

TEST(DcpArchive, WhatIsNoArchiveIsCorrupt) {
  const std::string made = archive_of(DType::f32, {2}, "12345678");
  const auto code_of = [](const std::string& bytes) {
    const MemorySource file(bytes);
    const Error error = catch_error([&] {
      const Archive archive(file, {0, bytes.size()});
      for (const Archive::Record& record : archive.records()) archive.read(record);
    });
    EXPECT_EQ(error.file(), "memory");
    EXPECT_EQ(error.range(), (ByteRange{0, bytes.size()}));
    return error.code();
  };
  const auto with = [&](std::size_t at, char value) {
    std::string bad = made;
    bad[at] = value;
    return code_of(bad);
  };
  EXPECT_EQ(code_of(""), ErrorCode::corrupt);
  EXPECT_EQ(code_of("PK\3\4"), ErrorCode::corrupt);
  EXPECT_EQ(code_of(made.substr(0, made.size() - 1)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(made.substr(1)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(made + "x"), ErrorCode::corrupt);        // not a comment
  EXPECT_EQ(with(390, '?'), ErrorCode::corrupt);             // an element
  EXPECT_EQ(with(60, '?'), ErrorCode::corrupt);              // the pickle
  EXPECT_EQ(with(8, 8), ErrorCode::corrupt);                 // the method of a header
  EXPECT_EQ(with(made.size() - 12, 9), ErrorCode::corrupt);  // the number of entries
  const std::size_t entry = made.find("PK\1\2");
  EXPECT_EQ(with(entry + 10, 8), ErrorCode::corrupt);  // the method of only an entry
  std::string both = made;
  both[entry + 10] = both[8] = 8;
  EXPECT_EQ(code_of(both), ErrorCode::unsupported);
}

// Each number is in the directory and in a header, or in both end records.
TEST(DcpArchive, WhatIsWrittenTwiceMustAgree) {
  const std::string made = archive_of(DType::f32, {2}, "12345678");
  const auto sentence = [](const std::string& bytes) {
    const MemorySource file(bytes);
    const Error error = catch_error([&] {
      const Archive archive(file, {0, bytes.size()});
      for (const Archive::Record& record : archive.records()) (void)archive.payload_bytes(record);
    });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    return error.sentence();
  };
  const auto with = [&](std::size_t at, char change) {
    std::string bad = made;
    bad[at] = static_cast<char>(bad[at] ^ change);
    return sentence(bad);
  };
  const std::string ends = "the archive's two end records contradict each other";
  const std::size_t wide = made.find(zip::kWideEnd);
  EXPECT_EQ(with(wide + 40, 1), ends) << "the directory's size";
  EXPECT_EQ(with(wide + 48, 1), ends) << "its place";
  EXPECT_EQ(with(wide + 32, 1), ends) << "the number of entries";
  const std::string first = "the header of the record \"data.pkl\" differs from the directory";
  EXPECT_EQ(with(6, 4), first) << "the flags";
  EXPECT_EQ(with(14, 1), first) << "the CRC";
  EXPECT_EQ(with(made.find("data.pkl"), 1), first) << "the name";
  const std::size_t entry = made.find(zip::kEntry);
  const std::string name = made.substr(entry + zip::kEntryBytes, 8);
  EXPECT_NE(with(made.find(name, entry + 2 * zip::kEntryBytes), 1).find("two folders"),
            std::string::npos);
  EXPECT_NE(with(entry + 20, 1).find("two sizes"), std::string::npos);
}

// Programs that write none set all of them to 0.
TEST(DcpArchive, OneCrcMakesTheOthersCount) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  const std::size_t last = made.rfind(zip::kEntry);
  store_le(std::as_writable_bytes(std::span(made)).data() + last + 16, std::uint32_t{0});
  made[made.find("12345678")] = '0';
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  EXPECT_EQ(catch_error([&] { (void)archive.read(*archive.find("data/0")); }).code(),
            ErrorCode::corrupt);
}

// A name that ends as the wanted one isn't the wanted one.
TEST(DcpArchive, TheNameInAHeaderIsTheWholeName) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  made[made.find("/data/0")] = '_';
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  EXPECT_EQ(catch_error([&] { (void)archive.payload_bytes(*archive.find("data/0")); }).code(),
            ErrorCode::corrupt);
}

// Only the directory's end tells where the last record's bytes end.
TEST(DcpArchive, ARecordDoesNotPassTheEnd) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  const std::size_t entry = made.rfind(zip::kEntry);
  for (const std::size_t size : {20U, 24U})
    store_le(std::as_writable_bytes(std::span(made)).data() + entry + size, std::uint32_t{100'000});
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  const Error error = catch_error([&] { (void)archive.payload_bytes(archive.records().back()); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_NE(error.sentence().find("passes the end"), std::string::npos) << error.sentence();
}

// Old programs write only the short end record.
TEST(DcpArchive, TheLongEndRecordMayBeMissing) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  const std::size_t wide = made.find(zip::kWideEnd);
  const std::size_t end = made.rfind(zip::kEnd);
  made.erase(wide, end - wide);
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  EXPECT_EQ(archive.read(*archive.find("data/0")), "12345678");
}

TEST(DcpArchive, LimitsAreForTheDirectoryAndForARecord) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  const MemorySource good(made);
  const Archive archive(good, {0, made.size()});
  EXPECT_EQ(archive.read(*archive.find("data/0"), 8), "12345678");
  EXPECT_EQ(catch_error([&] { (void)archive.read(*archive.find("data/0"), 7); }).code(),
            ErrorCode::limit);
  EXPECT_EQ(catch_error([&] {
              const Archive longer(good, {1, made.size() + 1});
            }).code(),
            ErrorCode::corrupt);
  const auto with_directory = [&](std::uint32_t size) {
    const auto bytes = std::as_writable_bytes(std::span(made));
    store_le(bytes.data() + made.size() - 10, size);
    store_le(bytes.data() + made.find(zip::kWideEnd) + 40, std::uint64_t{size});
    const MemorySource file(made);
    return catch_error([&] { const Archive of(file, {0, made.size()}); }).code();
  };
  constexpr std::uint32_t kMost = 128U << 20;
  EXPECT_EQ(with_directory(kMost), ErrorCode::corrupt) << "only the archive is shorter";
  EXPECT_EQ(with_directory(kMost + 1), ErrorCode::limit);
}

// An edge piece is an archive of the tensor's part: shorter, with zeros after it.
TEST(DcpArchive, EdgePiecesAreAsShortAsTheTensor) {
  const Leaf leaf{{"w", DType::i16, {3, 5}}, {}, {}};
  const Grid grid{{2, 3}, {2, 3}, {2, 3}};
  const PieceForm form = dcp_format().form(leaf, grid, {});
  std::string stored(form.stored_bytes(), '?');
  const std::string piece("0a1b..2c3d..", 12);
  stored.replace(form.head_bytes, piece.size(), piece);
  const std::uint64_t length = dcp_format().encode(form, {&leaf, &grid, {0, 1}},
                                                   std::as_writable_bytes(std::span(stored)), {});
  EXPECT_EQ(length, form.stored_bytes() - 4);
  EXPECT_EQ(stored.substr(form.head_bytes, 8), "0a1b2c3d");
  EXPECT_EQ(stored.substr(length), std::string(4, '\0'));
  const MemorySource file(stored.substr(0, length));
  const Archive archive(file, {0, length});
  EXPECT_EQ(archive.read(*archive.find("data/0")), "0a1b2c3d");
}

}  // namespace
}  // namespace hfshard::format::dcp
