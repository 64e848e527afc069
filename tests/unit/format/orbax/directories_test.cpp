// Checkpoints without a database: a directory for every array, a file for every chunk.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/orbax/array_directories.h"
#include "format/orbax/array_keys.h"
#include "format/orbax/open.h"
#include "format/orbax/orbax.h"
#include "ops/read_piece.h"
#include "support/catch_error.h"
#include "support/deflate_streams.h"
#include "support/temp_dir.h"

namespace hfshard::format::orbax {
namespace {

// Returns a tree of leaves by name. A name with one key can have any character.
std::string plain_tree(const std::vector<std::string>& names, const std::string& members = "") {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "\"" : ",\"") + name + R"(":{"key_metadata":[{"key":")" + name +
           R"(","key_type":2}],"value_metadata":)" +
           R"({"value_type":"np.ndarray","skip_deserialize":false}})";
  }
  return R"({"tree_metadata":{)" + out + R"(},"use_ocdbt":false)" + members + "}";
}

const std::string kStored = R"(,"store_array_data_equal_to_fill_value":true)";

// 4 x 6 of u8 in two chunks.
std::string v2_text(const std::string& more = R"("compressor":null,"order":"C","fill_value":null)",
                    const std::string& shape = "[4,6]") {
  return R"({"chunks":[2,6],"dtype":"|u1","filters":null,"shape":)" + shape +
         R"(,"zarr_format":2,)" + more + "}";
}

std::string v3_text() {
  return R"({"zarr_format":3,"node_type":"array","shape":[4,6],"data_type":"uint8",)"
         R"("fill_value":5,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2,6]}},)"
         R"("chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]})";
}

const std::string kUpper = "ABCDEFGHIJKL";
const std::string kLower = "abcdefghijkl";

struct Directories {
  TempDir dir;
  explicit Directories(const std::string& members = kStored,
                       const std::vector<std::string>& names = {"w"}) {
    write_text(dir / "_METADATA", plain_tree(names, members));
    write_text(dir / "w/.zarray", v2_text());
    write_text(dir / "w/0.0", kUpper);
    write_text(dir / "w/1.0", kLower);
  }
  std::unique_ptr<Checkpoint> open() const { return orbax_format().open(dir.path()); }
  Error error() const {
    return catch_error([&] { open(); });
  }
};

std::string piece_of(const Checkpoint& opened, std::uint32_t leaf, const Shape& place) {
  const TensorInfo& info = opened.catalog().tensors[leaf];
  std::string out(packed_bytes(info.dtype, opened.catalog().grid_of(leaf).chunk.numel()), '?');
  std::vector<std::byte> scratch(row_major_scratch_bytes(opened, leaf));
  read_row_major(opened, leaf, place, std::as_writable_bytes(std::span(out)), scratch);
  return out;
}

TEST(OrbaxDirectories, ArraysOfBothVersionsComeBack) {
  const Directories made;
  EXPECT_EQ(piece_of(*made.open(), 0, {0, 0}), kUpper);
  EXPECT_EQ(made.open()->data_files(), 2U);
  EXPECT_EQ(piece_of(*made.open(), 0, {1, 0}), kLower);
  EXPECT_EQ(made.open()->catalog().codecs_of(0), std::vector<std::string>{"bytes"});
  write_text(made.dir / "w/.zarray", v2_text(R"("compressor":null,"order":"F","fill_value":0)"));
  EXPECT_EQ(piece_of(*made.open(), 0, {0, 0}), "ACEGIKBDFHJL");
  EXPECT_EQ(made.open()->catalog().codecs_of(0), (std::vector<std::string>{"transpose", "bytes"}));
  std::filesystem::remove_all(made.dir / "w");
  write_text(made.dir / "w/zarr.json", v3_text());
  write_text(made.dir / "w/c/0/0", kLower);
  write_text(made.dir / "w/c/1/0", kUpper);
  EXPECT_EQ(piece_of(*made.open(), 0, {1, 0}), kUpper);
}

TEST(OrbaxDirectories, AQuickLookFindsOneArrayAndOnlyAtTheTop) {
  const TempDir dir;
  write_text(dir / "a/b/.zarray", v2_text());
  using Names = std::vector<std::string>;
  EXPECT_EQ(find_array_directories(dir.path()), Names{"a/b"});
  EXPECT_EQ(find_array_directories(dir.path(), true), Names());
  for (const char* name : {"y", "z"}) write_text(dir / (std::string(name) + "/.zarray"), v2_text());
  EXPECT_EQ(find_array_directories(dir.path()), (Names{"a/b", "y", "z"}));
  EXPECT_EQ(find_array_directories(dir.path(), true).size(), 1U);
}

// Names of Orbax's directories have their meaning at the top only, and a tree isn't an array.
TEST(OrbaxDirectories, AnArrayCanHaveTheNameOfADirectoryOfOrbax) {
  const TempDir dir;
  for (const char* name : {"d/w", "a/d", "tree"})
    write_text(dir / (std::string(name) + "/.zarray"), v2_text());
  write_text(dir / "tree/_METADATA", "{}");
  EXPECT_EQ(find_array_directories(dir.path()), std::vector<std::string>{"a/d"});
}

// Elements of others can't be read where they lie.
TEST(OrbaxDirectories, OnlyPlainChunksAreAddressable) {
  const auto is_addressable = [](const std::string& codecs, std::size_t bytes) {
    const Directories made;
    std::filesystem::remove_all(made.dir / "w");
    std::string text = v3_text();
    const std::string plain = R"([{"name":"bytes"}])";
    write_text(made.dir / "w/zarr.json", text.replace(text.find(plain), plain.size(), codecs));
    for (const char* chunk : {"0", "1"})
      write_text(made.dir / ("w/c/" + std::string(chunk) + "/0"), std::string(bytes, 'x'));
    return made.open()->catalog().cuts.at(0).addressable;
  };
  EXPECT_TRUE(is_addressable(R"([{"name":"bytes"}])", 12));
  EXPECT_FALSE(is_addressable(R"([{"name":"bytes"},{"name":"crc32c"}])", 16));
  EXPECT_FALSE(
      is_addressable(R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[1,6],)"
                     R"("codecs":[{"name":"bytes"}],)"
                     R"("index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}])",
                     44));
}

// Returns a path of so many directories, each named `n`.
std::string deep_path(int directories) {
  std::string out = "n";
  for (int i = 1; i < directories; ++i) out += "/n";
  return out;
}

TEST(OrbaxDirectories, ANameHasAtMostNineDirectories) {
  const TempDir dir;
  write_text(dir / ("nine/" + deep_path(9) + "/.zarray"), v2_text());
  write_text(dir / ("ten/" + deep_path(10) + "/.zarray"), v2_text());
  EXPECT_EQ(find_array_directories(dir / "nine"), std::vector<std::string>{deep_path(9)});
  EXPECT_TRUE(find_array_directories(dir / "ten").empty());
}

TEST(OrbaxDirectories, AQuickLookLooksInto64Directories) {
  const TempDir dir;
  write_text(dir / "z/.zarray", v2_text());
  const auto add = [&](int number) {
    std::filesystem::create_directory(dir / ("d" + std::to_string(number)));
  };
  for (int i = 0; i < 63; ++i) add(100 + i);
  EXPECT_EQ(find_array_directories(dir.path(), true).size(), 1U);
  add(163);
  EXPECT_TRUE(find_array_directories(dir.path(), true).empty());
  EXPECT_EQ(find_array_directories(dir.path()).size(), 1U);
}

TEST(OrbaxDirectories, FilesOfAnArrayAreAtMostTenDirectoriesBelowItAndOfNoOtherArray) {
  const TempDir dir;
  const std::string ten = "w/" + deep_path(10) + "/x";
  write_text(dir / ten, "?");
  write_text(dir / ("w/" + deep_path(11) + "/y"), "?");
  write_text(dir / "w/v/0", "?");
  std::vector<std::string> keys;
  ArrayDirectories(StorePath(dir.path()), {"w", "w/v"}).walk([&](const Entry& entry) {
    keys.emplace_back(entry.key);
  });
  EXPECT_EQ(keys, (std::vector<std::string>{ten, "w/v/0"}));
}

TEST(OrbaxDirectories, AKeyIsThatOfAnArraysFileOnlyWithItsWholeName) {
  EXPECT_EQ(array_of_key("v/w/zarr.json", "zarr.json"), "v/w");
  EXPECT_EQ(array_of_key("zarr.json", "zarr.json"), "");
  EXPECT_FALSE(array_of_key("w/xzarr.json", "zarr.json"));
  EXPECT_FALSE(array_of_key("w/zarr.jso", "zarr.json"));
}

TEST(OrbaxDirectories, AnArrayThatIsLeftOutChangesNoOther) {
  const Directories made(kStored, {"a", "v", "w"});
  write_text(made.dir / "a/.zarray",
             R"({"chunks":[6],"dtype":"|u1","filters":null,"shape":[6],"zarr_format":2,)"
             R"("compressor":null,"order":"C","fill_value":null})");
  write_text(made.dir / "a/0", "single");
  const std::string odd = v2_text(R"("compressor":{"id":"lzma"},"order":"C","fill_value":null)");
  write_text(made.dir / "v/.zarray", odd);
  write_text(made.dir / "v/0.0", "?");
  EXPECT_EQ(made.error().code(), ErrorCode::unsupported);
  EXPECT_EQ(made.error().tensor(), "v");
  Choice choice;
  choice.without = {"v"};
  const auto open = [&] { return orbax_format().open_one(made.dir.path(), choice); };
  const auto without = open();
  ASSERT_EQ(without->catalog().tensors.size(), 2U);
  ASSERT_EQ(without->catalog().unreadable.size(), 1U);
  EXPECT_EQ(without->catalog().unreadable[0].name, "v");
  EXPECT_EQ(piece_of(*without, 0, {0}), "single");
  EXPECT_EQ(piece_of(*without, 1, {0, 0}), kUpper);
  EXPECT_EQ(piece_of(*without, 1, {1, 0}), kLower);
  // With another description that can be read, it stays.
  write_text(made.dir / "v/zarr.json", v3_text());
  write_text(made.dir / "v/c/0/0", kLower);
  write_text(made.dir / "v/c/1/0", kLower);
  const auto with = open();
  EXPECT_TRUE(with->catalog().unreadable.empty());
  ASSERT_EQ(with->catalog().tensors.size(), 3U);
  EXPECT_EQ(piece_of(*with, 1, {0, 0}), kLower);
}

TEST(OrbaxDirectories, OfTwoDescriptionsThatOfTheTreesVersionCounts) {
  const Directories made(kStored + R"(,"use_zarr3":true)");
  write_text(made.dir / "w/zarr.json", v3_text());
  EXPECT_FALSE(made.open()->has_piece(0, {0, 0}));
  write_text(made.dir / "w/c/0/0", kLower);
  EXPECT_EQ(piece_of(*made.open(), 0, {0, 0}), kLower);
  write_text(made.dir / "_METADATA", plain_tree({"w"}, kStored));
  EXPECT_EQ(piece_of(*made.open(), 0, {0, 0}), kUpper);
}

TEST(OrbaxDirectories, AMissingChunkIsNamedWithItsFileAndNeverZeros) {
  const Directories made;
  std::filesystem::remove(made.dir / "w/1.0");
  const auto opened = made.open();
  EXPECT_TRUE(opened->has_piece(0, {0, 0}));
  EXPECT_FALSE(opened->has_piece(0, {1, 0}));
  const Error error = catch_error([&] { piece_of(*opened, 0, {1, 0}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), made.dir / "w/1.0");
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_NE(error.sentence().find("\"w/1.0\""), std::string::npos);
}

TEST(OrbaxDirectories, AChunkOfAnotherSizeIsFoundWhenOpening) {
  for (const std::string& stored : {kLower + "x", kLower.substr(1), std::string()}) {
    const Directories made;
    write_text(made.dir / "w/1.0", stored);
    EXPECT_EQ(made.error().code(), ErrorCode::corrupt);
    EXPECT_EQ(made.error().file(), made.dir / "w/1.0");
    EXPECT_EQ(made.error().tensor(), "w");
  }
}

TEST(OrbaxDirectories, AChunkThatChangesLaterIsCorrupt) {
  const Directories made;
  const auto opened = made.open();
  write_text(made.dir / "w/1.0", kLower + "x");
  const Error error = catch_error([&] { piece_of(*opened, 0, {1, 0}); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), made.dir / "w/1.0");
  EXPECT_EQ(error.tensor(), "w");
  std::filesystem::remove(made.dir / "w/1.0");
  EXPECT_EQ(catch_error([&] { piece_of(*opened, 0, {1, 0}); }).code(), ErrorCode::not_found);
}

TEST(OrbaxDirectories, FilesThatAreNoChunksAreNothingToWonderAt) {
  const Directories made;
  for (const char* name : {".DS_Store", "0.0.__lock", "00.0", "2.0", "x", "0.0.0", ".zattrs"})
    write_text(made.dir / ("w/" + std::string(name)), "?");
  write_text(made.dir / "stray/.zarray", "?");
  write_text(made.dir / "notes.txt", "?");
  const auto opened = made.open();
  EXPECT_EQ(opened->catalog().tensors.size(), 1U);
  EXPECT_EQ(piece_of(*opened, 0, {1, 0}), kLower);
}

TEST(OrbaxDirectories, NamesMayHaveSlashesButLeadNowhereElse) {
  const Directories made(kStored, {"w", "w/deep/er", "", "w/deep"});
  for (const std::string name : {"w/deep/er/", "", "w/deep/"}) {
    write_text(made.dir / (name + ".zarray"), v2_text());
    write_text(made.dir / (name + "0.0"), kLower);
    write_text(made.dir / (name + "1.0"), name + kUpper.substr(name.size()));
  }
  const auto opened = made.open();
  ASSERT_EQ(opened->catalog().tensors.size(), 4U);
  EXPECT_EQ(opened->data_files(), 8U);
  EXPECT_EQ(piece_of(*opened, 0, {1, 0}), kUpper);  // the item itself
  EXPECT_EQ(piece_of(*opened, 1, {1, 0}), kLower);
  EXPECT_EQ(piece_of(*opened, 2, {1, 0}), "w/deep/HIJKL");
  EXPECT_EQ(piece_of(*opened, 3, {1, 0}), "w/deep/er/KL");
  for (const char* name : {"../w", "/w", "w/", "w//x", "w/./x", "."}) {
    const Directories bad(kStored, {"w", name});
    EXPECT_EQ(bad.error().code(), ErrorCode::corrupt) << name;
    EXPECT_EQ(bad.error().tensor(), name);
  }
}

TEST(OrbaxDirectories, WithoutATreeTheDirectoriesTellTheNames) {
  const Directories made;
  std::filesystem::remove(made.dir / "_METADATA");
  write_text(made.dir / "a.b/c/zarr.json", v3_text());
  write_text(made.dir / "a.b/c/c/0/0", kUpper);
  write_text(made.dir / "array_metadatas/process_0", "{}");
  EXPECT_TRUE(orbax_format().recognise(made.dir.path()).has_value());
  const auto opened = made.open();
  ASSERT_EQ(opened->catalog().tensors.size(), 2U);
  EXPECT_EQ(opened->catalog().tensors[0].name, "a.b/c");
  EXPECT_EQ(piece_of(*opened, 0, {0, 0}), kUpper);
  EXPECT_FALSE(opened->has_piece(0, {1, 0}));  // no tree allows missing chunks
  EXPECT_EQ(piece_of(*opened, 1, {1, 0}), kLower);
  const std::string by_arrays =
      "there is no _METADATA: the arrays are those whose metadata are there";
  EXPECT_EQ(opened->catalog().notes, std::vector<std::string>{by_arrays});
  write_text(made.dir / "checkpoint", "?");
  EXPECT_EQ(made.open()->catalog().notes,
            (std::vector<std::string>{by_arrays,
                                      "not read: values that the file \"checkpoint\" itself holds "
                                      "(msgpack, of an older Orbax)"}));
}

TEST(OrbaxDirectories, FilesBesideTheTreeAreNoted) {
  const Directories made;
  const auto notes = [&] { return made.open()->catalog().notes; };
  EXPECT_TRUE(notes().empty());
  write_text(made.dir / "tokenizer.json", "{}");
  EXPECT_EQ(notes(), std::vector<std::string>{"not read, since they are no part of the tree: "
                                              "\"tokenizer.json\" in its directory"});
  std::filesystem::remove(made.dir / "tokenizer.json");
  write_text(made.dir / "_sharding", "[]");
  ASSERT_EQ(notes().size(), 1U);
  EXPECT_TRUE(
      notes()[0].starts_with("_sharding is not understood, so that it says nothing of axes"))
      << notes()[0];
  write_text(made.dir / "_sharding", "{}");
  EXPECT_TRUE(notes().empty());
  write_text(made.dir / "_strings.json", "[");
  ASSERT_EQ(notes().size(), 1U);
  EXPECT_TRUE(notes()[0].starts_with((made.dir / "_strings.json") +
                                     " is not understood and not carried over: "))
      << notes()[0];
}

TEST(OrbaxDirectories, AnArrayWithMetadataOfBothVersionsCountsOnce) {
  const Directories made;
  std::filesystem::remove(made.dir / "_METADATA");
  write_text(made.dir / "w/zarr.json", v3_text());
  write_text(made.dir / "w/c/0/0", kUpper);
  write_text(made.dir / "w/c/1/0", kLower);
  EXPECT_EQ(made.open()->catalog().tensors.size(), 1U);
}

TEST(OrbaxDirectories, ALeafWithoutMetadataIsCorrupt) {
  const Directories made(kStored, {"v", "w"});
  EXPECT_EQ(made.error().code(), ErrorCode::corrupt);
  EXPECT_EQ(made.error().tensor(), "v");
  EXPECT_EQ(made.error().file(), made.dir / "v/.zarray");
}

// Missing chunks are fill values only if the tree says so, and a note tells it.
TEST(OrbaxDirectories, ChunksThatMayBeLeftOutHaveTheFillValue) {
  for (const std::string members : {"", R"(,"store_array_data_equal_to_fill_value":false)"}) {
    const Directories made(members);
    EXPECT_TRUE(made.open()->catalog().notes.empty());
    write_text(made.dir / "w/.zarray", v2_text(R"("compressor":null,"order":"C","fill_value":65)"));
    std::filesystem::remove(made.dir / "w/1.0");
    const auto opened = made.open();
    EXPECT_TRUE(opened->has_piece(0, {1, 0}));
    EXPECT_FALSE(opened->has_piece(0, {2, 0}));
    EXPECT_EQ(piece_of(*opened, 0, {0, 0}), kUpper);
    EXPECT_EQ(piece_of(*opened, 0, {1, 0}), std::string(12, 'A'));
    EXPECT_EQ(opened->catalog().notes,
              std::vector<std::string>{
                  "1 chunk is not stored: _METADATA allows it, so that they are fill values"});
  }
  const Directories two("", {"v", "w"});  // chunks of all arrays count
  for (const char* name : {"v", "w"})
    write_text(two.dir / (std::string(name) + "/.zarray"),
               v2_text(R"("compressor":null,"order":"C","fill_value":65)"));
  EXPECT_TRUE(two.open()->catalog().notes.at(0).starts_with("2 chunks are not stored"));
  std::filesystem::remove(two.dir / "w/0.0");
  EXPECT_TRUE(two.open()->catalog().notes.at(0).starts_with("3 chunks are not stored"));
  // The fill value must be known.
  const Directories unknown("");
  write_text(unknown.dir / "w/.zarray",
             v2_text(R"("compressor":null,"order":"C","fill_value":"?")"));
  std::filesystem::remove(unknown.dir / "w/1.0");
  EXPECT_FALSE(unknown.open()->has_piece(0, {1, 0}));
  // A few bytes must not describe any number of chunks.
  const Directories many("");
  write_text(many.dir / "w/.zarray",
             v2_text(R"("compressor":null,"order":"C","fill_value":0)", "[99999999999999,6]"));
  EXPECT_EQ(many.error().code(), ErrorCode::limit);
  EXPECT_EQ(many.error().tensor(), "w");
  // Two chunks of 2 rows are stored, and 2^24 aren't.
  const auto rows = [&](const std::string& shape) {
    write_text(many.dir / "w/.zarray",
               v2_text(R"("compressor":null,"order":"C","fill_value":0)", "[" + shape + ",6]"));
  };
  rows("33554436");
  EXPECT_TRUE(many.open()->catalog().notes.at(0).starts_with("16777216 chunks are not stored"));
  rows("33554438");
  EXPECT_EQ(many.error().code(), ErrorCode::limit);
  const Directories both("", {"w", "x"});
  const std::string fill = R"("compressor":null,"order":"C","fill_value":0)";
  write_text(both.dir / "x/.zarray", v2_text(fill, "[33554432,6]"));
  EXPECT_TRUE(both.open()->catalog().notes.at(0).starts_with("16777216 chunks are not stored"));
  write_text(both.dir / "w/.zarray", v2_text(fill, "[6,6]"));
  EXPECT_EQ(both.error().code(), ErrorCode::limit);
  EXPECT_EQ(both.error().tensor(), "x");
}

TEST(OrbaxDirectories, ATreeWithoutArraysNeedsNoDatabase) {
  const TempDir dir;
  std::string tree = plain_tree({});
  tree.replace(tree.find("false"), 5, "true");
  write_text(dir / "_METADATA", tree);
  EXPECT_EQ(orbax_format().open(dir.path())->catalog().tensors.size(), 0U);
}

TEST(OrbaxDirectories, AnArrayBelowAnotherThatTheTreeDoesNotListIsPassedOver) {
  const Directories made;
  write_text(made.dir / "w/x/.zarray", v2_text());
  EXPECT_EQ(made.open()->catalog().tensors.size(), 1U);
}

TEST(OrbaxDirectories, FillValuesOfSeveralBytesComeInStepsOfAnyLength) {
  const Directories made("");
  const std::string text =
      R"({"chunks":[3],"compressor":null,"dtype":"<i4","fill_value":-2,"filters":null,"order":"C",)"
      R"("shape":[3],"zarr_format":2})";
  write_text(made.dir / "w/.zarray", text);
  const auto opened = made.open();
  std::string wanted;
  for (int i = 0; i < 3; ++i) wanted += std::string("\xfe\xff\xff\xff");
  EXPECT_EQ(piece_of(*opened, 0, {0}), wanted);
  std::string out(12, '?');
  const auto reader = opened->open_piece(0, {0}, PieceSteps::any, {});
  auto to = std::as_writable_bytes(std::span(out));
  reader->read(to.first(5));
  reader->skip(3);
  reader->read(to.subspan(8));
  EXPECT_EQ(out.substr(0, 5) + out.substr(8), wanted.substr(0, 5) + wanted.substr(8));
}

// -- Damage: each byte of each file, truncated and changed.

// Returns all pieces, or the error, which must have a sentence.
std::string read_all(const Directories& made) {
  try {
    std::string out;
    const auto opened = made.open();
    for (std::uint32_t leaf = 0; leaf < opened->catalog().tensors.size(); ++leaf) {
      const Shape counts = chunk_counts(opened->catalog().tensors[leaf].shape,
                                        opened->catalog().grid_of(leaf).chunk);
      if (counts.numel() > 100 || opened->catalog().grid_of(leaf).chunk.numel() > 100'000)
        return "large";
      for_each_chunk(counts, [&](const Shape& at) {
        out += piece_of(*opened, leaf, at);
        return true;
      });
    }
    return out;
  } catch (const Error& error) {
    EXPECT_FALSE(error.file().empty()) << error.what();
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    return "";
  }
}

TEST(OrbaxDirectories, NoCutOrChangedFileIsACrashOrShorterData) {
  const Directories made;
  write_text(made.dir / "w/.zarray",
             v2_text(R"("compressor":{"id":"zlib","level":1},"order":"F","fill_value":null)"));
  write_text(made.dir / "w/0.0", deflate_stream(kUpper, false));
  write_text(made.dir / "w/1.0", deflate_stream(kLower, false));
  const std::string whole = read_all(made);
  EXPECT_EQ(whole, "ACEGIKBDFHJLacegikbdfhjl");
  for (const char* name : {"_METADATA", "w/.zarray", "w/0.0", "w/1.0"}) {
    const std::string path = made.dir / name;
    const std::string good = read_text(path);
    for (std::size_t size = 0; size < good.size(); ++size) {
      write_text(path, good.substr(0, size));
      EXPECT_EQ(read_all(made), "") << name << size;
    }
    const bool summed = path.ends_with(".0");
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int mask : {1, 4, 0x80}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ mask);
        write_text(path, bad);
        const std::string read = read_all(made);
        EXPECT_TRUE(!summed || read.empty() || read == whole) << name << i;
      }
    }
    write_text(path, good);
  }
  EXPECT_EQ(read_all(made), whole);
}

TEST(OrbaxDirectories, ABrokenLinkIsNotAChunk) {
  const Directories made;
  std::filesystem::create_symlink("nowhere", made.dir / "w/link");
  EXPECT_EQ(made.open()->data_files(), 2U);
  std::filesystem::remove(made.dir / "w/1.0");
  std::filesystem::create_symlink("nowhere", made.dir / "w/1.0");
  EXPECT_EQ(made.open()->data_files(), 1U);
}

}  // namespace
}  // namespace hfshard::format::orbax
