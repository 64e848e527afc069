#include "format/torch/torch_file.h"

#include <functional>
#include <optional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/archive.h"
#include "format/dcp/pickle_writer.h"
#include "format/zip.h"
#include "support/catch_error.h"
#include "support/memory_source.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "support/torch_file_builder.h"

#include "hfshard/hfshard.h"

namespace hfshard::format::torch {
namespace {

const std::string kTwelve = "000111222333";

TEST(TorchFile, ViewsAreWhereTheirStorageIs) {
  const TempDir dir;
  TorchFileBuilder builder;
  const std::size_t shared = builder.storage("abcdefghijklmnopqrstuvwx");
  builder.view("rows", DType::u8, {2, 4}, {4, 1}, 8, shared)
      .view("turned", DType::u8, {4, 6}, {1, 4}, 0, shared)
      .view("empty", DType::f32, {0, 7}, {7, 1}, 0, shared)
      .tensor("a", DType::bf16, {2, 3}, kTwelve)
      .tensor("f8", DType::f8_e4m3, {3, 4}, kTwelve);
  builder.write(dir / "x.bin");
  const TorchFile file = read_torch_file(dir / "x.bin");
  ASSERT_EQ(file.tensors.size(), 5U);
  EXPECT_EQ(file.identity.size_bytes, builder.bytes().size());
  const auto at = [&](const StoredView& view) {
    return builder.bytes().substr(view.begin_bytes, 4);
  };
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[0].units, (Shape{2, 3}));
  EXPECT_EQ(at(file.tensors[0]), "0001");
  EXPECT_EQ(file.tensors[1].size_bytes(), 0U);
  EXPECT_TRUE(file.tensors[1].is_packed());
  EXPECT_EQ(file.tensors[2].dtype, DType::f8_e4m3);
  EXPECT_EQ(at(file.tensors[3]), "ijkl");
  EXPECT_TRUE(file.tensors[3].is_packed());
  EXPECT_EQ(at(file.tensors[4]), "abcd");
  EXPECT_FALSE(file.tensors[4].is_packed());
}

// The CRC of a record is that of a tensor only if the tensor is all of it.
TEST(TorchFile, ATensorIsWholeIfItIsAllOfItsStorage) {
  const TempDir dir;
  TorchFileBuilder builder;
  const std::size_t shared = builder.storage("abcd");
  builder.view("all", DType::u8, {4}, {1}, 0, shared)
      .view("front", DType::u8, {3}, {1}, 0, shared)
      .view("late", DType::u8, {2}, {1}, 1, shared)
      .view("twice", DType::u8, {2, 2}, {1, 1}, 1, shared)
      .view("one", DType::u8, {1, 4}, {9, 1}, 0, shared);
  builder.write(dir / "x.bin");
  const TorchFile file = read_torch_file(dir / "x.bin");
  std::vector<std::string> whole;
  for (const StoredView& view : file.tensors) {
    if (view.is_whole) whole.push_back(view.name);
  }
  EXPECT_EQ(whole, (std::vector<std::string>{"all", "one"}));
  EXPECT_TRUE(file.tensors[3].is_packed()) << "one row has any stride";
  EXPECT_FALSE(file.tensors[4].is_packed());
}

// torch.serialization.set_crc32_options(False) writes 0 for each CRC.
TEST(TorchFile, WithoutCrcsItsElementsAreReadUnchecked) {
  const TempDir dir;
  std::string bytes = TorchFileBuilder().tensor("a", DType::u8, {12}, kTwelve).bytes();
  for (std::size_t at = 0; (at = bytes.find(zip::kEntry, at)) != std::string::npos; ++at)
    store_le(std::as_writable_bytes(std::span(bytes)).data() + at + 16, std::uint32_t{0});
  write_text(dir / "x.bin", bytes);
  EXPECT_EQ(read_torch_file(dir / "x.bin").tensors.at(0).crc, std::nullopt);
  std::string out(12, '?');
  hfshard::open(dir / "x.bin").read_rows(0, 0, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, kTwelve);
}

// The same pickle with other elements is another file.
TEST(TorchFile, TheHashCoversTheDirectoryToo) {
  const TempDir dir;
  const auto hash_of = [&](const std::string& elements) {
    TorchFileBuilder().tensor("a", DType::u8, {3}, elements).write(dir / "x.bin");
    return read_torch_file(dir / "x.bin").sha256;
  };
  EXPECT_EQ(hash_of("abc"), hash_of("abc"));
  EXPECT_NE(hash_of("abc"), hash_of("abd"));
}

TEST(TorchFile, TheModelIsBelowTheKeysThatTrainersUse) {
  const TempDir dir;
  TorchFileBuilder()
      .below("model")
      .below("module")
      .other("epoch")
      .tensor("a", DType::u8, {12}, kTwelve)
      .write(dir / "x.pt");
  const TorchFile file = read_torch_file(dir / "x.pt");
  EXPECT_EQ(file.below, "model.module");
  EXPECT_EQ(file.others, (std::vector<std::string>{"model.module.epoch"}));
  TorchFileBuilder().below("weights").tensor("a", DType::u8, {12}, kTwelve).write(dir / "y.pt");
  const TorchFile nested = read_torch_file(dir / "y.pt");
  EXPECT_EQ(nested.below, "");
  EXPECT_EQ(nested.tensors.at(0).name, "weights.a");
  TorchFileBuilder().other("weights").write(dir / "z.pt");
  const Error error = catch_error([&] { read_torch_file(dir / "z.pt"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(error.sentence().find("\"weights\""), std::string::npos) << error.sentence();
}

TEST(TorchFile, OtherFilesAreCalledWhatTheyAre) {
  const TempDir dir;
  struct Case {
    std::string bytes;
    ErrorCode code;
    std::string said;
  };
  TorchFileBuilder good;
  good.tensor("a", DType::u8, {12}, kTwelve);
  TorchFileBuilder script = good;
  script.record("constants.pkl", "\x80\x02).");
  TorchFileBuilder big = good;
  big.record("byteorder", "big");
  std::string list;
  dcp::PickleWriter(list).begin().op(Op::empty_list).op(Op::stop);
  for (const Case& each : {
           Case{"version https://git-lfs.github.com/spec/v1\n", ErrorCode::bad_input, "git-lfs"},
           Case{"", ErrorCode::bad_input, "didn't write this file"},
           Case{script.bytes(), ErrorCode::unsupported, "TorchScript"},
           Case{big.bytes(), ErrorCode::unsupported, "little-endian"},
           Case{torch_records({{"data.pkl", list}}), ErrorCode::unsupported,
                "doesn't hold a dict of tensors"},
           Case{torch_records({{"x", "y"}}), ErrorCode::corrupt, "no data.pkl"},
           Case{good.bytes().substr(0, 200), ErrorCode::corrupt,
                "doesn't end with a zip directory"},
       }) {
    write_text(dir / "x.bin", each.bytes);
    const Error error = catch_error([&] { read_torch_file(dir / "x.bin"); });
    EXPECT_EQ(error.code(), each.code) << error.sentence();
    EXPECT_NE(error.sentence().find(each.said), std::string::npos) << error.sentence();
    EXPECT_EQ(error.file(), dir / "x.bin");
  }
}

TEST(TorchFile, ATensorThatReachesBeyondItsStorageIsCorrupt) {
  const TempDir dir;
  const auto error_of = [&](const std::function<void(TorchFileBuilder&)>& make) {
    TorchFileBuilder builder;
    make(builder);
    builder.write(dir / "x.bin");
    const Error error = catch_error([&] { read_torch_file(dir / "x.bin"); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.sentence();
    EXPECT_EQ(error.tensor(), "a");
    EXPECT_EQ(error.file(), dir / "x.bin");
    return error.sentence();
  };
  error_of([](auto& out) { out.view("a", DType::u8, {13}, {1}, 0, out.storage(kTwelve)); });
  error_of([](auto& out) { out.view("a", DType::u8, {12}, {1}, 1, out.storage(kTwelve)); });
  error_of([](auto& out) { out.view("a", DType::u8, {2, 2}, {11, 1}, 0, out.storage(kTwelve)); });
  error_of(
      [](auto& out) { out.view("a", DType::u8, {2}, {UINT64_MAX >> 1}, 1, out.storage(kTwelve)); });
  error_of([](auto& out) { out.tensor("a", DType::u8, {13}, kTwelve).overstate(4); });
  EXPECT_NE(
      error_of([](auto& out) { out.tensor("a", DType::u8, {2}, "x").overstate(2); }).find("has 1"),
      std::string::npos);
}

// Changes or truncates every byte of a small file. The result is an error with the file's name, or
// no error.
TEST(TorchFile, DamageIsAnErrorWithTheFile) {
  const TempDir dir;
  TorchFileBuilder builder;
  builder.tensor("a", DType::u8, {12}, kTwelve).tensor("b", DType::f32, {3}, kTwelve);
  const std::string good = builder.bytes();
  const auto read = [&](const std::string& bytes) {
    write_text(dir / "x.bin", bytes);
    try {
      read_torch_file(dir / "x.bin");
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal);
      EXPECT_EQ(error.file(), dir / "x.bin");
      return false;
    }
    return true;
  };
  EXPECT_TRUE(read(good));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(read(good.substr(0, size))) << size;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      read(bad);
    }
  }
}

// Places that are found without the headers agree with the headers.
TEST(TorchFile, PlacesAreThoseOfTheHeaders) {
  TorchFileBuilder builder;
  for (std::size_t size = 0; size < 130; ++size)
    builder.tensor("t" + std::to_string(size), DType::u8, {size}, std::string(size, 'x'));
  const MemorySource file(builder.bytes());
  const Archive archive(file, {0, file.size_bytes()});
  std::size_t placed = 0;
  for (const Archive::Record& record : archive.records()) {
    const auto place = archive.placed_bytes(record);
    if (!place) continue;
    EXPECT_EQ(*place, archive.payload_bytes(record)) << record.name;
    ++placed;
  }
  EXPECT_EQ(placed, archive.records().size());
}

TEST(TorchFile, ARefusalSaysHowToMakeAFileThatCanBeRead) {
  const TempDir dir;
  const auto refused = [&](const std::string& bytes) {
    write_text(dir / "x.bin", bytes);
    return catch_error([&] { read_torch_file(dir / "x.bin"); });
  };
  const Error pointer = refused("version https://git-lfs.github.com/spec/v1\n");
  EXPECT_EQ(pointer.sentence(), "this is a git-lfs pointer, not the file");
  EXPECT_EQ(pointer.hint_text(), "run git lfs pull in the repository, or download the file");
  EXPECT_EQ(refused("text").sentence(), "torch.save didn't write this file");
  TorchFileBuilder script;
  script.tensor("a", DType::u8, {3}, "abc").record("constants.pkl", "\x80\x02).");
  const Error program = refused(script.bytes());
  EXPECT_EQ(program.sentence(), "a TorchScript program, which hfshard can't read");
  EXPECT_EQ(program.hint_text(), "save the state_dict() of the module with torch.save");
  EXPECT_EQ(refused(torch_records({{"x", "y"}})).sentence(), "the archive has no data.pkl");
  TorchFileBuilder big;
  big.tensor("a", DType::u8, {3}, "abc").record("byteorder", "big");
  EXPECT_EQ(refused(big.bytes()).sentence(), "elements that aren't little-endian");
  TorchFileBuilder more;
  more.tensor("a", DType::u8, {3}, "abc").overstate(2);
  const Error storage = refused(more.bytes());
  EXPECT_EQ(storage.sentence(), "the storage needs 5 bytes; its record \"data/0\" has 3");
  EXPECT_EQ(storage.tensor(), "a");
  TorchFileBuilder absent;
  absent.tensor("a", DType::u8, {3}, "abc");
  const std::string pickle = absent.pickle();
  const Error record = refused(torch_records({{"data.pkl", pickle}, {"data/7", "abc"}}));
  EXPECT_EQ(record.sentence(), "the archive has no record \"data/0\"");
  EXPECT_EQ(record.tensor(), "a");
}

// Another reader could take the other record.
TEST(TorchFile, ARecordIsThereOnlyOnce) {
  const TempDir dir;
  const std::string pickle = TorchFileBuilder().tensor("a", DType::u8, {3}, "abc").pickle();
  const std::string twice =
      torch_records({{"data.pkl", pickle}, {"data/0", "abc"}, {"data/0", "xyz"}});
  write_text(dir / "x.bin", twice);
  const Error error = catch_error([&] { read_torch_file(dir / "x.bin"); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the archive has the record \"data/0\" twice");
  EXPECT_EQ(error.file(), dir / "x.bin");
  EXPECT_EQ(error.range(), (ByteRange{0, twice.size()}));
}

TEST(TorchFile, ARecordThatIsTooLongOrPassesTheEndIsNamed) {
  std::string made = torch_records({{"data.pkl", "pickle"}, {"data/0", "12345678"}});
  const MemorySource good(made);
  const Archive archive(good, {0, made.size()}, "file");
  EXPECT_EQ(archive.read(*archive.find("data/0"), 8), "12345678");
  const Error longer = catch_error([&] { (void)archive.read(*archive.find("data/0"), 7); });
  EXPECT_EQ(longer.code(), ErrorCode::limit);
  EXPECT_EQ(longer.sentence(), "the record \"data/0\" of 8 B");
  EXPECT_EQ(longer.range(), (ByteRange{0, made.size()}));
  const std::size_t entry = made.rfind(zip::kEntry);
  for (const std::size_t size : {20U, 24U})
    store_le(std::as_writable_bytes(std::span(made)).data() + entry + size, std::uint32_t{100'000});
  const MemorySource bad(made);
  const Archive of_bad(bad, {0, made.size()}, "file");
  const Error beyond = catch_error([&] { (void)of_bad.payload_bytes(*of_bad.find("data/0")); });
  EXPECT_EQ(beyond.code(), ErrorCode::corrupt);
  EXPECT_EQ(beyond.sentence(), "the record \"data/0\" passes the end of its file");
}

// torch writes descriptors of 24 bytes after large records.
TEST(TorchFile, APlaceAllowsDescriptorsOfBothSizes) {
  for (const bool wide : {false, true}) {
    const std::string made = torch_archive({"pickle", "12345678", wide});
    const MemorySource file("front" + std::string(59, '.') + made);
    const Archive archive(file, {64, 64 + made.size()});
    for (const Archive::Record& record : archive.records()) {
      ASSERT_TRUE(archive.placed_bytes(record)) << record.name;
      EXPECT_EQ(archive.placed_bytes(record), archive.payload_bytes(record)) << record.name;
    }
  }
}

TEST(TorchFile, ATensorWithoutElementsIsAtTheFrontOfItsStorage) {
  const TempDir dir;
  TorchFileBuilder builder;
  const std::size_t shared = builder.storage("abcd");
  builder.view("all", DType::u8, {4}, {1}, 0, shared)
      .view("none", DType::u8, {0}, {1}, 999, shared);
  builder.write(dir / "x.bin");
  const TorchFile file = read_torch_file(dir / "x.bin");
  ASSERT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.tensors[1].begin_bytes, file.tensors[0].begin_bytes);
  EXPECT_EQ(file.tensors[1].offset_bytes, 0U);
}

}  // namespace
}  // namespace hfshard::format::torch
