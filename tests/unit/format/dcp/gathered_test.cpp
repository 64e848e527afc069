// Parts of tensors that each rank wrote alone, in files of torch's Hugging Face writer.

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "catalog/checkpoint.h"
#include "format/dcp/dcp.h"
#include "format/dcp/shard_names.h"
#include "format/formats.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

std::string name_of_shard(int number, int file = 1, int files = 1) {
  return fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", number, file, files);
}

// Rows of a tensor of two columns, from `first` on.
std::string shard_file(std::uint64_t first, std::uint64_t rows, const std::string& dtype = "U8",
                       const std::string& tensor = "w") {
  const std::string header = fmt::format(
      R"({{"__metadata__":{{"DCP_SHARDING_INFO":"{{\"{4}\":{{\"saved_offsets\":[{0},0]}}}}"}},)"
      R"("{4}":{{"dtype":"{1}","shape":[{2},2],"data_offsets":[0,{3}]}}}})",
      first, dtype, rows, 2 * rows, tensor);
  std::array<std::byte, 8> length{};
  store_le<std::uint64_t>(length.data(), header.size());
  std::string out(as_text(length));
  out += header;
  for (std::uint64_t i = 0; i < 2 * rows; ++i) out.push_back(static_cast<char>(2 * first + i));
  return out;
}

ErrorCode code_of_place(const TempDir& dir) {
  return catch_error([&] { open_checkpoint(dir.path()); }).code();
}

TEST(DcpGathered, ShardsAreOneTensorAndNoModel) {
  const TempDir dir;
  write_text(dir / name_of_shard(1), shard_file(0, 3));
  write_text(dir / name_of_shard(2), shard_file(3, 2));
  write_text(dir / name_of_shard(3), shard_file(5, 0));
  EXPECT_FALSE(is_model_place(dir.path()));
  const auto opened = open_checkpoint(dir.path());
  ASSERT_EQ(opened->catalog().tensors.size(), 1U);
  EXPECT_EQ(opened->catalog().tensors[0].name, "w");
  EXPECT_EQ(opened->catalog().tensors[0].shape, (Shape{5, 2}));
  EXPECT_EQ(opened->catalog().notes.size(), 1U);
}

TEST(DcpGathered, ShardsMayHaveColumns) {
  const TempDir dir;
  for (const int rank : {1, 2, 3}) {
    std::string columns = shard_file(0, 4);
    columns[columns.find("[0,0]") + 3] = static_cast<char>('0' + 2 * (rank - 1));
    write_text(dir / name_of_shard(rank), columns);
  }
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().tensors[0].shape, (Shape{4, 6}));
}

TEST(DcpGathered, AMissingShardIsNamedWithTheLeastNumberOfShards) {
  const TempDir dir;
  for (const int rank : {1, 3, 5})
    write_text(dir / name_of_shard(rank), shard_file(static_cast<std::uint64_t>(rank), 1));
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.file(), dir / name_of_shard(2));
  EXPECT_EQ(error.sentence(), "shard 2 of at least 5 is missing");
}

TEST(DcpGathered, HolesOverlapsAndOtherDtypesAreErrors) {
  const TempDir dir;
  write_text(dir / name_of_shard(1), shard_file(0, 3));
  write_text(dir / name_of_shard(3), shard_file(3, 2));
  const Error gap = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(gap.code(), ErrorCode::not_found);
  EXPECT_EQ(gap.file(), dir / name_of_shard(2));
  write_text(dir / name_of_shard(2), shard_file(4, 1));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt) << "an overlap";
  write_text(dir / name_of_shard(2), shard_file(3, 2));
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().tensors.size(), 1U) << "the same twice";
  write_text(dir / name_of_shard(3), shard_file(6, 2));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt) << "a hole";
  write_text(dir / name_of_shard(3), shard_file(5, 2, "I8"));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt) << "another dtype";
  for (const char* dtype : {"X9", "F6_E2M3"}) {  // torch has neither
    write_text(dir / name_of_shard(3), shard_file(5, 2, dtype));
    EXPECT_EQ(code_of_place(dir), ErrorCode::unsupported) << dtype;
  }
  write_text(dir / name_of_shard(3), shard_file(UINT64_MAX, 2));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt);
  write_text(dir / name_of_shard(3), "short");
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt);
  // The shortest file with a header, which isn't a JSON object.
  write_text(dir / name_of_shard(3), std::string("\1\0\0\0\0\0\0\0{", 9));
  const Error shortest = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(shortest.code(), ErrorCode::bad_input);
  EXPECT_EQ(shortest.sentence().find("doesn't begin with a whole header"), std::string::npos)
      << shortest.sentence();
}

TEST(DcpGathered, PartsOfOneTensorHaveOneRank) {
  const TempDir dir;
  write_text(dir / name_of_shard(1), shard_file(0, 3));
  std::string flat = shard_file(0, 3);
  const auto change = [&](const std::string& from, const std::string& to) {
    flat.replace(flat.find(from), from.size(), to);
  };
  change("[0,0]}", "[3]  }");
  change("[3,2]", "[6]  ");
  write_text(dir / name_of_shard(2), flat);
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the tensor is u8 of 9 here, and u8 of 9x2 on another rank");
  EXPECT_EQ(error.tensor(), "w");
}

// A name without numbers doesn't say which other shards must be there.
TEST(DcpGathered, AShardWithoutNumbersInItsNameIsReadAlone) {
  const TempDir dir;
  write_text(dir / "shard-00001-model-a-of-b.safetensors", shard_file(0, 3));
  const Catalog catalog = open_checkpoint(dir.path())->catalog();
  ASSERT_EQ(catalog.tensors.size(), 1U);
  EXPECT_EQ(catalog.tensors[0].shape, (Shape{3, 2}));
  EXPECT_EQ(catalog.notes,
            std::vector<std::string>{"these shards don't record the tensors' sizes; if the last "
                                     "ones are missing, the tensors seem smaller"});
  write_text(dir / "shard-00001-model-a-of-b.safetensors", shard_file(1, 3));
  const Error hole = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(hole.code(), ErrorCode::corrupt);
  EXPECT_EQ(hole.sentence(), "the chunks don't cover the tensor: they hold 6 of 8 elements");
}

TEST(DcpGathered, NamesOfShardsHaveThreeNumbers) {
  const auto parsed = format::dcp::parse_shard_name(name_of_shard(2, 3, 4));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(format::dcp::to_string(*parsed), name_of_shard(2, 3, 4));
  for (const char* name :
       {"model.safetensors", "shard-1-model-00001-of-00001.safetensors",
        "shard-00001-model-a-of-00001.safetensors", "shard-00001-model-00001-of-b.safetensors"})
    EXPECT_FALSE(format::dcp::parse_shard_name(name)) << name;
}

TEST(DcpGathered, PiecesBeyondATensorHaveNoPlace) {
  const TempDir dir;
  write_text(dir / name_of_shard(1), shard_file(0, 3));
  write_text(dir / name_of_shard(2), shard_file(3, 3));
  const auto opened = open_checkpoint(dir.path());
  ASSERT_EQ(opened->catalog().tensors.size(), 1U);
  EXPECT_EQ(opened->find_piece(0, {1, 0})->file, dir / name_of_shard(2));
  EXPECT_TRUE(opened->find_piece(0, {1, 0})->range);
  EXPECT_FALSE(opened->find_piece(0, {2, 0})->range);
  EXPECT_FALSE(opened->find_piece(0, {0, 1})->range);
}

// Ranks 1 to 3 of a model with several files: w in the first, v in the second.
void write_shards(const TempDir& dir, int files) {
  for (int rank = 1; rank <= 3; ++rank) {
    const auto first = static_cast<std::uint64_t>(2 * (rank - 1));
    write_text(dir / name_of_shard(rank, 1, files), shard_file(first, 2));
    write_text(dir / name_of_shard(rank, 2, files), shard_file(first, 2, "U8", "v"));
  }
}

TEST(DcpGathered, AShardThatLeavesAHoleIsNamed) {
  const TempDir dir;
  for (const int rank : {1, 2}) {
    write_shards(dir, 2);
    std::filesystem::remove(dir / name_of_shard(rank, 2, 2));
    const Error error = catch_error([&] { open_checkpoint(dir.path()); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.file(), dir / name_of_shard(rank, 2, 2));
    EXPECT_EQ(error.tensor(), "v");
    EXPECT_NE(error.sentence().find("8 of 12"), std::string::npos) << error.sentence();
  }
  // A part that two ranks stored counts once.
  write_text(dir / name_of_shard(4, 2, 2), shard_file(4, 2, "U8", "v"));
  const Error repeated = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(repeated.code(), ErrorCode::not_found);
  EXPECT_EQ(repeated.file(), dir / name_of_shard(2, 2, 2));
}

// Files without saved parts don't exist, and no metadata state where a tensor ends.
TEST(DcpGathered, WhatMayBeMissingAtTheEndIsANote) {
  const TempDir dir;
  write_shards(dir, 3);
  const std::vector<std::string> none = open_checkpoint(dir.path())->catalog().notes;
  ASSERT_EQ(none.size(), 2U);
  EXPECT_NE(none[1].find(name_of_shard(1, 3, 3)), std::string::npos) << none[1];
  std::filesystem::remove(dir / name_of_shard(3, 2, 3));
  const std::vector<std::string> last = open_checkpoint(dir.path())->catalog().notes;
  ASSERT_EQ(last.size(), 3U);
  EXPECT_NE(last[1].find(name_of_shard(3, 2, 3)), std::string::npos) << last[1];
}

TEST(DcpGathered, ARankWithoutAPartOfATensorNeedsNoFileForIt) {
  const TempDir dir;
  write_shards(dir, 2);
  std::filesystem::remove(dir / name_of_shard(2, 2, 2));
  write_text(dir / name_of_shard(3, 2, 2), shard_file(2, 2, "U8", "v"));
  const Catalog catalog = open_checkpoint(dir.path())->catalog();
  ASSERT_EQ(catalog.tensors.size(), 2U);
  EXPECT_EQ(catalog.tensors[0].name, "v");
  EXPECT_EQ(catalog.tensors[0].shape, (Shape{4, 2}));
}

TEST(DcpGathered, ShardsOfTwoCheckpointsAreNotMixed) {
  const TempDir dir;
  write_shards(dir, 2);
  write_text(dir / name_of_shard(1), shard_file(0, 2));
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_NE(error.file().find("shard-00001-"), std::string::npos);
}

TEST(DcpGathered, DataOfARankWithoutMetadataIsUnfinished) {
  const TempDir dir;
  write_text(dir / "__0_0.distcp", "");
  EXPECT_EQ(code_of_place(dir), ErrorCode::not_found);
  write_text(dir / "__1.metadata", "");
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "__0_0.distcp");
  EXPECT_NE(error.sentence().find("rank 0 "), std::string::npos) << error.sentence();
  write_text(dir / "__0.metadata", "");
  write_text(dir / "__12_3.distcp", "");
  const Error twelve = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(twelve.file(), dir / "__12_3.distcp");
  EXPECT_NE(twelve.sentence().find("rank 12 "), std::string::npos) << twelve.sentence();
}

// Only the same part counts as repeated. Otherwise the shorter one could hide different elements.
TEST(DcpGathered, PartsThatBeginTogetherAndEndApartOverlap) {
  for (const auto& [first, second] : {std::pair<std::uint64_t, std::uint64_t>{3, 2}, {2, 3}}) {
    const TempDir dir;
    write_text(dir / name_of_shard(1), shard_file(0, first));
    write_text(dir / name_of_shard(2), shard_file(0, second));
    EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt);
  }
}

// An item can be a safetensors file. Its header states the part that it has.
TEST(DcpGathered, AnItemInASafetensorsFileIsThePartThatTheMetadataName) {
  const TempDir dir;
  const auto write = [&](const std::string& item) {
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {4, 2}).box({0, 0}, {4, 2}, item);
    made.write(dir.path());
  };
  const auto read = [&] {
    const CheckpointReader opened = open(dir.path());
    std::string out(8, '?');
    opened.read_rows(0, 0, std::as_writable_bytes(std::span(out)));
    return out;
  };
  write(shard_file(0, 4));
  EXPECT_EQ(read(), std::string("\0\1\2\3\4\5\6\7", 8));
  const auto altered = [](const std::string& from, const std::string& to) {
    std::string out = shard_file(0, 4);
    return out.replace(out.find(from), from.size(), to);
  };
  for (const std::string& other :
       {shard_file(1, 4), shard_file(0, 3), shard_file(0, 5), shard_file(0, 4, "I8"),
        shard_file(0, 4, "U8", "v"), altered("[4,2]", "[2,4]"), altered("[0,8]", "[0,7]")}) {
    write(other);
    const Error error = catch_error(read);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.format();
    EXPECT_EQ(error.file(), dir / TorchCheckpoint::kDataFile);
    EXPECT_EQ(error.tensor(), "w");
  }
}

TEST(DcpGathered, ADamagedSafetensorsFileLosesOnlyItsTensors) {
  const TempDir dir;
  std::string damaged = shard_file(0, 4);
  damaged.replace(damaged.find("[0,8]"), 5, "[0,9]");
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {4, 2}).box({0, 0}, {4, 2}, damaged);
  made.write(dir.path());
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "tensor data passes the end of the file");
  Choice choice;
  choice.despite_loss = true;
  EXPECT_EQ(open_checkpoint(dir.path(), choice)->catalog().tensors.size(), 1U);
}

// A read opens the file. Before, only its length was looked up, if no item is at its front.
TEST(DcpGathered, AFileThatChangesItsLengthAfterOpeningIsCorrupt) {
  const TempDir dir;
  const std::string data = dir / TorchCheckpoint::kDataFile;
  TorchCheckpoint made;
  made.tensor("w", DType::u8, {8}).box({0}, {0}, "front").part({0}, {8}, "01234567", false);
  std::string out(8, '?');
  for (const std::string change : {"none", "longer", "shorter"}) {
    made.write(dir.path());
    const CheckpointReader opened = open(dir.path());
    const auto read = [&] { opened.read_rows(0, 0, std::as_writable_bytes(std::span(out))); };
    if (change == "none") {
      read();
      EXPECT_EQ(out, "01234567");
      continue;
    }
    std::string bytes = read_text(data);
    const std::string before = std::to_string(bytes.size());
    bytes.resize(change == "longer" ? bytes.size() + 1 : bytes.size() - 1, 'x');
    write_text(data, bytes);
    const Error error = catch_error(read);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << change;
    EXPECT_EQ(error.file(), data) << change;
    EXPECT_NE(error.sentence().find(before), std::string::npos) << error.sentence();
  }
}

TEST(DcpGathered, AShardsHeaderMustFitItsFileAndItself) {
  const std::string passes = "tensor data passes the end of the file";
  const auto refused_shard = [](const std::string& from, const std::string& to, bool cut = false) {
    const TempDir dir;
    std::string bytes = shard_file(0, 3);
    bytes.replace(bytes.find(from), from.size(), to);
    if (cut) bytes.pop_back();
    write_text(dir / name_of_shard(1), bytes);
    const Error error = catch_error([&] { open_checkpoint(dir.path()); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << from;
    EXPECT_EQ(error.file(), dir / name_of_shard(1)) << from;
    EXPECT_EQ(error.tensor(), "w") << from;
    return error.sentence();
  };
  EXPECT_NE(refused_shard("[0,0]}", "[0  ]}"), passes) << "a place of another rank";
  EXPECT_EQ(refused_shard("[0,6]", "[0,6]", true), passes) << "the last byte is missing";
  EXPECT_EQ(refused_shard("[0,6]", "[6,0]"), passes) << "the end comes first";
  EXPECT_EQ(refused_shard("[0,6]", "[0  ]"), passes) << "no end";
}

TEST(DcpGathered, ATensorThatIsLeftOutChangesNoOther) {
  const TempDir dir;
  write_shards(dir, 2);
  for (const int rank : {1, 2, 3})
    write_text(dir / name_of_shard(rank, 1, 2),
               shard_file(static_cast<std::uint64_t>(2 * (rank - 1)), 2, "X9"));
  EXPECT_EQ(code_of_place(dir), ErrorCode::unsupported);
  Choice choice;
  choice.without = {"w"};
  const Catalog catalog = format::dcp::dcp_format().open_one(dir.path(), choice)->catalog();
  ASSERT_EQ(catalog.tensors.size(), 1U);
  EXPECT_EQ(catalog.tensors[0].name, "v");
  EXPECT_EQ(catalog.tensors[0].shape, (Shape{6, 2}));
  ASSERT_EQ(catalog.unreadable.size(), 1U);
  EXPECT_EQ(catalog.unreadable[0].name, "w");
}

TEST(DcpSteps, AStepIsChosenByItsNumber) {
  const TempDir dir;
  for (const std::uint64_t step : {2U, 10U}) {
    const std::string elements(step, 'x');
    TorchCheckpoint made;
    made.tensor("w", DType::u8, {step}).part({0}, {step}, elements, false);
    made.write(dir / fmt::format("step-{}", step));
  }
  const auto shape_at = [&](const Choice& choice) {
    return format::dcp::dcp_format().open_one(dir.path(), choice)->catalog().tensors[0].shape;
  };
  EXPECT_EQ(shape_at({}), Shape{10});
  EXPECT_EQ(shape_at({2, ""}), Shape{2});
  EXPECT_EQ(catch_error([&] { shape_at({3, ""}); }).code(), ErrorCode::not_found);
  EXPECT_EQ(catch_error([&] { shape_at({2, "items"}); }).code(), ErrorCode::usage);
}

// A step is complete if it has the metadata of all ranks, those of each, or shards without any.
TEST(DcpSteps, AStepThatLacksItsMetadataOrIsEmptyIsNotComplete) {
  const TempDir dir;
  for (const char* file :
       {"step-1/.metadata", "step-2/__0.metadata", "step-2/__0_0.distcp", "step-4/__0_0.distcp"})
    write_text(dir / file, "");
  for (const char* name : {"step-x", "step-"})  // not a number
    write_text(dir / (std::string(name) + "/.metadata"), "");
  write_text(dir / ("step-3/" + name_of_shard(1)), shard_file(0, 3));
  std::filesystem::create_directory(dir / "step-5");
  write_text(dir / "step-6/notes.txt", "");
  write_text(dir / "step-7", "a file");
  const auto& format = format::dcp::dcp_format();
  const auto found = format.recognise(dir.path());
  ASSERT_TRUE(found.has_value());
  std::vector<std::pair<std::uint64_t, bool>> steps;
  for (const Found::Step& step : found->steps) steps.emplace_back(step.number, step.published);
  EXPECT_EQ(steps, (std::vector<std::pair<std::uint64_t, bool>>{
                       {1, true}, {2, true}, {3, true}, {4, false}, {5, false}}));
  EXPECT_EQ(format.why_incomplete(dir / "step-3"), "");
  EXPECT_EQ(format.why_incomplete(dir / "step-5"), "is empty");
  EXPECT_NE(format.why_incomplete(dir / "step-4"), "");
  const TempDir empty;
  std::filesystem::create_directory(empty / "step-1");
  EXPECT_FALSE(format.recognise(empty.path()).has_value()) << "empty directories aren't a run";
}

TEST(DcpGathered, AShardThatIsMissingOrDoesNotFitIsSaid) {
  const TempDir dir;
  const auto refused = [&] { return catch_error([&] { open_checkpoint(dir.path()); }); };
  write_shards(dir, 2);
  std::filesystem::remove(dir / name_of_shard(2, 2, 2));
  EXPECT_EQ(refused().sentence(),
            "a shard is missing: the others have 8 of 12 elements of the tensor");
  write_text(dir / name_of_shard(1), shard_file(0, 2));
  EXPECT_EQ(refused().sentence(),
            "the shards belong to two checkpoints: their names say 1 and 2 files");
  EXPECT_EQ(refused().file(), dir / name_of_shard(1, 1, 2));
  EXPECT_EQ(refused().hint_text(),
            "torch keeps the files of an earlier save in the same directory; move them away");
  const auto said_of = [](const std::string& shard) {
    const TempDir alone;
    write_text(alone / name_of_shard(1), shard);
    const Error error = catch_error([&] { open_checkpoint(alone.path()); });
    EXPECT_EQ(error.file(), alone / name_of_shard(1));
    return error.sentence();
  };
  EXPECT_EQ(said_of("short"), "the file doesn't begin with a whole header");
  EXPECT_EQ(said_of(shard_file(0, 2, "X9")), "a tensor of \"X9\", which hfshard can't read");
  EXPECT_EQ(said_of(shard_file(UINT64_MAX, 2)), "the part ends beyond all sizes");
  std::string place = shard_file(0, 2);
  EXPECT_EQ(said_of(place.replace(place.find("[0,0]}"), 6, "[0  ]}")),
            "the part and its place have different ranks");
}

TEST(DcpGathered, NotesNameTheShardsThatMayBeMissing) {
  const TempDir dir;
  write_shards(dir, 3);
  std::filesystem::remove(dir / name_of_shard(3, 2, 3));
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().notes,
            (std::vector<std::string>{
                "these shards don't record the tensors' sizes; if the last ones are missing, the "
                "tensors seem smaller",
                "\"" + name_of_shard(3, 2, 3) +
                    "\" is missing, which other ranks have: if rank 3 had it, its data are missing",
                "\"" + name_of_shard(1, 3, 3) +
                    "\" is missing for every rank: the tensors of file 3 of 3 were not saved, or "
                    "are lost"}));
}

}  // namespace
}  // namespace hfshard
