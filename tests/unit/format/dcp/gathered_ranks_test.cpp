// Metadata that each rank wrote alone.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "catalog/checkpoint.h"
#include "format/dcp/dcp.h"
#include "format/dcp/gathered.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/formats.h"
#include "format/pickle_opcodes.h"
#include "format/zip.h"
#include "support/catch_error.h"
#include "support/failed_reads.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"

namespace hfshard {
namespace {

// Writes the metadata and data of a rank. torch writes them if no rank gathers the others'.
void write_rank(const TempDir& dir, char rank, const TorchCheckpoint& made) {
  const TempDir alone;
  made.write(alone.path());
  std::string metadata = read_text(alone / ".metadata");
  std::string data = TorchCheckpoint::kDataFile;
  std::size_t at = metadata.find(data);
  ASSERT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = metadata.find(TorchCheckpoint::kDataFile, at + 1))
    metadata[at + 2] = rank;
  data[2] = rank;
  write_text(dir / ("__" + std::string(1, rank) + ".metadata"), metadata);
  write_text(dir / data, read_text(alone / TorchCheckpoint::kDataFile));
}

// Returns the notes on two ranks that both stored `w`, as far as they aren't about the metadata.
std::vector<std::string> notes_on_ranks(const TorchCheckpoint& one, const TorchCheckpoint& other) {
  const TempDir dir;
  write_rank(dir, '0', one);
  write_rank(dir, '1', other);
  std::vector<std::string> out = open_checkpoint(dir.path())->catalog().notes;
  std::erase_if(out, [](const std::string& note) { return note.starts_with("each of 2 ranks"); });
  return out;
}

std::vector<std::string> notes_on_copies(const std::string& first, bool first_packed,
                                         const std::string& second, bool second_packed) {
  TorchCheckpoint one;
  TorchCheckpoint other;
  one.tensor("w", DType::u8, {4}).part({0}, {4}, first, first_packed);
  other.tensor("w", DType::u8, {4}).part({0}, {4}, second, second_packed);
  return notes_on_ranks(one, other);
}

TEST(DcpRanks, PartsThatSeveralRanksStoredAreComparedByTheirChecksums) {
  using Notes = std::vector<std::string>;
  const Notes differ{
      "ranks stored different values under one name; hfshard reads only the first rank's: \"w\""};
  const Notes unknown{
      "several ranks stored the same part, which hfshard reads from the first one and can't "
      "compare: \"w\""};
  EXPECT_EQ(notes_on_copies("abcd", false, "abcd", false), Notes());
  EXPECT_EQ(notes_on_copies("abcd", false, "abce", false), differ);
  // The checksum of a compressed part isn't known before it's read.
  EXPECT_EQ(notes_on_copies("abcd", true, "abcd", false), unknown);
  EXPECT_EQ(notes_on_copies("abcd", false, "abcd", true), unknown);
  EXPECT_EQ(notes_on_copies("abcd", true, "abce", true), unknown);
  // A damaged copy is no reason to refuse the part that is read.
  TorchCheckpoint sound;
  TorchCheckpoint damaged;
  sound.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  damaged.tensor("w", DType::u8, {4}).box({0}, {4}, "no archive");
  EXPECT_EQ(notes_on_ranks(sound, damaged), unknown);
  // A part that differs on one rank differs, whatever is known of the others.
  const TempDir dir;
  for (const char rank : {'0', '1', '2'}) {
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {4}).part({0}, {4}, rank == '2' ? "abce" : "abcd", rank == '1');
    write_rank(dir, rank, made);
  }
  std::vector<std::string> notes = open_checkpoint(dir.path())->catalog().notes;
  std::erase_if(notes, [](const std::string& note) { return note.starts_with("each of 3 ranks"); });
  EXPECT_EQ(notes, differ);
}

std::vector<std::string> notes_on_items(const Shape& shape, const std::string& first,
                                        const std::string& second) {
  TorchCheckpoint one;
  TorchCheckpoint other;
  const Shape begin = shape.rank() == 1 ? Shape{0} : Shape{0, 0};
  one.tensor("w", DType::u8, shape).box(begin, shape, first);
  other.tensor("w", DType::u8, shape).box(begin, shape, second);
  return notes_on_ranks(one, other);
}

// A checksum is about all stored bytes. They are the same elements only if they are laid out alike.
TEST(DcpRanks, ChecksumsOfOtherLayoutsAreNotCompared) {
  const std::vector<std::string> unknown{
      "several ranks stored the same part, which hfshard reads from the first one and can't "
      "compare: \"w\""};
  const auto altered = [](std::string pickle, const std::string& from, const std::string& to) {
    const std::size_t at = pickle.rfind(from);
    HFSHARD_CHECK(at != std::string::npos);
    return pickle.replace(at, from.size(), to);
  };
  // A view of four elements from `begin` on, in a storage of eight.
  const std::string four = format::dcp::tensor_pickle(DType::u8, {4});
  const auto view = [&](char begin, const std::string& storage) {
    const std::string place(1, begin);
    const std::string of_four("K\4tQK\0", 6);
    return torch_archive({altered(four, of_four, "K\10tQK" + place), storage});
  };
  const std::string from_front = view('\0', "abcdabcd");
  const std::string whole = torch_archive(DType::u8, {4}, "abcd");
  EXPECT_EQ(notes_on_items({4}, from_front, from_front), std::vector<std::string>());
  EXPECT_EQ(notes_on_items({4}, from_front, view('\4', "abcdabcd")), unknown);
  EXPECT_EQ(notes_on_items({4}, whole, from_front), unknown);
  const std::string square = format::dcp::tensor_pickle(DType::u8, {2, 2});
  const std::string columns = altered(square, "K\2K\1", "K\1K\2");
  EXPECT_EQ(
      notes_on_items({2, 2}, torch_archive({square, "abcd"}), torch_archive({columns, "abcd"})),
      unknown);
  // torch.serialization.set_crc32_options(False) writes 0 for each CRC.
  std::string unchecked = whole;
  for (std::size_t at = 0; (at = unchecked.find(format::zip::kEntry, at)) != std::string::npos;
       ++at)
    unchecked.replace(at + 16, 4, 4, '\0');
  EXPECT_EQ(notes_on_items({4}, whole, unchecked), unknown);
  EXPECT_EQ(notes_on_items({4}, unchecked, whole), unknown);
}

TEST(DcpRanks, RanksAgreeOnATensorsShape) {
  const TempDir dir;
  for (const char rank : {'0', '1'}) {
    const std::uint64_t rows = rank == '0' ? 4 : 5;
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {rows}).part({0}, {rows}, std::string(rows, 'x'), false);
    write_rank(dir, rank, made);
  }
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the tensor is u8 of 5 here, and u8 of 4 on another rank");
  EXPECT_EQ(error.file(), dir / "__1.metadata");
  EXPECT_EQ(error.tensor(), "w");
}

// The metadata of a rank with one object, and what its planner wrote.
struct ObjectOfRank {
  std::string file;
  std::uint64_t length = 4;
  std::string transform = {};
  bool other_planner = false;
};

std::string rank_metadata(const ObjectOfRank& rank) {
  using format::Op;
  const std::string classes = "torch.distributed.checkpoint.metadata";
  std::string out;
  format::dcp::PickleWriter write(out);
  const auto object = [&](const std::string& module, std::string_view name) {
    write.global(module, name).op(Op::empty_tuple).op(Op::new_obj).op(Op::empty_dict).op(Op::mark);
  };
  const auto end_object = [&] { write.op(Op::set_items).op(Op::build); };
  write.begin();
  object(classes, "Metadata");
  write.text("state_dict_metadata").op(Op::empty_dict).op(Op::mark).text("o");
  write.global(classes, "BytesStorageMetadata").op(Op::empty_tuple).op(Op::new_obj);
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::mark);
  object(classes, "MetadataIndex");
  write.text("fqn").text("o");
  end_object();
  object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
  write.text("relative_path").text(rank.file).text("offset").integer(0);
  write.text("length").integer(rank.length);
  if (!rank.transform.empty())
    write.text("transform_descriptors").op(Op::empty_list).text(rank.transform).op(Op::append);
  end_object();
  write.op(Op::set_items).text("planner_data");
  if (rank.other_planner) {
    write.text("of another planner");
  } else {
    write.op(Op::empty_dict).op(Op::mark).text("o");
    write.begin_tuple(2).text("model").text("o").end_tuple(2).op(Op::set_items);
  }
  end_object();
  write.op(Op::stop);
  return out;
}

TEST(DcpRanks, ObjectsOfTwoRanksAreTheSameIfTheirStoredBytesAre) {
  const TempDir dir;
  write_text(dir / "__0_0.distcp", "same");
  write_text(dir / "__1_0.distcp", "same bytes");
  write_text(dir / "__1_1.distcp", "sane");
  write_text(dir / "__0.metadata", rank_metadata({"__0_0.distcp"}));
  const auto notes_on = [&](const ObjectOfRank& other) {
    write_text(dir / "__1.metadata", rank_metadata(other));
    std::vector<std::string> notes;
    format::dcp::gather_metadata(StorePath(dir.path()), {"__0.metadata", "__1.metadata"}, {},
                                 notes);
    return notes;
  };
  using Notes = std::vector<std::string>;
  const Notes differ{
      "ranks stored different objects under one name; hfshard reads only the first rank's: \"o\""};
  EXPECT_EQ(notes_on({"__1_0.distcp"}), Notes());
  EXPECT_EQ(notes_on({"__1_1.distcp"}), differ);
  EXPECT_EQ(notes_on({"__1_0.distcp", 5}), differ);
  EXPECT_EQ(notes_on({"__1_0.distcp", 4, "unknown"}), differ);
  EXPECT_EQ(notes_on({"__1_2.distcp"}), differ) << "a missing file";
}

TEST(DcpRanks, AFailedReadOfARepeatedPartOrObjectIsNotADifference) {
  const TempDir objects;
  for (const char* rank : {"__0", "__1"}) {
    const std::string name(rank);
    write_text(objects / (name + "_0.distcp"), "same");
    write_text(objects / (name + ".metadata"), rank_metadata({name + "_0.distcp"}));
  }
  std::vector<std::string> notes;
  expect_failed_reads_are_told([&] {
    format::dcp::gather_metadata(StorePath(objects.path()), {"__0.metadata", "__1.metadata"}, {},
                                 notes);
  });
  EXPECT_EQ(notes, std::vector<std::string>());
  const TempDir parts;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  for (const char rank : {'0', '1'}) write_rank(parts, rank, made);
  expect_failed_reads_are_told([&] { format::dcp::dcp_format().open_one(parts.path(), {}); });
}

TEST(DcpRanks, OneRankWithAnotherPlannerIsEnoughToKeepNoPaths) {
  const TempDir dir;
  write_text(dir / "__0_0.distcp", "same");
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      write_text(dir / "__0.metadata", rank_metadata({"__0_0.distcp", 4, "", first}));
      write_text(dir / "__1.metadata", rank_metadata({"__0_0.distcp", 4, "", second}));
      std::vector<std::string> notes;
      const format::dcp::Metadata gathered = format::dcp::gather_metadata(
          StorePath(dir.path()), {"__0.metadata", "__1.metadata"}, {}, notes);
      EXPECT_EQ(gathered.other_planner, first || second);
      EXPECT_EQ(gathered.nested.empty(), first || second);
    }
  }
}

// A file that only looks like a rank's data doesn't make a checkpoint unfinished.
TEST(DcpRanks, OtherFilesWithANumberAreNotDataOfARank) {
  const TempDir dir;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  write_rank(dir, '0', made);
  for (const char* name : {"__7_0.txt", "of7_0.distcp"}) write_text(dir / name, "x");
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().tensors.size(), 1U);
}

TEST(DcpRanks, PartsOfRanksInAnyOrderMakeTheTensor) {
  const TempDir dir;
  const std::string tensor = "abcdefgh";
  TorchCheckpoint back;
  back.tensor("w", DType::u8, {8}).part({4}, {2}, tensor, false).part({6}, {2}, tensor, false);
  TorchCheckpoint front;
  front.tensor("w", DType::u8, {8}).part({0}, {2}, tensor, false).part({2}, {2}, tensor, false);
  write_rank(dir, '0', back);
  write_rank(dir, '1', front);
  const auto opened = open_checkpoint(dir.path());
  ASSERT_EQ(opened->catalog().grid_of(0).chunk, Shape{2});
  std::vector<std::byte> scratch(opened->scratch_bytes(0, PieceSteps::any));
  std::string out(8, '?');
  for (std::uint64_t piece = 0; piece < 4; ++piece) {
    opened->open_piece(0, {piece}, PieceSteps::any, scratch)
        ->read(std::as_writable_bytes(std::span(out)).subspan(2 * piece, 2));
  }
  EXPECT_EQ(out, tensor);
}

TEST(DcpRanks, ATensorThatIsLeftOutIsToldOnce) {
  const TempDir dir;
  for (const char rank : {'0', '1'}) {
    TorchCheckpoint made;
    made.tensor("v", DType::i8, {4}).part({0}, {4}, "abcd", false);
    made.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
    write_rank(dir, rank, made);
    const std::string path = dir / ("__" + std::string(1, rank) + ".metadata");
    std::string metadata = read_text(path);
    write_text(path, metadata.replace(metadata.find("\nuint8\n"), 7, "\nquint8\n"));
  }
  Choice choice;
  choice.without = {"w"};
  const Catalog catalog = format::dcp::dcp_format().open_one(dir.path(), choice)->catalog();
  ASSERT_EQ(catalog.tensors.size(), 1U);
  EXPECT_EQ(catalog.tensors[0].name, "v");
  ASSERT_EQ(catalog.unreadable.size(), 1U);
  EXPECT_EQ(catalog.unreadable[0].name, "w");
  EXPECT_EQ(catalog.unreadable[0].why, "a tensor of \"torch.quint8\", which hfshard can't read");
}

}  // namespace
}  // namespace hfshard
