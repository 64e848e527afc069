// A tree or an index that contradicts itself says where, with the names and numbers.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "catalog/tree_structure.h"
#include "format/orbax/array_directories.h"
#include "format/orbax/ocdbt/writer.h"
#include "format/orbax/open.h"
#include "format/orbax/shardings.h"
#include "format/orbax/tree.h"
#include "format/orbax/zarr/array.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/builder.h"
#include "unit/format/orbax/ocdbt_objects.h"

namespace hfshard::format::orbax {
namespace {

// An item with the arrays of `leaves`, whose keys `fill` adds. The values are in d/v.
std::string write_index(const TempDir& dir, const std::vector<std::string>& leaves,
                        const std::function<void(ocdbt::TreeWriter&)>& fill,
                        const std::string& values = "") {
  std::string nodes;
  ocdbt::TreeWriter writer(
      "d/n", [](std::uint32_t) { return "d/v"; },
      [&](std::span<const std::byte> bytes) { nodes += as_text(bytes); });
  fill(writer);
  ocdbt::Manifest manifest = ocdbt::example_manifest("d/n");
  manifest.versions[0] = writer.finish();
  write_text(dir / "manifest.ocdbt", ocdbt::encode_manifest(manifest));
  write_text(dir / "d/n", nodes);
  write_text(dir / "d/v", values);
  std::vector<Leaf> all(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) all[i].name = leaves[i];
  TreeSpec tree;
  tree.leaves = &all;
  std::string text;
  write_tree_metadata(tree, [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  write_text(dir / "_METADATA", text);
  return dir.path();
}

std::string bytes_array(const Shape& shape, const Shape& chunk) {
  return zarr::write_array(zarr::make_array(DType::u8, shape, chunk, chunk, Encoding{false, 0}));
}

// An item whose array `w` has one chunk, the bytes 3 to 7 of d/v.
void write_one_chunk(const TempDir& dir, const std::string& values) {
  write_index(
      dir, {"w"},
      [&](ocdbt::TreeWriter& writer) {
        writer.add_range("w/c/0", {0, 3, 4});
        writer.add_inline("w/zarr.json", bytes_array({4}, {4}));
      },
      values);
}

TEST(OrbaxOpenErrors, AKeyOfTheIndexThatFitsNoArraySaysWhy) {
  const auto said = [](const std::string& key, std::uint64_t length) {
    const TempDir dir;
    write_index(
        dir, {"w"},
        [&](ocdbt::TreeWriter& writer) {
          writer.add_range(key, {0, 0, length});
          writer.add_inline("w/zarr.json", bytes_array({8, 6}, {2, 6}));
        },
        std::string(100, 'x'));
    const Error error = catch_error([&] { orbax_format().open(dir.path()); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), dir / "manifest.ocdbt");
    EXPECT_EQ(error.tensor(), key.starts_with("w/") ? "w" : "v");
    return error.sentence();
  };
  EXPECT_EQ(said("w/c/x", 12), "the index has the key \"w/c/x\", which is no chunk");
  EXPECT_EQ(said("w/c/4/0", 12), "chunk \"c/4/0\" is outside of the grid 4x1");
  EXPECT_EQ(said("w/c/0/1", 12), "chunk \"c/0/1\" is outside of the grid 4x1");
  EXPECT_EQ(said("w/c/3/0", 13), "chunk \"w/c/3/0\" has 13 bytes; 12 are wanted");
  EXPECT_EQ(said("v/c/0/0", 12), "the index has an array that _METADATA does not list");
}

// The length of a frame depends on its content.
TEST(OrbaxOpenErrors, ACompressedChunkHasALeastAndAGreatestLength) {
  const zarr::Array array = zarr::make_array(DType::u8, {12}, {12}, {12}, Encoding{true, 3});
  const auto [least, most] = array.stored_bytes();
  ASSERT_LT(1U, least);
  ASSERT_LT(least, most);
  const auto said = [&](std::uint64_t length) {
    const TempDir dir;
    write_index(
        dir, {"w"},
        [&](ocdbt::TreeWriter& writer) {
          writer.add_range("w/c/0", {0, 0, length});
          writer.add_inline("w/zarr.json", zarr::write_array(array));
        },
        std::string(100, 'x'));
    try {
      orbax_format().open(dir.path());
      return std::string();
    } catch (const Error& error) {
      return error.sentence();
    }
  };
  const std::string wanted =
      " bytes; " + std::to_string(least) + " to " + std::to_string(most) + " are wanted";
  EXPECT_EQ(said(least), "");
  EXPECT_EQ(said(most), "");
  EXPECT_EQ(said(least - 1), "chunk \"w/c/0\" has " + std::to_string(least - 1) + wanted);
  EXPECT_EQ(said(most + 1), "chunk \"w/c/0\" has " + std::to_string(most + 1) + wanted);
}

TEST(OrbaxOpenErrors, ArrayMetadataInADataFileHaveALimitAndAnEnd) {
  const auto said = [](std::uint64_t offset, std::uint64_t length) {
    const TempDir dir;
    write_index(
        dir, {"w"},
        [&](ocdbt::TreeWriter& writer) {
          writer.add_range("w/zarr.json", {0, offset, length});
        },
        std::string((1 << 20) + 1, ' '));
    const Error error = catch_error([&] { orbax_format().open(dir.path()); });
    EXPECT_EQ(error.file(), dir / "d/v");
    return error.sentence();
  };
  EXPECT_EQ(said(1, (1 << 20) + 1), "array metadata passes the end of its data file");
  EXPECT_EQ(said(0, (1 << 20) + 1),
            "array metadata of 1048577 bytes; hfshard reads at most 1048576");
}

TEST(OrbaxOpenErrors, ADataFileThatIsCutNamesTheKeyOfTheChunk) {
  const TempDir dir;
  write_one_chunk(dir, "...abc");
  const Error error = catch_error([&] { orbax_format().open(dir.path()); });
  EXPECT_EQ(error.sentence(), "the chunk with key \"w/c/0\" passes the end of its data file");
  EXPECT_EQ(error.file(), dir / "d/v");
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.range(), (ByteRange{3, 7}));
  EXPECT_EQ(error.total_bytes(), 6U);
  Choice choice;
  choice.despite_loss = true;
  const auto opened = orbax_format().open_one(dir.path(), choice);
  const Error later = catch_error([&] { opened->open_piece(0, {0}, PieceSteps::whole_cells, {}); });
  EXPECT_EQ(later.sentence(), error.sentence());
  EXPECT_EQ(later.tensor(), "w");
  std::filesystem::remove(dir / "d/v");
  EXPECT_EQ(catch_error([&] { orbax_format().open(dir.path()); }).sentence(),
            "a data file of the checkpoint is missing");
  const auto without = orbax_format().open_one(dir.path(), choice);
  const Error gone = catch_error([&] { without->open_piece(0, {0}, PieceSteps::whole_cells, {}); });
  EXPECT_EQ(gone.sentence(), "a data file of the checkpoint is missing");
  EXPECT_EQ(gone.file(), dir / "d/v");
}

std::string entry_text(const std::string& name, const std::string& type, int key_type = 2) {
  return "\"" + name + R"(":{"key_metadata":[{"key":")" + name + R"(","key_type":)" +
         std::to_string(key_type) + R"(}],"value_metadata":{"value_type":")" + type +
         R"(","skip_deserialize":false}})";
}

TEST(OrbaxOpenErrors, ATreeSaysWhichOfItsMembersIsWrong) {
  const auto refused = [](const std::string& text) {
    return catch_error([&] { parse_tree(text, "f"); });
  };
  const auto tree = [](const std::string& entries, const std::string& rest = "") {
    return R"({"tree_metadata":{)" + entries + "}" + rest + "}";
  };
  const Error type = refused(tree(entry_text("w", "NewThing")));
  EXPECT_EQ(type.sentence(), "the value type \"NewThing\" is not supported");
  EXPECT_EQ(type.tensor(), "w");
  EXPECT_EQ(refused(tree(entry_text("w", "scalar", 3))).sentence(), "tree key type 3 is unknown");
  EXPECT_EQ(refused(tree(entry_text("w", "scalar", 0))).sentence(), "tree key type 0 is unknown");
  std::string same = entry_text("w", "scalar");
  same.replace(1, 1, "x");  // another key of the object, with the same path
  const Error twice = refused(tree(entry_text("w", "scalar") + "," + same));
  EXPECT_EQ(twice.sentence(), "two leaves of the tree have the same path");
  EXPECT_EQ(twice.tensor(), "w");
  EXPECT_EQ(refused(tree("", R"(,"use_zarr3":true,"use_zarr3":true)")).sentence(),
            "key \"use_zarr3\" appears twice");
  EXPECT_EQ(refused(R"({"use_zarr3":true})").sentence(), "the member \"tree_metadata\" is missing");
  // A node without arrays can have the path of an array.
  const std::string none = R"("y":{"key_metadata":[{"key":"w","key_type":2}],"value_metadata":)"
                           R"({"value_type":"None","skip_deserialize":true}})";
  EXPECT_EQ(parse_tree(tree(entry_text("w", "scalar") + "," + none), "f").arrays,
            std::vector<std::string>{"w"});
}

TEST(OrbaxOpenErrors, AnArrayThatIsNoDirectoryIsNamed) {
  const TempDir dir;
  const Error error = catch_error([&] {
    ArrayDirectories(StorePath(dir.path()), {"a", "b/../c"});
  });
  EXPECT_EQ(error.sentence(), "an array name that can't be a directory name");
  EXPECT_EQ(error.tensor(), "b/../c");
  EXPECT_EQ(error.file(), dir.path());
}

TEST(OrbaxOpenErrors, AShardingSaysWhatIsWrongWithIt) {
  Catalog catalog;
  catalog.tensors.resize(1);
  catalog.tensors[0].name = "a";
  catalog.tensors[0].shape = {8};
  const auto refused = [&](const std::string& text) {
    return catch_error([&] { parse_shardings(text, "f", catalog); });
  };
  EXPECT_EQ(refused(R"({"Y":"{}"})").sentence(), "\"Y\" is no name in base64");
  const Error dims = refused(
      R"({"YQ==":"{\"sharding_type\":\"NamedSharding\",\"partition_spec\":[null,\"y\"]}"})");
  EXPECT_EQ(dims.sentence(), "a sharding has more dims than its array");
  EXPECT_EQ(dims.tensor(), "a");
  const TempDir dir;
  write_text(dir / "_sharding", R"({"Y":"{}"})");
  read_shardings(dir.path(), catalog);
  EXPECT_EQ(catalog.notes,
            std::vector<std::string>{"_sharding is not understood, so that it says nothing of "
                                     "axes: \"Y\" is no name in base64"});
}

TEST(OrbaxOpenErrors, ATreeThatCannotBeWrittenNamesItsLeaf) {
  OrbaxBuilder builder;
  builder.leaf("opt_state.mu", DType::f32, {4}, {4}).build();
  const Error taken = catch_error([&] { side_files(builder.tree(), builder); });
  EXPECT_EQ(taken.sentence(), "the training state already has the name \"opt_state\"");
  EXPECT_EQ(taken.tensor(), "opt_state.mu");
  // Only the first key of a name counts, as a whole.
  OrbaxBuilder others;
  others.leaf("steps", DType::f32, {4}, {4}).leaf("a.step", DType::f32, {4}, {4}).build();
  EXPECT_NO_THROW(side_files(others.tree(), others));
}

TEST(OrbaxOpenErrors, AnArrayInsideOfAnotherSaysWhichKeyIsTaken) {
  const auto refused = [](const std::vector<std::string>& names, const Shape& shape) {
    OrbaxBuilder builder;
    for (const std::string& name : names) builder.leaf(name, DType::u8, shape, shape);
    builder.build().tree().extras = {};
    TreeStructure structure;
    for (const Leaf& leaf : builder.leaves()) {
      TreeEntry& entry = structure.entries.emplace_back();
      entry.add_key(leaf.name, /*is_index=*/false);
      entry.type = "np.ndarray";
    }
    builder.tree().structure = std::make_shared<const TreeStructure>(std::move(structure));
    return catch_error([&] {
      for (const SideFile& side : side_files(builder.tree(), builder))
        side.write([](std::span<const std::byte>) {});
    });
  };
  const Error key = refused({"a", "a/c"}, {4});
  EXPECT_EQ(key.sentence(),
            "a chunk of another array has the key \"a/c/0\", which begins with this name");
  EXPECT_EQ(key.hint_text(), "leave one of the two arrays out with --exclude");
  EXPECT_EQ(key.tensor(), "a/c");
  std::vector<std::string> names{"a"};
  while (names.size() < 66) names.push_back(names.back() + "/a");
  EXPECT_EQ(refused(names, {}).sentence(),
            "this name begins with the names of more than 64 arrays");
}

TEST(OrbaxOpenErrors, FilesThatMarkACommitSaySo) {
  OrbaxBuilder builder;
  builder.leaf("w", DType::u8, {4}, {4}).build();
  std::vector<std::string> marked;
  for (const SideFile& side : side_files(builder.tree(), builder)) {
    std::string text;
    side.write([&](std::span<const std::byte> bytes) { text += as_text(bytes); });
    if (text == "Checkpoint commit was successful\n") marked.push_back(side.path);
  }
  EXPECT_EQ(marked, (std::vector<std::string>{"items/commit_success.txt", "commit_success.txt"}));
}

TEST(OrbaxOpenErrors, ADataFileThatIsCutLaterNamesTheTensor) {
  const TempDir dir;
  write_one_chunk(dir, "...abcd");
  const auto opened = orbax_format().open(dir.path());
  const auto reader = opened->open_piece(0, {0}, PieceSteps::whole_cells, {});
  std::filesystem::resize_file(dir / "d/v", 5);
  std::string out(4, '?');
  const Error error = catch_error([&] { reader->read(std::as_writable_bytes(std::span(out))); });
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.file(), dir / "d/v");
}

TEST(OrbaxOpenErrors, ChunksInFilesOfTheirOwnSayWhatChanged) {
  const TempDir dir;
  const std::string entry = entry_text("w", "np.ndarray");
  write_text(dir / "_METADATA", R"({"tree_metadata":{)" + entry + R"(},"use_ocdbt":false})");
  const std::string v2 =
      R"({"chunks":[4],"compressor":null,"dtype":"|u1","fill_value":0,"filters":null,)"
      R"("order":"C","shape":[)";
  write_text(dir / "w/.zarray", v2 + R"(4],"zarr_format":2})");
  write_text(dir / "w/0", "abcd");
  const auto opened = orbax_format().open(dir.path());
  write_text(dir / "w/0", "abcde");
  const Error changed =
      catch_error([&] { opened->open_piece(0, {0}, PieceSteps::whole_cells, {}); });
  EXPECT_EQ(changed.sentence(), "a chunk of 5 bytes that had 4");
  EXPECT_EQ(changed.file(), dir / "w/0");
  EXPECT_EQ(opened->find_piece(0, {0})->file, dir / "w/0");
  EXPECT_EQ(opened->find_piece(0, {0})->range, (ByteRange{0, 4}));
  write_text(dir / "w/0", "abcd");
  write_text(dir / "w/.zarray", v2 + R"(99999999999],"zarr_format":2})");
  EXPECT_EQ(catch_error([&] { orbax_format().open(dir.path()); }).sentence(),
            "more than 16777216 chunks are not stored, and would be fill values");
}

}  // namespace
}  // namespace hfshard::format::orbax
