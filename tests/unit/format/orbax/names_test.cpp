// Names that decide which tree of a step is meant, and which form its arrays have.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/json.h"
#include "catalog/tree_structure.h"
#include "format/orbax/metadata.h"
#include "format/orbax/ocdbt/writer.h"
#include "format/orbax/open.h"
#include "format/orbax/orbax.h"
#include "format/orbax/shardings.h"
#include "format/orbax/zarr/array.h"
#include "support/catch_error.h"
#include "support/read_piece.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/ocdbt_objects.h"

namespace hfshard::format::orbax {
namespace {

void touch_item(const std::string& item) { write_text(item + "/manifest.ocdbt", ""); }

TEST(OrbaxNames, TheUsualItemIsTheFirstThatLoadersKnow) {
  Choice usual;
  usual.usual_items = true;
  const TempDir dir;
  const std::vector<std::string> order{"pytree", "items",        "state",       "default",
                                       "params", "model_params", "train_state", "model"};
  touch_item(dir / "7/a_first");
  touch_item(dir / "7/z_last");
  for (const std::string& name : order) touch_item(dir / ("7/" + name));
  for (const std::string& name : order) {
    EXPECT_EQ(locate(dir.path(), usual).item, dir / ("7/" + name));
    std::filesystem::remove_all(dir / ("7/" + name));
  }
  EXPECT_EQ(locate(dir.path(), usual).item, dir / "7/a_first");
}

TEST(OrbaxNames, ItemsOfATrainerAreNotTheModel) {
  Choice alone;
  alone.model_alone = true;
  const TempDir dir;
  for (const char* name :
       {"accumulated_grads", "accumulated_metrics", "optimizer", "optimizer_state", "policy"})
    touch_item(dir / ("7/" + std::string(name)));
  EXPECT_EQ(locate(dir.path(), alone).item, dir / "7/policy");
  EXPECT_EQ(catch_error([&] { locate(dir.path()); }).code(), ErrorCode::bad_input);
}

std::string u8_text(const Shape& shape) {
  return zarr::write_array(zarr::make_array(DType::u8, shape, shape, shape, Encoding{false, 0}));
}

std::string tree_of(const std::vector<std::string>& names, const std::string& members) {
  std::string entries;
  for (const std::string& name : names) {
    entries += (entries.empty() ? "\"" : ",\"") + name + R"(":{"key_metadata":[{"key":")" + name +
               R"(","key_type":2}],"value_metadata":)" +
               R"({"value_type":"np.ndarray","skip_deserialize":false}})";
  }
  return R"({"tree_metadata":{)" + entries + "}" + members + "}";
}

// Writes a database with these keys, whose values are in the index.
void write_keys(const TempDir& dir, const std::vector<std::pair<std::string, std::string>>& keys) {
  std::string nodes;
  ocdbt::TreeWriter writer(
      "d/n", [](std::uint32_t) { return "d/v"; },
      [&](std::span<const std::byte> bytes) { nodes += as_text(bytes); });
  for (const auto& [key, value] : keys) writer.add_inline(key, value);
  ocdbt::Manifest manifest = ocdbt::example_manifest("d/n");
  manifest.versions[0] = writer.finish();
  write_text(dir / "manifest.ocdbt", ocdbt::encode_manifest(manifest));
  write_text(dir / "d/n", nodes);
}

// A tree can say that its arrays are in directories, next to a database of another save.
TEST(OrbaxNames, TheTreeDecidesBetweenDirectoriesAndADatabase) {
  const TempDir dir;
  write_keys(dir, {{"w/c/0", "data"}, {"w/zarr.json", u8_text({4})}});
  write_text(dir / "w/zarr.json", u8_text({4}));
  write_text(dir / "w/c/0", "file");
  const auto read = [&](const std::string& members) {
    write_text(dir / "_METADATA", tree_of({"w"}, members));
    return read_piece(*orbax_format().open(dir.path()), 0, 4);
  };
  EXPECT_EQ(read(""), "data");
  EXPECT_EQ(read(R"(,"use_ocdbt":null)"), "data");
  EXPECT_EQ(read(R"(,"use_ocdbt":true)"), "data");
  EXPECT_EQ(read(R"(,"use_ocdbt":false)"), "file");
  std::filesystem::remove(dir / "manifest.ocdbt");
  EXPECT_EQ(read(""), "file");
  const Error error = catch_error([&] { read(R"(,"use_ocdbt":true)"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "manifest.ocdbt");
}

TEST(OrbaxNames, AnArraysNameCanEndWithTheSlashOfItsKeys) {
  const TempDir dir;
  write_keys(dir, {{"v/c/0", "vvvv"},
                   {"v/zarr.json", u8_text({4})},
                   {"w/c/0", "data"},
                   {"w/zarr.json", u8_text({4})}});
  write_text(dir / "_METADATA", tree_of({"v", "w/"}, ""));
  const auto opened = orbax_format().open(dir.path());
  ASSERT_EQ(opened->catalog().tensors.size(), 2U);
  EXPECT_EQ(opened->catalog().tensors[1].name, "w/");
  EXPECT_EQ(read_piece(*opened, 1, 4), "data");
  EXPECT_EQ(read_piece(*opened, 0, 4), "vvvv");
  EXPECT_EQ(opened->find_piece(1, {0})->file, dir / "manifest.ocdbt");
  // It can be left out under this name.
  std::string odd = u8_text({4});
  odd.replace(odd.find("uint8"), 5, "int4x");
  write_keys(
      dir,
      {{"v/c/0", "vvvv"}, {"v/zarr.json", u8_text({4})}, {"w/c/0", "data"}, {"w/zarr.json", odd}});
  const Error error = catch_error([&] { orbax_format().open(dir.path()); });
  EXPECT_EQ(error.sentence(), "the data type \"int4x\" isn't supported");
  Choice choice;
  choice.without = {"w/"};
  const auto without = orbax_format().open_one(dir.path(), choice);
  ASSERT_EQ(without->catalog().tensors.size(), 1U);
  EXPECT_EQ(read_piece(*without, 0, 4), "vvvv");
  ASSERT_EQ(without->catalog().unreadable.size(), 1U);
  EXPECT_EQ(without->catalog().unreadable[0].name, "w/");
  EXPECT_EQ(without->catalog().unreadable[0].why, "the data type \"int4x\" isn't supported");
}

TEST(OrbaxNames, ALeafWithoutMetadataIsMissingInTheTreesVersion) {
  const TempDir dir;
  const auto refused = [&](const std::string& members) {
    write_text(dir / "_METADATA", tree_of({"w"}, R"(,"use_ocdbt":false)" + members));
    return catch_error([&] { orbax_format().open(dir.path()); });
  };
  EXPECT_EQ(refused("").sentence(), "a leaf of _METADATA has no zarr.json or .zarray");
  EXPECT_EQ(refused("").file(), dir / "w/.zarray");
  EXPECT_EQ(refused(R"(,"use_zarr3":true)").file(), dir / "w/zarr.json");
}

TEST(OrbaxNames, TheWriterIsThatOfTheItemOrHfshard) {
  const TempDir dir;
  const std::string item = dir / "7/state";
  write_text(item + "/_METADATA", tree_of({}, ""));
  write_text(dir / "7/other/_METADATA", tree_of({}, ""));
  Choice choice;
  choice.items = "state";
  const auto writer = [&](const std::string& step) {
    write_text(dir / "7/_CHECKPOINT_METADATA", step);
    return orbax_format().open_one(dir / "7", choice)->catalog().writer;
  };
  EXPECT_EQ(writer(R"({"item_handlers":{"other":"b.Other","state":"a.b.State"}})"),
            "Orbax (State)");
  EXPECT_EQ(writer(R"({"item_handlers":{"data":"b.Data","other":"b.Other"}})"), "");
  EXPECT_EQ(writer(R"({"item_handlers":{"state":3}})"), "");
  EXPECT_EQ(writer(R"({"item_handlers":{"state":"State"}})"), "Orbax (State)");
  EXPECT_EQ(writer(R"({"custom_metadata":{"hfshard":{"version":"1.2"}},)"
                   R"("item_handlers":{"state":"a.State"}})"),
            "hfshard 1.2");
  write_text(item + "/_METADATA",
             tree_of({}, R"(,"custom_metadata":{"hfshard":{"version":"1.3"}})"));
  EXPECT_EQ(writer("{}"), "hfshard 1.3");
}

TEST(OrbaxNames, OpeningATreeKeepsAllThatItSays) {
  const TempDir dir;
  const std::string item = dir / "7/items";
  write_text(item + "/_METADATA",
             R"({"tree_metadata":{"a":{"key_metadata":[{"key":"w","key_type":2}],"value_metadata":)"
             R"({"value_type":"jax.Array","skip_deserialize":false}}},"use_ocdbt":false,)"
             R"("use_zarr3":true,"value_metadata_tree":"{\"w\":null}"})");
  write_text(item + "/w/zarr.json", u8_text({4}));
  write_text(item + "/w/c/0", "file");
  write_text(item + "/_strings.json", R"({"note":"hi"})");
  write_text(item + "/_sharding",
             R"({"dw==":"{\"sharding_type\":\"NamedSharding\",\"axis_names\":[\"x\"],)"
             R"(\"partition_spec\":[\"x\"]}"})");
  write_text(dir / "7/_CHECKPOINT_METADATA", R"({"metrics":{"loss":1}})");
  const auto opened = orbax_format().open(dir / "7");
  const Catalog& catalog = opened->catalog();
  ASSERT_TRUE(catalog.structure);
  EXPECT_EQ(catalog.structure->rich_types, R"({"w":null})");
  EXPECT_EQ(dump_json(catalog.structure->step), R"({"metrics":{"loss":1}})");
  EXPECT_EQ(catalog.structure->texts.at("note"), Json("hi"));
  EXPECT_EQ(catalog.structure->item, "items");
  EXPECT_EQ(catalog.structure->mesh_axes, std::vector<std::string>{"x"});
  ASSERT_EQ(catalog.structure->shardings.size(), 1U);
  EXPECT_EQ(catalog.structure->entries.at(0).sharding, 0U);
  ASSERT_EQ(catalog.shardings.size(), 1U);
  EXPECT_EQ(catalog.shardings[0].mesh_axes, (std::vector<std::vector<std::string>>{{"x"}}));
  EXPECT_EQ(catalog.notes, std::vector<std::string>());
}

// Other kinds of shardings have no axes, whatever else they have.
TEST(OrbaxNames, OnlyANamedShardingHasAxes) {
  Catalog catalog;
  catalog.tensors.resize(1);
  catalog.tensors[0].name = "w";
  catalog.tensors[0].shape = {8};
  const auto count = [&](const std::string& type) {
    return parse_shardings(
               R"({"dw==":"{\"sharding_type\":\")" + type + R"(\",\"partition_spec\":[\"x\"]}"})",
               "f", catalog)
        .size();
  };
  EXPECT_EQ(count("NamedSharding"), 1U);
  EXPECT_EQ(count("PositionalSharding"), 0U);
}

TEST(OrbaxNames, AChunkThatIsThereIsWholeEvenIfOthersMayBeMissing) {
  const TempDir dir;
  write_text(dir / "_METADATA", tree_of({"w"}, R"(,"use_ocdbt":false)"));
  write_text(dir / "w/.zarray",
             R"({"chunks":[4],"compressor":null,"dtype":"|u1","fill_value":0,"filters":null,)"
             R"("order":"F","shape":[8],"zarr_format":2})");
  write_text(dir / "w/0", "abcd");
  const auto opened = orbax_format().open(dir.path());
  EXPECT_EQ(read_piece(*opened, 0, 4), "abcd");
  EXPECT_EQ(opened->catalog().codecs_of(0), std::vector<std::string>{"bytes"})
      << "one axis has one order";
  EXPECT_EQ(opened->data_files(), 1U);
  for (const char* stored : {"", "abc"}) {
    write_text(dir / "w/1", stored);
    const Error error = catch_error([&] { orbax_format().open(dir.path()); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), dir / "w/1");
  }
}

TEST(OrbaxNames, CompressedChunksAreNotAddressable) {
  const TempDir dir;
  const auto is_addressable = [&](const std::string& compressor) {
    write_text(dir / "_METADATA", tree_of({"w"}, R"(,"use_ocdbt":false)"));
    write_text(dir / "w/.zarray",
               R"({"chunks":[4],"compressor":)" + compressor +
                   R"(,"dtype":"|u1","fill_value":0,"filters":null,"order":"C","shape":[4],)"
                   R"("zarr_format":2})");
    return orbax_format().open(dir.path())->catalog().cuts.at(0).addressable;
  };
  EXPECT_TRUE(is_addressable("null"));
  EXPECT_FALSE(is_addressable(R"({"id":"zstd"})"));
}

// Values in the index need no data file.
TEST(OrbaxNames, ADatabaseIsAtLeastOneFile) {
  const TempDir dir;
  write_keys(dir, {{"w/c/0", "data"}, {"w/zarr.json", u8_text({4})}});
  write_text(dir / "_METADATA", tree_of({"w"}, R"(,"use_zarr3":true)"));
  EXPECT_EQ(orbax_format().open(dir.path())->data_files(), 1U);
}

}  // namespace
}  // namespace hfshard::format::orbax
