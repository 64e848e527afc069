// A place without a whole checkpoint, and items that aren't the tensor's, say why they are refused.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "catalog/checkpoint.h"
#include "format/archive.h"
#include "format/dcp/dcp.h"
#include "format/dcp/metadata.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/formats.h"
#include "format/pickle_opcodes.h"
#include "support/catch_error.h"
#include "support/memory_source.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "unit/format/dcp/packed_items.h"

#include "hfshard/hfshard.h"

namespace hfshard::format::dcp {
namespace {

TEST(DcpOpenErrors, AnUnfinishedCheckpointSaysWhatItLacks) {
  const TempDir dir;
  write_text(dir / "step-4/__0_0.distcp", "");
  const Error error = catch_error([&] { open_checkpoint(dir / "step-4"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "the checkpoint lacks .metadata, which says where each tensor is");
  EXPECT_EQ(error.file(), dir / "step-4");
  EXPECT_EQ(error.hint_text(),
            "rank 0 writes it last, so the save may be unfinished; if the files are a copy, copy "
            "it too: cp * skips names that begin with a dot");
  EXPECT_EQ(dcp_format().why_incomplete(dir / "step-4"),
            "is unfinished: it lacks .metadata, which is written last");
  write_text(dir / "__1.metadata", "");
  write_text(dir / "__2_0.distcp", "");
  EXPECT_EQ(catch_error([&] { open_checkpoint(dir.path()); }).sentence(),
            "an unfinished checkpoint: rank 2 wrote data and no metadata");
}

TEST(DcpOpenErrors, ItemsCannotBeChosenAndStepsOnlyByTheirNumber) {
  const TempDir dir;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false).write(dir / "step-2");
  const auto refused = [&](const std::string& path, const Choice& choice) {
    return catch_error([&] { dcp_format().open_one(path, choice); });
  };
  EXPECT_EQ(refused(dir.path(), {2, "items"}).sentence(), "DCP checkpoints don't have items");
  EXPECT_EQ(refused(dir.path(), {3, ""}).sentence(), "step 3 doesn't exist");
  EXPECT_EQ(refused(dir.path(), {3, ""}).hint_text(), "the only one is 2");
  EXPECT_EQ(refused(dir / "step-2", {2, ""}).sentence(),
            "--step selects a step, but this isn't a directory of steps");
}

TEST(DcpOpenErrors, ANoteNamesFilesThatAreNoPartOfTheCheckpoint) {
  const TempDir dir;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false).write(dir.path());
  const auto notes = [&] { return open_checkpoint(dir.path())->catalog().notes; };
  write_text(dir / "tokenizer.json", "{}");
  EXPECT_EQ(notes(), std::vector<std::string>());
  write_text(dir / "loader.pt", "x");
  write_text(dir / "__5_0.distcp", "x");
  EXPECT_EQ(notes(),
            std::vector<std::string>{"neither read nor copied: \"__5_0.distcp\", \"loader.pt\""});
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().writer, "torch.distributed.checkpoint");
  EXPECT_EQ(open_checkpoint(dir.path())->data_files(), 1U);
}

// Returns the error for reading u8 elements from this item.
Error error_of_item(const std::string& item, const Shape& shape, const std::string& transform) {
  const TempDir dir;
  TorchCheckpoint made;
  Shape begin = shape;
  for (std::size_t d = 0; d < begin.rank(); ++d) begin[d] = 0;
  made.tensor("w", DType::u8, shape).box(begin, shape, item, transform).write(dir.path());
  const Error error = catch_error([&] {
    const CheckpointReader opened = open(dir.path());
    std::string out(shape.numel(), '?');
    opened.read_rows(0, 0, std::as_writable_bytes(std::span(out)));
  });
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.file(), dir / TorchCheckpoint::kDataFile);
  return error;
}

TEST(DcpOpenErrors, AnItemSaysWhatItHasInsteadOfItsElements) {
  const std::string pickle = tensor_pickle(DType::u8, {4});
  const auto said = [](const std::string& item) { return error_of_item(item, {4}, "").sentence(); };
  EXPECT_EQ(said(torch_archive(DType::i8, {4}, "abcd")),
            "the item is i8 of 4; the metadata says u8 of 4");
  EXPECT_EQ(said(torch_archive(DType::u8, {5}, "abcde")),
            "the item is u8 of 5; the metadata says u8 of 4");
  EXPECT_EQ(said(torch_records({{"data/0", "abcd"}})), "the archive has no data.pkl");
  EXPECT_EQ(said(torch_records({{"data.pkl", pickle}, {"data/1", "abcd"}})),
            "the archive has no record \"data/0\"");
  EXPECT_EQ(said(torch_records({{"data.pkl", pickle}, {"data/0", "abc"}})),
            "the elements need 4 bytes; their record has 3");
  EXPECT_EQ(said(torch_records({{"data.pkl", pickle}, {"byteorder", "big"}, {"data/0", "abcd"}})),
            "elements that aren't little-endian");
}

TEST(DcpOpenErrors, ACompressedItemSaysWhereItsArchiveIsWrong) {
  const std::string archive = u8_archive("abcd");
  const auto said = [](const std::string& item) {
    return error_of_item(item, {4}, std::string(kZstdTransform)).sentence();
  };
  const std::string item = packed(archive);
  EXPECT_EQ(said(item.substr(0, item.size() - 1)), "a zstd frame passes the end of its item");
  EXPECT_EQ(said(packed(archive.substr(0, 40))), "the item ends before its archive");
  EXPECT_EQ(said(packed("x" + archive)), "the item isn't an archive with elements");
  std::string commented = archive + std::string(65535, 'c');
  commented[archive.size() - 2] = commented[archive.size() - 1] = '\xff';
  EXPECT_EQ(said(packed(commented)), "64 KiB or more after the elements of an item");
}

// The order of axes is that of the first item. Only verify looks for it in the next one.
TEST(DcpOpenErrors, ADamagedFirstItemIsSaidAtOpening) {
  const TempDir dir;
  const std::string good = torch_archive(DType::u8, {2, 3}, "ghijkl");
  TorchCheckpoint made;
  made.tensor("v", DType::u8, {4}).part({0}, {4}, "abcd", false);
  made.tensor("w", DType::u8, {4, 3}).box({0, 0}, {2, 3}, "no archive");
  made.box({2, 0}, {2, 3}, good).write(dir.path());
  const std::uint64_t begin = torch_archive(DType::u8, {4}, "abcd").size();
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the item isn't an archive: it doesn't end with a zip directory");
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.file(), dir / TorchCheckpoint::kDataFile);
  EXPECT_EQ(error.range(), (ByteRange{begin, begin + 10}));
  Choice choice;
  choice.without = {"w"};
  EXPECT_EQ(catch_error([&] { open_checkpoint(dir.path(), choice); }).sentence(), error.sentence())
      << "only an unsupported item can be left out";
  Choice remains;
  remains.despite_loss = true;
  EXPECT_EQ(open_checkpoint(dir.path(), remains)->catalog().tensors.size(), 2U);
}

TEST(DcpOpenErrors, ItemsWithAnotherOrderOfElementsThanTheFirstAreRefused) {
  const TempDir dir;
  std::string turned = tensor_pickle(DType::u8, {2, 3});
  std::string plain;
  std::string columns;
  PickleWriter(plain).integers({3, 1});
  PickleWriter(columns).integers({1, 2});
  turned.replace(turned.find(plain), plain.size(), columns);
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4, 3}).part({0, 0}, {2, 3}, "abcdefghijkl", true);
  made.box({2, 0}, {2, 3}, packed(torch_archive({turned, "gjhkil"})), kZstdTransform);
  made.write(dir.path());
  std::string out(12, '?');
  const Error error = catch_error(
      [&] { open(dir.path()).read_rows(0, 0, std::as_writable_bytes(std::span(out))); });
  EXPECT_EQ(error.sentence(),
            "the elements of an item that went through stream.zstd/1 have another order than "
            "those of the tensor's first item");
}

TEST(DcpOpenErrors, TypesThatTorchLacksCannotBeWritten) {
  const auto refused = [](DType dtype) {
    const Leaf leaf{{"w", dtype, {8}}, {}, {}};
    const Error error = catch_error([&] { dcp_format().form(leaf, {{8}, {8}, {8}}, {}); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "w");
    return error.sentence();
  };
  EXPECT_EQ(refused(DType::f6_e2m3),
            "PyTorch doesn't have the dtype " + std::string(to_string(DType::f6_e2m3)));
  EXPECT_EQ(refused(DType::f4),
            "elements of " + std::string(to_string(DType::f4)) + " can't be moved one by one");
}

TEST(DcpOpenErrors, OnlyAnUnsupportedItemCanBeLeftOut) {
  const std::string pickle = tensor_pickle(DType::u8, {4});
  const Error big = error_of_item(
      torch_records({{"data.pkl", pickle}, {"byteorder", "big"}, {"data/0", "abcd"}}), {4}, "");
  EXPECT_EQ(big.code(), ErrorCode::unsupported);
  EXPECT_EQ(big.hint_text(), "if the model doesn't need the tensor, pass --exclude 'w'");
  EXPECT_EQ(error_of_item(torch_records({{"data/0", "abcd"}}), {4}, "").hint_text(), "");
}

TEST(DcpOpenErrors, AFileThatIsGoneOrCutNamesTheFirstOfItsKeys) {
  const TempDir dir;
  const std::string data = dir / TorchCheckpoint::kDataFile;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false).object("o", "object");
  made.write(dir.path());
  const auto refused = [&] { return catch_error([&] { open_checkpoint(dir.path()); }); };
  const std::uint64_t size = std::filesystem::file_size(data);
  std::filesystem::resize_file(data, size - 1);
  EXPECT_EQ(refused().sentence(), "the item passes the end of its file");
  EXPECT_EQ(refused().tensor(), "o");
  EXPECT_EQ(refused().range(), (ByteRange{size - 6, size}));
  EXPECT_EQ(refused().total_bytes(), size - 1);
  std::filesystem::remove(data);
  EXPECT_EQ(refused().code(), ErrorCode::not_found);
  EXPECT_EQ(refused().sentence(), "a file of the checkpoint is missing");
  EXPECT_EQ(refused().tensor(), "w");
  EXPECT_EQ(refused().file(), data);
}

TEST(DcpOpenErrors, AnItemOfASafetensorsFileSaysWhichPartIsWanted) {
  const std::string wanted = "the safetensors file has a different part of the tensor than ";
  const auto item = [](const std::string& name, const std::string& offset) {
    const std::string header = R"({"__metadata__":{"DCP_SHARDING_INFO":"{\")" + name +
                               R"(\":{\"saved_offsets\":[)" + offset + R"(]}}"},")" + name +
                               R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
    return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header +
           "abcd";
  };
  EXPECT_EQ(error_of_item(item("w", "1"), {4}, "").sentence(), wanted + "4 at 0");
  EXPECT_EQ(error_of_item(item("v", "0"), {4}, "").sentence(),
            "the safetensors file lacks the tensor");
}

// Several items can make a piece. The place of the first one is told.
TEST(DcpPlaces, APieceIsWhereItsFirstItemIs) {
  const TempDir dir;
  TorchCheckpoint made;
  const std::string tensor = "abcdefghij";
  made.tensor("w", DType::u8, {10}).part({0}, {3}, tensor, false).part({3}, {2}, tensor, false);
  made.part({5}, {3}, tensor, false).part({8}, {2}, tensor, false).object("o", "object");
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  ASSERT_EQ(opened->catalog().grid_of(0).chunk, Shape{5});
  const std::uint64_t three = torch_archive(DType::u8, {3}, "abc").size();
  const std::uint64_t two = torch_archive(DType::u8, {2}, "de").size();
  EXPECT_EQ(opened->find_piece(0, {0})->range, (ByteRange{0, three}));
  EXPECT_EQ(opened->find_piece(0, {1})->range, (ByteRange{three + two, 2 * three + two}));
  EXPECT_EQ(opened->find_piece(0, {1})->file, dir / TorchCheckpoint::kDataFile);
  ASSERT_EQ(opened->catalog().objects.size(), 1U);
  EXPECT_EQ(opened->catalog().objects[0].range,
            (ByteRange{2 * (three + two), 2 * (three + two) + 6}));
  EXPECT_EQ(dump_json(opened->catalog().attributes), R"({"objects":{"o":6}})");
  EXPECT_EQ(opened->catalog().object_files.at(opened->catalog().objects[0].file).text(),
            dir / TorchCheckpoint::kDataFile);
}

std::string turned_archive(const std::string& elements) {
  std::string pickle = tensor_pickle(DType::u8, {4, 3});
  std::string plain;
  std::string columns;
  PickleWriter(plain).integers({3, 1});
  PickleWriter(columns).integers({1, 4});
  return torch_archive({pickle.replace(pickle.find(plain), plain.size(), columns), elements});
}

TEST(DcpPlaces, TensorsInPiecesOfOneShapeHaveTheirOwnOrders) {
  const TempDir dir;
  TorchCheckpoint made;
  made.tensor("a", DType::u8, {4, 3}).part({0, 0}, {4, 3}, "abcdefghijkl", false);
  made.tensor("b", DType::u8, {4, 3}).box({0, 0}, {4, 3}, turned_archive("adgjbehkcfil"));
  made.write(dir.path());
  const CheckpointReader opened = open(dir.path());
  for (const std::size_t array : {0U, 1U}) {
    std::string out(12, '?');
    opened.read_rows(array, 0, std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(out, "abcdefghijkl") << array;
  }
  EXPECT_EQ(error_of_item("no archive", {4, 3}, "").code(), ErrorCode::corrupt)
      << "its order is looked up before";
}

// A piece of more than 4 MiB is read in cells.
TEST(DcpPlaces, TensorsInPiecesOfOneShapeHaveTheirOwnCells) {
  const TempDir dir;
  const Shape all{5, 1 << 18};
  TorchCheckpoint made;
  made.whole("a", DType::u8, all).whole("b", DType::f32, all).write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  EXPECT_EQ(opened->catalog().grid_of(0).inner, all);
  EXPECT_EQ(opened->catalog().grid_of(1).inner, (Shape{1, 1 << 18}));
  EXPECT_EQ(opened->catalog().grid_of(1).chunk, all);
}

// A checksum is that of one item, whatever is read of others between.
TEST(DcpPlaces, PartsOfItemsOfTwoTensorsAreNotJoined) {
  const TempDir dir;
  TorchCheckpoint made;
  made.tensor("v", DType::u8, {8}).part({0}, {8}, "abcdefgh", false);
  made.tensor("w", DType::u8, {8}).part({0}, {8}, "ijklmnop", false);
  made.write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  std::vector<std::byte> scratch(opened->scratch_bytes(0, PieceSteps::any));
  std::string out(16, '?');
  const auto to = std::as_writable_bytes(std::span(out));
  const auto read = [&](std::uint32_t array, std::size_t begin, std::size_t end) {
    const auto reader = opened->open_piece(array, {0}, PieceSteps::any, scratch);
    reader->skip(begin);
    reader->read(to.subspan(8 * array + begin, end - begin));
    if (end < 8) {  // a part is reported when the next one is read
      reader->skip(1);
      std::byte last{};
      reader->read({&last, 1});
    }
  };
  read(0, 0, 4);
  read(1, 4, 8);
  read(0, 4, 8);
  read(1, 0, 4);
  EXPECT_EQ(out, "abcdefghijklmnop");
}

TEST(DcpPlaces, AManifestNamesTheWriterAndThePlan) {
  const TempDir dir;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false).write(dir.path());
  EXPECT_EQ(dcp_format().recognise(dir.path())->plan_id, "");
  write_text(dir / "hfshard.json",
             "{\"plan_id\":\"abc\",\"tool\":\"hfshard 9.9\",\n\"drops\":[],\n\"transfers\":[]}\n");
  EXPECT_EQ(dcp_format().recognise(dir.path())->plan_id, "abc");
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().writer, "hfshard 9.9");
}

}  // namespace
}  // namespace hfshard::format::dcp
