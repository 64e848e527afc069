// Databases that hfshard's writer doesn't make: those of other tools, and unsupported ones.

#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "format/orbax/metadata.h"
#include "format/orbax/ocdbt/writer.h"
#include "format/orbax/orbax.h"
#include "format/orbax/zarr/array.h"
#include "ops/read_piece.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/ocdbt_objects.h"

namespace hfshard::format::orbax {
namespace {

// An item directory with the leaf "w", whose keys a test chooses. Values are in d/v0.
struct HandMade {
  using Fill = std::function<void(ocdbt::TreeWriter&)>;

  HandMade(const Fill& fill, const std::string& values = "") {
    std::string nodes;
    ocdbt::TreeWriter writer(
        "d/n", [](std::uint32_t) { return "d/v0"; },
        [&](std::span<const std::byte> bytes) { nodes += as_text(bytes); });
    fill(writer);
    ocdbt::Manifest manifest = ocdbt::example_manifest("d/n");
    manifest.versions[0] = writer.finish();
    manifest.versions[0].generation = 1;
    write_text(dir / "manifest.ocdbt", ocdbt::encode_manifest(manifest));
    write_text(dir / "d/n", nodes);
    write_text(dir / "d/v0", values);
    std::vector<Leaf> leaves(1);
    leaves[0].name = "w";
    TreeSpec tree;
    tree.leaves = &leaves;
    tree.extras = {};
    tree.custom_metadata["from"] = "item";
    std::string text;
    write_tree_metadata(tree, [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
    write_text(dir / "_METADATA", text);
  }
  std::unique_ptr<Checkpoint> open() const { return orbax_format().open(dir.path()); }
  Error error() const {
    return catch_error([&] { open(); });
  }

  TempDir dir;
};

std::string packed_array(const Shape& shape, const Shape& chunk, const Shape& inner) {
  return zarr::write_array(zarr::make_array(DType::u8, shape, chunk, inner, Encoding{}));
}

std::string le32(std::uint32_t value) {
  std::array<std::byte, 4> bytes{};
  store_le(bytes.data(), value);
  return std::string(as_text(bytes));
}

std::string le64(std::uint64_t value) {
  std::array<std::byte, 8> bytes{};
  store_le(bytes.data(), value);
  return std::string(as_text(bytes));
}

std::string sealed(const std::string& bytes) { return bytes + le32(crc32c(as_bytes(bytes))); }

std::string read_first(const Checkpoint& opened) {
  const Shape chunk = opened.catalog().grid_of(0).chunk;
  Shape first = chunk;
  for (std::size_t d = 0; d < first.rank(); ++d) first[d] = 0;
  std::string out(packed_bytes(opened.catalog().tensors[0].dtype, chunk.numel()), '?');
  std::vector<std::byte> scratch(row_major_scratch_bytes(opened, 0));
  read_row_major(opened, 0, first, std::as_writable_bytes(std::span(out)), scratch);
  return out;
}

TEST(OrbaxHandMade, SeveralChunksInTheIndexItselfAreRead) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/c/0", sealed("abcd"));
    writer.add_inline("w/c/1", sealed("efgh"));
    writer.add_inline("w/zarr.json", packed_array({8}, {4}, {4}));
  });
  const auto opened = made.open();
  EXPECT_EQ(read_first(*opened), "abcd");
  std::string second(4, '?');
  opened->open_piece(0, {1}, PieceSteps::whole_cells, {})
      ->read(std::as_writable_bytes(std::span(second)));
  EXPECT_EQ(second, "efgh");
}

TEST(OrbaxHandMade, ADamagedChunkInTheIndexIsNamedWithTheManifest) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/c/0", "abcdXXXX");
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  const auto opened = made.open();
  const Error error = catch_error([&] { read_first(*opened); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), made.dir / "manifest.ocdbt");
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.range(), (ByteRange{0, 8}));
  EXPECT_EQ(error.total_bytes(), 8U);
}

// TensorStore omits inner chunks beyond the array's end, so such a chunk is shorter.
TEST(OrbaxHandMade, AChunkAtTheEdgeMayLackItsInnerChunksOutsideOfTheArray) {
  const std::string cell = sealed("ab");
  const std::string index =
      sealed(le64(0) + le64(cell.size()) + le64(UINT64_MAX) + le64(UINT64_MAX));
  const std::string chunk = cell + index;
  const auto with = [&](const std::string& stored, std::uint64_t extent) {
    return HandMade(
        [&](ocdbt::TreeWriter& writer) {
          writer.add_range("w/c/0", {0, 0, stored.size()});
          writer.add_inline("w/zarr.json", packed_array({extent}, {4}, {2}));
        },
        stored);
  };
  EXPECT_EQ(read_first(*with(chunk, 2).open()), std::string("ab\0\0", 4));
  EXPECT_EQ(with(chunk, 3).error().code(), ErrorCode::corrupt);  // it overlaps the second
  EXPECT_EQ(with(chunk.substr(1), 2).error().code(), ErrorCode::corrupt);
  EXPECT_EQ(with(chunk + std::string(7, 'x'), 2).error().code(), ErrorCode::corrupt);
}

TEST(OrbaxHandMade, ArrayMetadataMayLieInADataFileButNotPassItsEndOrTheLimit) {
  const std::string text = packed_array({4}, {4}, {4});
  const auto with = [&](std::uint64_t length) {
    return [length](ocdbt::TreeWriter& writer) {
      writer.add_inline("w/c/0", sealed("abcd"));
      writer.add_range("w/zarr.json", {0, 3, length});
    };
  };
  EXPECT_EQ(read_first(*HandMade(with(text.size()), "..." + text).open()), "abcd");
  const HandMade cut(with(text.size()), "..." + text.substr(1));
  EXPECT_EQ(cut.error().code(), ErrorCode::corrupt);
  EXPECT_EQ(cut.error().file(), cut.dir / "d/v0");
  EXPECT_EQ(cut.error().range(), (ByteRange{3, 3 + text.size()}));
  EXPECT_NE(cut.error().sentence().find("array metadata"), std::string::npos);
  const std::string padded = "..." + text + std::string(ocdbt::kMaxInlineBytes, ' ');
  EXPECT_EQ(read_first(*HandMade(with(ocdbt::kMaxInlineBytes), padded).open()), "abcd");
  const HandMade large(with(ocdbt::kMaxInlineBytes + 1), padded);
  EXPECT_EQ(large.error().code(), ErrorCode::limit);
  EXPECT_EQ(large.error().file(), large.dir / "d/v0");
}

std::string turned_text(const std::string& order) {
  return R"({"chunk_grid":{"configuration":{"chunk_shape":[2,3,4]},"name":"regular"},)"
         R"("chunk_key_encoding":{"name":"default"},"codecs":[{"configuration":{"order":)" +
         order +
         R"(},"name":"transpose"},{"name":"bytes"}],"data_type":"uint8","fill_value":0,)"
         R"("node_type":"array","shape":[2,3,4],"zarr_format":3})";
}

// Source: the zarr3 specification, transpose: axis i of the stored chunk is axis order[i] of the
// array.
TEST(OrbaxHandMade, ChunksStoredInAnyOrderOfTheirAxesComeBack) {
  std::string values;
  for (char c = 'A'; c < 'A' + 24; ++c) values += c;
  const Shape extent{2, 3, 4};
  for (const std::vector<std::size_t>& order : std::vector<std::vector<std::size_t>>{
           {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    std::string stored;
    std::vector<std::size_t> at(3);
    for (at[order[0]] = 0; at[order[0]] < extent[order[0]]; ++at[order[0]]) {
      for (at[order[1]] = 0; at[order[1]] < extent[order[1]]; ++at[order[1]]) {
        for (at[order[2]] = 0; at[order[2]] < extent[order[2]]; ++at[order[2]]) {
          stored += values[(at[0] * 3 + at[1]) * 4 + at[2]];
        }
      }
    }
    const std::string name = "[" + std::to_string(order[0]) + "," + std::to_string(order[1]) + "," +
                             std::to_string(order[2]) + "]";
    const HandMade made([&](ocdbt::TreeWriter& writer) {
      writer.add_inline("w/c/0/0/0", stored);
      writer.add_inline("w/zarr.json", turned_text(name));
    });
    const auto opened = made.open();
    EXPECT_EQ(read_first(*opened), values) << name;
    // The caller provides memory for reordering a chunk.
    EXPECT_EQ(row_major_scratch_bytes(*opened, 0), name == "[0,1,2]" ? 0U : 24U);
  }
}

TEST(OrbaxHandMade, WhatIsNotSupportedOrMakesNoSenseIsNamed) {
  const HandMade older([](ocdbt::TreeWriter& writer) { writer.add_inline("w/.zarray", "{}"); });
  EXPECT_EQ(older.error().code(), ErrorCode::corrupt);
  EXPECT_EQ(older.error().tensor(), "w");
  const HandMade unlisted([](ocdbt::TreeWriter& writer) {
    writer.add_inline("a/b/zarr.json", packed_array({4}, {4}, {4}));
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  EXPECT_EQ(unlisted.error().code(), ErrorCode::corrupt);
  EXPECT_EQ(unlisted.error().tensor(), "a/b");
  const std::uint64_t many = std::uint64_t{1} << 40;
  const HandMade countless([&](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/zarr.json", packed_array({many, many}, {1, 1}, {1, 1}));
  });
  EXPECT_EQ(countless.error().code(), ErrorCode::corrupt);
  EXPECT_EQ(countless.error().tensor(), "w");
  const HandMade flat([&](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/zarr.json", packed_array({many, many, 1}, {1, 1, 1}, {1, 1, 1}));
  });
  EXPECT_EQ(flat.error().sentence(), "an array of more than 2^64 chunks");
  const HandMade alone([](ocdbt::TreeWriter& writer) {
    writer.add_inline("v/c/0", sealed("abcd"));
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  EXPECT_EQ(alone.error().sentence(), "the index has an array that _METADATA does not list");
  EXPECT_EQ(alone.error().tensor(), "v");
}

// msgpack is an older Orbax's.
TEST(OrbaxHandMade, ADatabaseNextToAnOlderFileIsReadWithoutATree) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/c/0", sealed("abcd"));
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  std::filesystem::remove(made.dir / "_METADATA");
  write_text(made.dir / "checkpoint", "x");
  EXPECT_EQ(made.open()->catalog().tensors.at(0).name, "w");
  EXPECT_EQ(read_first(*made.open()), "abcd");
}

TEST(OrbaxHandMade, CodecsAreToldInTheirOrder) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    std::string text = packed_array({4}, {4}, {4});
    const std::string crc = R"({"name":"crc32c"})";
    const std::string gzip = R"({"name":"gzip","configuration":{"level":1}})";
    text.replace(text.find(crc), crc.size(), crc + "," + gzip);
    writer.add_inline("w/zarr.json", text);
  });
  EXPECT_EQ(made.open()->catalog().codecs_of(0),
            (std::vector<std::string>{"bytes", "crc32c", "gzip"}));
}

// Keys in byte order. Names have slashes, and keys of one array are between those of another.
TEST(OrbaxHandMade, NamesMayHaveSlashesAndBeTheBeginningOfOthers) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    const std::string two = packed_array({4, 1}, {2, 1}, {2, 1});
    writer.add_inline("w/c/0/0", sealed("ab"));
    writer.add_inline("w/c/0/c/0", sealed("xy"));
    writer.add_inline("w/c/0/zarr.json", packed_array({2}, {2}, {2}));
    writer.add_inline("w/c/1/0", sealed("cd"));
    writer.add_inline("w/c/c/0", sealed("uv"));
    writer.add_inline("w/c/zarr.json", packed_array({2}, {2}, {2}));
    writer.add_inline("w/zarr.json", two);
  });
  std::vector<Leaf> leaves(3);
  leaves[0].name = "w";
  leaves[1].name = "w/c";
  leaves[2].name = "w/c/0";
  TreeSpec tree;
  tree.leaves = &leaves;
  std::string text;
  write_tree_metadata(tree, [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  write_text(made.dir / "_METADATA", text);
  const auto opened = made.open();
  const auto read = [&](std::uint32_t leaf, const Shape& place) {
    std::string out(2, '?');
    opened->open_piece(leaf, place, PieceSteps::whole_cells, {})
        ->read(std::as_writable_bytes(std::span(out)));
    return out;
  };
  ASSERT_EQ(opened->catalog().tensors.size(), 3U);
  EXPECT_EQ(read(0, {0, 0}), "ab");
  EXPECT_EQ(read(0, {1, 0}), "cd");
  EXPECT_EQ(read(1, {0}), "uv");
  EXPECT_EQ(read(2, {0}), "xy");
}

TEST(OrbaxHandMade, PlacesOfPiecesAreToldAndWhatWouldTellOfOthers) {
  const HandMade made(
      [](ocdbt::TreeWriter& writer) {
        writer.add_range("w/c/0", {0, 3, 8});
        writer.add_inline("w/c/1", sealed("efgh"));
        writer.add_inline("w/c/3", sealed("ijkl"));
        writer.add_inline("w/zarr.json", packed_array({16}, {4}, {4}));
      },
      "..." + sealed("abcd"));
  const auto opened = made.open();
  EXPECT_EQ(opened->find_piece(0, {0})->file, made.dir / "d/v0");
  EXPECT_EQ(opened->find_piece(0, {0})->range, (ByteRange{3, 11}));
  EXPECT_EQ(opened->find_piece(0, {1})->file, made.dir / "manifest.ocdbt");
  EXPECT_EQ(opened->find_piece(0, {1})->range, (ByteRange{0, 8}));
  EXPECT_EQ(opened->find_piece(0, {3})->range, (ByteRange{0, 8})) << "that of its value";
  EXPECT_EQ(opened->find_piece(0, {2})->file, made.dir / "manifest.ocdbt");
  EXPECT_FALSE(opened->find_piece(0, {2})->range.has_value());
  EXPECT_EQ(opened->find_piece(0, {9})->file, made.dir / "manifest.ocdbt");
  EXPECT_FALSE(opened->find_piece(0, {9})->range.has_value());
}

// A tree can allow that chunks of an array are missing, but no chunk is outside of the array.
TEST(OrbaxHandMade, AChunkOutsideOfTheArrayIsNotAFillValue) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/c/0", sealed("abcd"));
    writer.add_inline("w/zarr.json", packed_array({8}, {4}, {4}));
  });
  std::string tree = read_text(made.dir / "_METADATA");
  const std::string stored = R"("store_array_data_equal_to_fill_value":true)";
  tree.replace(tree.find(stored) + stored.size() - 4, 4, "false");
  write_text(made.dir / "_METADATA", tree);
  const auto opened = made.open();
  std::string second(4, '?');
  opened->open_piece(0, {1}, PieceSteps::whole_cells, {})
      ->read(std::as_writable_bytes(std::span(second)));
  EXPECT_EQ(second, std::string(4, '\0'));
  const Error error = catch_error([&] { opened->open_piece(0, {2}, PieceSteps::whole_cells, {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "chunk \"w/c/2\" is missing");
  EXPECT_EQ(error.tensor(), "w");
}

// Source: zarr-developers/zarr-python src/zarr/core/common.py.
TEST(OrbaxHandMade, MetadataOfGroupsArePassedOver) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    for (const char* name : {".zattrs", ".zgroup", ".zmetadata"}) writer.add_inline(name, "{}");
    writer.add_inline("w/.zattrs", "{}");
    writer.add_inline("w/c/0", sealed("abcd"));
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  EXPECT_EQ(read_first(*made.open()), "abcd");
}

TEST(OrbaxHandMade, ABoolIsZeroOrOne) {
  const auto read = [](const std::string& values) {
    const HandMade made([&](ocdbt::TreeWriter& writer) {
      writer.add_inline("w/c/0", sealed(values));
      writer.add_inline("w/zarr.json", zarr::write_array(zarr::make_array(DType::boolean, {4}, {4},
                                                                          {4}, Encoding{})));
    });
    return read_first(*made.open());
  };
  const std::string bools("\0\1\1\0", 4);
  EXPECT_EQ(read(bools), bools);
  const Error error = catch_error([&] { read(std::string("\0\1\2\0", 4)); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "w");
}

TEST(OrbaxHandMade, WhoWroteItIsToldWhereItIsSaid) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  const auto writer = [&](const std::string& step) {
    write_text(made.dir / "_CHECKPOINT_METADATA", step);
    return made.open()->catalog().writer;
  };
  EXPECT_EQ(made.open()->catalog().writer, "");
  EXPECT_EQ(writer("{}"), "");
  EXPECT_EQ(writer(R"({"item_handlers":"a.b.PyTree"})"), "Orbax (PyTree)");
  EXPECT_EQ(writer(R"({"item_handlers":{"items":"a.b.PyTree"}})"), "Orbax (PyTree)");
  EXPECT_EQ(writer(R"({"item_handlers":{}})"), "");
  EXPECT_EQ(writer(R"({"item_handlers":[3]})"), "");
  std::string tree = read_text(made.dir / "_METADATA");
  const std::string from = R"("from":"item")";
  tree.replace(tree.find(from), from.size(), R"("hfshard":{"version":3})");
  write_text(made.dir / "_METADATA", tree);
  EXPECT_EQ(writer("{}"), "");
}

TEST(OrbaxHandMade, TheItemsOwnMetadataGoesBeforeTheSteps) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  write_text(made.dir / "_CHECKPOINT_METADATA", R"({"custom_metadata":{"from":"step"}})");
  EXPECT_EQ(made.open()->catalog().attributes.at("from").as_string(), "item");
}

TEST(OrbaxHandMade, ATreeThatIsItsOwnStepHasNoItem) {
  const HandMade made([](ocdbt::TreeWriter& writer) {
    writer.add_inline("w/zarr.json", packed_array({4}, {4}, {4}));
  });
  write_text(made.dir / "_CHECKPOINT_METADATA", R"({"item_handlers":"a.b.PyTree"})");
  EXPECT_EQ(made.open()->catalog().structure->item, "");
}

}  // namespace
}  // namespace hfshard::format::orbax
