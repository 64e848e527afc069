#include "service/describe.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "format/formats.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"
#include "unit/service/named_checkpoint.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(Describe, NamesTheInnerChunksOfArraysThatHaveThem) {
  Catalog catalog;
  for (const char* name : {"plain", "sharded"}) {
    TensorInfo& array = catalog.tensors.emplace_back();
    array.name = name;
    array.dtype = DType::u8;
    array.shape = {8, 6};
    array.file = 3;
    array.begin_bytes = 100;
    array.cut = static_cast<std::uint32_t>(catalog.cuts.size());
    catalog.cuts.emplace_back().grid = {{4, 6}, {4, 6}, {4, 6}};
  }
  catalog.cuts[1].grid.inner = {2, 3};
  const CheckpointInfo info = describe(catalog, "checkpoint", "");
  ASSERT_EQ(info.arrays.size(), 2U);
  EXPECT_FALSE(info.arrays[0].inner);
  EXPECT_EQ(info.arrays[1].inner, (Shape{2, 3}));
  EXPECT_EQ(info.arrays[1].chunk, (Shape{4, 6}));
  EXPECT_EQ(info.arrays[1].chunks, 2U);
  EXPECT_EQ(info.chunks, 4U);
  for (const StoredArray& array : info.arrays) {
    EXPECT_EQ(array.dtype, DType::u8);
    EXPECT_EQ(array.shape, (Shape{8, 6}));
    EXPECT_EQ(array.file, 3U);
    EXPECT_EQ(array.begin_bytes, 100U);
  }
}

// Returns the keys of one member of a checkpoint's metadata.
std::vector<std::string> metadata_keys(const CheckpointInfo& info, const std::string& member) {
  const Json metadata = parse_json(info.metadata, "metadata");
  std::vector<std::string> out;
  if (const Json* found = metadata.find(member)) {
    for (const auto& [key, value] : found->as_object()) out.push_back(key);
  }
  return out;
}

TEST(Describe, AFilterSelectsArraysObjectsAndNodes) {
  using Selected = std::vector<std::string>;
  Catalog catalog;
  auto structure = std::make_shared<TreeStructure>();
  for (const char* name : {"a.x", "b.x"}) {
    TensorInfo& array = catalog.tensors.emplace_back();
    array.name = name;
    array.dtype = DType::bf16;
    array.shape = {3};
    structure->entries.emplace_back().add_key(name, false);
  }
  for (const char* name : {"a.text", "b.text"}) {
    TreeEntry& entry = structure->entries.emplace_back();
    entry.kind = TreeEntry::Kind::text;
    entry.add_key(name, false);
    catalog.objects.emplace_back().name = name;
    catalog.unreadable.push_back({name, "why"});
  }
  catalog.structure = structure;
  catalog.attributes =
      parse_json(R"({"objects": {"a.text": "int", "b.text": "int"}, "more": {"b": 1}})", "");
  const CheckpointInfo all = describe(catalog, "checkpoint", "");
  EXPECT_EQ(all.elements, 6U);
  EXPECT_EQ(all.unreadable.size(), 2U);
  EXPECT_EQ(metadata_keys(all, "objects"), (Selected{"a.text", "b.text"}));
  EXPECT_EQ(metadata_keys(all, "tree nodes"), (Selected{"a.text", "b.text"}));
  const CheckpointInfo part = describe(catalog, "checkpoint", "a.*");
  ASSERT_EQ(part.arrays.size(), 1U);
  EXPECT_EQ(part.arrays[0].name, "a.x");
  EXPECT_EQ(part.elements, 3U);
  EXPECT_EQ(part.parameters, 3U);
  EXPECT_EQ(part.size_bytes, 6U);
  ASSERT_EQ(part.unreadable.size(), 1U);
  EXPECT_EQ(part.unreadable[0].name, "a.text");
  EXPECT_EQ(metadata_keys(part, "objects"), Selected{"a.text"});
  EXPECT_EQ(metadata_keys(part, "tree nodes"), Selected{"a.text"});
  EXPECT_EQ(metadata_keys(part, "more"), Selected{"b"});
  catalog.writer = "hfshard 0.2.0";
  EXPECT_EQ(metadata_keys(describe(catalog, "checkpoint", ""), "tree nodes"), Selected{});
}

TEST(Describe, AFilterSelectsNodesWithTypes) {
  Catalog catalog;
  auto structure = std::make_shared<TreeStructure>();
  structure->entries.emplace_back().add_key("w", false);
  const std::string pair = R"({"category":"custom","clazz":"tuple","entries":[null]})";
  structure->rich_types = R"({"a":)" + pair + R"(,"b":)" + pair + "}";
  catalog.structure = structure;
  using Nodes = std::vector<std::string>;
  EXPECT_EQ(metadata_keys(describe(catalog, "checkpoint", ""), "tree nodes"), (Nodes{"a", "b"}));
  EXPECT_EQ(metadata_keys(describe(catalog, "checkpoint", "a"), "tree nodes"), Nodes{"a"});
}

TEST(Describe, ATreeOfArraysOnlyHasNoNodesToName) {
  Catalog catalog;
  auto structure = std::make_shared<TreeStructure>();
  structure->entries.emplace_back().add_key("w", false);
  catalog.structure = structure;
  const CheckpointInfo info = describe(catalog, "checkpoint", "");
  EXPECT_EQ(parse_json(info.metadata, "metadata").find("tree nodes"), nullptr);
}

TEST(Describe, ArraysOfOptimizersAndIntegersAreNotParameters) {
  Catalog catalog;
  const auto add = [&](const char* name, DType dtype, const Shape& shape) {
    TensorInfo& array = catalog.tensors.emplace_back();
    array.name = name;
    array.dtype = dtype;
    array.shape = shape;
  };
  add("opt_state.mu.w", DType::f32, {5});
  add("optimizer.state.w.exp_avg", DType::f32, {7});
  add("params.w", DType::f32, {11});
  add("step", DType::i32, {1});
  const CheckpointInfo info = describe(catalog, "checkpoint", "");
  EXPECT_EQ(info.elements, 24U);
  EXPECT_EQ(info.optimizer_elements, 12U);
  EXPECT_EQ(info.parameters, 11U);
}

TEST(Describe, FilesNotesAndTheWriterAreThoseOfTheCatalog) {
  const TempDir dir;
  Catalog catalog;
  catalog.wording.kind = "huggingface";
  catalog.notes = {"ignored x"};
  catalog.files.emplace_back().name = "one";
  catalog.files.back().size_bytes = 7;
  catalog.config_text = R"({"model_type": "qwen3", "architectures": ["A"], "hidden_size": 3})";
  const CheckpointInfo info = describe(catalog, "given", "x");
  EXPECT_EQ(info.path, "given");
  EXPECT_EQ(info.wording.kind, "huggingface");
  EXPECT_EQ(info.notes, std::vector<std::string>{"ignored x"});
  ASSERT_EQ(info.files.size(), 1U);
  EXPECT_EQ(info.files[0].name, "one");
  EXPECT_EQ(info.files[0].size_bytes, 7U);
  EXPECT_EQ(info.writer, "");
  EXPECT_EQ(info.metadata, R"({"architectures":["A"],"family":"qwen3","model_type":"qwen3"})");
  catalog.attributes = parse_json(R"({"format": "pt"})", "");
  EXPECT_EQ(describe(catalog, "given").metadata,
            R"({"architectures":["A"],"family":"qwen3","format":"pt","model_type":"qwen3"})");
}

// The record next to the files has the name of their writer. A writer that the files name is kept.
TEST(Describe, TheRecordNamesTheWriterOfAModelsFiles) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  Reporter quiet;
  hfshard::convert(source, options, to_output(dir / "out"), quiet);
  Catalog catalog = open_checkpoint(dir / "out")->catalog();
  catalog.writer.clear();
  EXPECT_TRUE(describe(catalog, "out").writer.starts_with("hfshard "));
  catalog.writer = "another";
  EXPECT_EQ(describe(catalog, "out").writer, "another");
  catalog.writer.clear();
  catalog.directory = StorePath();
  EXPECT_EQ(describe(catalog, "out").writer, "");
}

// A checkpoint whose pieces' files are named for their places. One piece is missing.
class NumberedPieces final : public CatalogOnly {
 public:
  using CatalogOnly::CatalogOnly;
  std::optional<PiecePlace> find_piece(std::uint32_t /*array*/, const Shape& piece) const override {
    if (piece == Shape{1, 0}) return std::nullopt;
    return PiecePlace{fmt::format("root/d/{}-{}", piece[0], piece[1]), ByteRange{7, 19}};
  }
};

TEST(AddPieces, EachChunkHasItsPlaceAndAMissingOneNoFile) {
  Catalog catalog = catalog_named({"w"});
  catalog.tensors[0].dtype = DType::bf16;
  catalog.tensors[0].shape = {4, 6};
  catalog.tensors[0].cut = 0;
  Cut& cut = catalog.cuts.emplace_back();
  cut.grid = {{2, 3}, {2, 3}, {2, 3}};
  cut.codecs = {"bytes", "zstd"};
  const NumberedPieces opened(std::move(catalog));
  CheckpointInfo info = describe(opened.catalog(), "root");
  add_pieces(opened, "root", info);
  EXPECT_EQ(info.size_bytes, 48U);
  ASSERT_EQ(info.arrays.size(), 1U);
  EXPECT_EQ(info.arrays[0].size_bytes, 48U);
  EXPECT_EQ(info.arrays[0].codecs, (std::vector<std::string>{"bytes", "zstd"}));
  std::vector<std::string> files;
  std::vector<Shape> places;
  for (const StoredPiece& piece : info.arrays[0].pieces) {
    files.push_back(piece.file);
    places.push_back(piece.place);
    EXPECT_EQ(piece.range.has_value(), !piece.file.empty());
    EXPECT_EQ(piece.range.value_or(ByteRange{7, 19}), (ByteRange{7, 19}));
  }
  EXPECT_EQ(files, (std::vector<std::string>{"d/0-0", "d/0-1", "", "d/1-1"}));
  EXPECT_EQ(places, (std::vector<Shape>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

// Such metadata aren't the checkpoint's own objects.
TEST(Describe, AFilterDoesntSelectMetadataThatArentObjects) {
  Catalog catalog = catalog_named({"w"});
  catalog.attributes = parse_json(R"({"objects": {"a": 1}})", "");
  EXPECT_EQ(metadata_keys(describe(catalog, "checkpoint", "w"), "objects"),
            std::vector<std::string>{"a"});
}

TEST(AddPieces, WholeTensorsHaveTheirFileAndRange) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("b", DType::u8, {4})
      .tensor("a", DType::u8, {2})
      .write(dir / "model.safetensors");
  const auto opened = open_checkpoint(dir.path());
  CheckpointInfo info = describe(opened->catalog(), dir.path());
  add_pieces(*opened, dir.path(), info);
  ASSERT_EQ(info.arrays.size(), 2U);
  for (const StoredArray& array : info.arrays) {
    ASSERT_EQ(array.pieces.size(), 1U) << array.name;
    EXPECT_EQ(array.pieces[0].file, "model.safetensors");
    EXPECT_EQ(array.pieces[0].place, Shape{0});
    ASSERT_TRUE(array.pieces[0].range);
    EXPECT_EQ(array.pieces[0].range->begin, array.begin_bytes);
    EXPECT_EQ(array.pieces[0].range->end, array.begin_bytes + (array.name == "a" ? 2U : 4U));
  }
}

}  // namespace
}  // namespace hfshard
