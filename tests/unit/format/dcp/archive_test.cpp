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
#include "format/dcp/payload.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/tensor_pickle.h"
#include "format/zip.h"
#include "support/catch_error.h"
#include "support/checkpoint_builder.h"
#include "support/memory_source.h"
#include "support/torch_checkpoint.h"

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

// The CRC of no bytes is zero, and torch writes zeros for all if it computes none.
TEST(DcpArchive, OneCrcMeansThatAllRecordsHaveOne) {
  std::string bytes = archive_of(DType::f32, {2}, "12345678");
  const std::size_t entry = bytes.rfind("PK\1\2");
  const std::size_t header = bytes.rfind("PK\3\4");
  bytes.replace(entry + 16, 4, 4, '\0');
  bytes.replace(header + 14, 4, 4, '\0');
  const MemorySource file(bytes);
  const Archive archive(file, {0, bytes.size()});
  EXPECT_TRUE(archive.has_crcs());
  const Archive::Record& last = archive.records().back();
  EXPECT_EQ(last.crc, 0U);
  const Error error = catch_error([&] { archive.read(last); });
  EXPECT_EQ(error.sentence(), "the record \"" + last.name + "\" doesn't match its CRC");
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

template <typename T>
std::string little(std::initializer_list<T> values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::byte* at = std::as_writable_bytes(std::span(out)).data();
  for (const T value : values) {
    store_le<T>(at, value);
    at += sizeof(T);
  }
  return out;
}

std::string end_record(std::uint16_t entries, std::size_t begin, std::size_t size) {
  return std::string(zip::kEnd) + little<std::uint16_t>({0, 0, entries, entries}) +
         little<std::uint32_t>(
             {static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(begin)}) +
         little<std::uint16_t>({0});
}

Error error_of_archive(const std::string& bytes) {
  const MemorySource file(bytes);
  return catch_error([&] { const Archive archive(file, {0, bytes.size()}); });
}

TEST(DcpArchive, AnEmptyDirectoryIsCorrupt) {
  const std::string end = end_record(0, 0, 0);
  EXPECT_EQ(error_of_archive(end).sentence(), "an archive without records");
  // The end record follows a locator that points nowhere.
  const std::string locator =
      std::string(zip::kLocator) + std::string(12, '\0') + "\1" + std::string(3, '\0');
  ASSERT_EQ(locator.size(), zip::kLocatorBytes);
  const std::string nowhere = "the archive has 56 bytes at 0, but the item has 42 in all";
  EXPECT_EQ(error_of_archive(locator + end).sentence(), nowhere);
}

TEST(DcpArchive, AnEntryWithoutANameIsNotInAFolder) {
  const std::string entry = std::string(zip::kEntry) + std::string(zip::kEntryBytes - 4, '\0');
  EXPECT_EQ(error_of_archive(entry + end_record(1, 0, entry.size())).sentence(),
            "a record of the archive isn't in a folder");
}

// The last entry of an archive with a short end record. Its numbers can be in a ZIP64 field.
struct LastEntry {
  std::uint32_t stored = 8;
  std::uint32_t size = 8;
  bool has_header = true;
  std::string extra;
};

std::string archive_with(const LastEntry& last) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  const std::size_t begin = made.find(zip::kEntry);
  made.resize(made.find(zip::kWideEnd));
  const std::size_t entry = made.rfind(zip::kEntry);
  const auto bytes = std::as_writable_bytes(std::span(made)).subspan(entry);
  store_le(bytes.data() + 20, last.stored);
  store_le(bytes.data() + 24, last.size);
  store_le(bytes.data() + 30, static_cast<std::uint16_t>(last.extra.size()));
  if (!last.has_header) store_le(bytes.data() + 42, UINT32_MAX);
  made += last.extra;
  std::uint16_t entries = 0;
  for (std::size_t at = begin; (at = made.find(zip::kEntry, at)) != std::string::npos; ++at)
    ++entries;
  return made + end_record(entries, begin, made.size() - begin);
}

std::string wide_field(std::initializer_list<std::uint64_t> values) {
  return little<std::uint16_t>({zip::kWideField, static_cast<std::uint16_t>(8 * values.size())}) +
         little<std::uint64_t>(values);
}

TEST(DcpArchive, AWideFieldHasOnlyTheNumbersThatDoNotFit) {
  const std::string made = archive_of(DType::f32, {2}, "12345678");
  const std::size_t last = made.rfind(zip::kEntry);
  const std::uint64_t header = load_le<std::uint32_t>(as_bytes(made).data() + last + 42);
  const std::string pad = little<std::uint16_t>({zip::kPadField, 4}) + "pads";
  for (const LastEntry& each :
       {LastEntry{}, LastEntry{8, 8, true, pad}, LastEntry{UINT32_MAX, 8, true, wide_field({8})},
        LastEntry{UINT32_MAX, UINT32_MAX, true, wide_field({8, 8})},
        LastEntry{UINT32_MAX, UINT32_MAX, true, pad + wide_field({8, 8})},
        LastEntry{8, 8, false, wide_field({header})},
        LastEntry{UINT32_MAX, UINT32_MAX, false, wide_field({8, 8, header})}}) {
    const std::string bytes = archive_with(each);
    const MemorySource file(bytes);
    const Archive archive(file, {0, bytes.size()});
    EXPECT_EQ(archive.records().back().size_bytes, 8U);
    EXPECT_EQ(archive.records().back().header_bytes, header);
    EXPECT_EQ(archive.read(*archive.find("data/0")), "12345678");
  }
  const auto refused = [](const LastEntry& each) {
    const Error error = error_of_archive(archive_with(each));
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    return error.sentence();
  };
  EXPECT_EQ(refused({UINT32_MAX, UINT32_MAX, true, wide_field({8})}),
            "a ZIP64 field that is too short");
  EXPECT_EQ(refused({UINT32_MAX, UINT32_MAX, true, wide_field({8, 9})}),
            "a record whose two sizes differ");
}

TEST(DcpArchive, ACompressedProgramIsCalledTorchScript) {
  for (const std::string name : {"code/model.py", "encode/model.py"}) {
    std::string made = torch_records({{name, "x"}});
    made[8] = made[made.find(zip::kEntry) + 10] = 8;
    const Error error = error_of_archive(made);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.sentence(), name.starts_with("code")
                                    ? "a TorchScript program, which hfshard can't read"
                                    : "the record \"archive/encode/model.py\" is compressed or "
                                      "encrypted");
  }
}

// torch.serialization.set_crc32_options(False) writes 0 for each CRC.
TEST(DcpArchive, RecordsWithoutCrcsAreReadUnchecked) {
  std::string made = torch_records({{"data.pkl", "pickle"}, {"data/0", "12345678"}});
  for (std::size_t at = 0; (at = made.find(zip::kEntry, at)) != std::string::npos; ++at)
    store_le(std::as_writable_bytes(std::span(made)).data() + at + 16, std::uint32_t{0});
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  EXPECT_FALSE(archive.has_crcs());
  EXPECT_EQ(archive.read(*archive.find("data/0")), "12345678");
}

// torch aligns elements to 64 bytes and puts nothing else between two records.
TEST(DcpArchive, ARecordHasAPlaceOnlyIfTorchsLayoutAllowsOne) {
  const std::string made =
      torch_records({{"data.pkl", std::string(400, 'p')}, {"data/0", "12345678"}});
  const std::size_t first = made.find(zip::kEntry);
  const std::size_t second = made.rfind(zip::kEntry);
  const auto placed = [&](std::uint32_t first_size, std::uint32_t second_header) {
    std::string bytes = made;
    std::byte* to = std::as_writable_bytes(std::span(bytes)).data();
    store_le(to + first + 20, first_size);
    store_le(to + first + 24, first_size);
    store_le(to + second + 42, second_header);
    const MemorySource file(bytes);
    const Archive archive(file, {0, bytes.size()});
    return archive.placed_bytes(archive.records().front());
  };
  const auto header = load_le<std::uint32_t>(as_bytes(made).data() + second + 42);
  ASSERT_EQ(header, 64U + 400 + 16);
  EXPECT_EQ(placed(400, header), 64U);
  EXPECT_EQ(placed(400 - 128, header), std::nullopt) << "too much before it";
  EXPECT_EQ(placed(100'000, 64 + 100'000 + 16), std::nullopt) << "beyond the archive";
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  Archive::Record last = archive.records().back();
  ASSERT_TRUE(archive.placed_bytes(last));
  last.header_bytes = UINT64_MAX;
  EXPECT_EQ(archive.placed_bytes(last), std::nullopt);
}

// torch can write the same tensor with a shorter pickle. hfshard's own may then not fit in the
// head.
TEST(DcpArchive, AnArchiveThatLooksLikeHfshardsHasItsPickle) {
  bool is_head_shorter = false;
  Shape shape;
  for (int rank = 1; rank <= 8; ++rank) {
    shape.push_back(1);
    std::string pickle = tensor_pickle(DType::u8, shape);
    const std::uint64_t own_bytes = archive_form(pickle.size(), 1).head_bytes;
    for (const std::string word : {"storage", "0", "cpu"}) {
      std::string wide;
      PickleWriter(wide).text(word);
      pickle.replace(pickle.find(wide), wide.size(),
                     "\x8c" + std::string(1, static_cast<char>(word.size())) + word);
    }
    const std::uint64_t head_bytes = archive_form(pickle.size(), 1).head_bytes;
    is_head_shorter = is_head_shorter || head_bytes < own_bytes;
    const std::uint32_t crc = crc32(as_bytes(std::string_view("x")));
    const std::string made =
        archive_head(pickle, 1, crc, head_bytes) + "x" + archive_tail(pickle, 1, crc, head_bytes);
    const MemorySource file(made);
    const Archive archive(file, {0, made.size()});
    const Error error = catch_error([&] { find_payload(archive, {DType::u8, shape}); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.sentence(), "the archive is damaged: its headers and its directory differ");
  }
  EXPECT_TRUE(is_head_shorter);
}

TEST(DcpPieces, CannotBeCompressed) {
  const Leaf leaf{{"w", DType::i16, {3, 5}}, {}, {}};
  const Grid grid{{2, 3}, {2, 3}, {2, 3}};
  Encoding encoding;
  encoding.zstd_level = 3;
  const Error error = catch_error([&] { dcp_format().form(leaf, grid, encoding); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "DCP checkpoints can't be compressed");
}

TEST(DcpArchive, AnEncryptedRecordIsUnsupportedIfBothOfItsFlagsSaySo) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  made[made.find(zip::kEntry) + 8] = 1;
  EXPECT_EQ(error_of_archive(made).code(), ErrorCode::corrupt);
  made[6] = 1;
  EXPECT_EQ(error_of_archive(made).code(), ErrorCode::unsupported);
}

TEST(DcpArchive, AnArchiveThatIsNoneSaysWhy) {
  const std::string made = archive_of(DType::f32, {2}, "12345678");
  const auto said = [](const std::string& bytes) { return error_of_archive(bytes).sentence(); };
  const std::size_t wide = made.find(zip::kWideEnd);
  const std::size_t end = made.rfind(zip::kEnd);
  const std::size_t entry = made.find(zip::kEntry);
  const auto with = [&](std::vector<std::pair<std::size_t, char>> changes) {
    std::string bad = made;
    for (const auto& [at, value] : changes) bad[at] = value;
    return said(bad);
  };
  EXPECT_EQ(said("PK\3\4"), "the item isn't an archive: it doesn't end with a zip directory");
  EXPECT_EQ(said(made + "x"), "the archive has bytes after its end that aren't a comment");
  EXPECT_EQ(with({{end + 4, 1}}), "the archive is split into several parts");
  EXPECT_EQ(with({{end + 6, 1}}), "the archive is split into several parts");
  EXPECT_EQ(with({{wide, 'x'}}), "the archive lacks its ZIP64 end record");
  EXPECT_EQ(with({{wide + 32, 9}, {end + 10, 9}}),
            "the zip directory is truncated: it has 4 of 9 entries");
  EXPECT_EQ(with({{made.rfind(zip::kEntry) + 29, 1}}),
            "an entry passes the end of the zip directory");
  EXPECT_EQ(with({{made.find(zip::kEntry, entry + 1) + zip::kEntryBytes, 'x'}}),
            "the records of the archive are in two folders");
  EXPECT_EQ(with({{entry + 20, 1}}), "the record \"archive/data.pkl\" has two sizes");
  const MemorySource file(made);
  EXPECT_EQ(catch_error([&] {
              const Archive of(file, {1, made.size() + 1}, "range");
            }).sentence(),
            "the range passes the end of its file");
}

TEST(DcpArchive, AHeaderOrFieldThatIsCutIsNotOne) {
  std::string made = archive_of(DType::f32, {2}, "12345678");
  made[0] = 'x';
  const MemorySource file(made);
  const Archive archive(file, {0, made.size()});
  EXPECT_EQ(catch_error([&] { (void)archive.payload_bytes(archive.records()[0]); }).sentence(),
            "the header of the record \"data.pkl\" differs from the directory");
  const std::string cut =
      archive_with({UINT32_MAX, UINT32_MAX, true, wide_field({8}).substr(0, 8)});
  const MemorySource wide(cut);
  const Archive with_cut(wide, {0, cut.size()});
  EXPECT_EQ(with_cut.records().back().size_bytes, UINT32_MAX);
  // Only a record whose sizes follow it has padding as torch's.
  std::string plain = torch_records({{"data.pkl", "p"}, {"data/0", "12345678"}});
  plain[plain.rfind(zip::kEntry) + 8] = 0;
  const MemorySource last(plain);
  const Archive flags(last, {0, plain.size()});
  EXPECT_TRUE(flags.placed_bytes(flags.records().front()));
  EXPECT_FALSE(flags.placed_bytes(flags.records().back()));
}

}  // namespace
}  // namespace hfshard::format::dcp
