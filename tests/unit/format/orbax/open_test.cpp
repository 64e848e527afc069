#include "format/orbax/open.h"

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "format/orbax/ocdbt/node.h"
#include "format/orbax/zarr/array.h"
#include "ops/read_piece.h"
#include "run/commit/publish.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/test_data.h"
#include "unit/format/orbax/builder.h"

namespace hfshard::format::orbax {
namespace {

std::uint32_t leaf_index(const Checkpoint& opened, const std::string& path) {
  if (const auto found = opened.catalog().find(path)) return *found;
  ADD_FAILURE() << path;
  return 0;
}

std::string chunk_of(const Checkpoint& opened, std::uint32_t leaf, const Shape& chunk) {
  const TensorInfo& info = opened.catalog().tensors[leaf];
  std::string out(packed_bytes(info.dtype, opened.catalog().grid_of(leaf).chunk.numel()), '?');
  std::string scratch(row_major_scratch_bytes(opened, leaf), '?');
  read_row_major(opened, leaf, chunk, std::as_writable_bytes(std::span(out)),
                 std::as_writable_bytes(std::span(scratch)));
  return out;
}

// Reads the whole array, packed.
std::string read_leaf(const Checkpoint& opened, std::uint32_t leaf) {
  const TensorInfo& info = opened.catalog().tensors[leaf];
  const Shape extent = opened.catalog().grid_of(leaf).chunk;
  std::string out(packed_bytes(info.dtype, info.shape.numel()), '?');
  for_each_chunk(chunk_counts(info.shape, extent), [&](const Shape& chunk) {
    std::string box = chunk_of(opened, leaf, chunk);
    Shape origin = chunk;
    for (std::size_t d = 0; d < chunk.rank(); ++d) origin[d] *= extent[d];
    copy_box(out, info.shape, box, extent, origin, size_bits(info.dtype) / 8,
             /*back=*/true);
  });
  return out;
}

void expect_same(const OrbaxBuilder& builder, const Checkpoint& opened) {
  ASSERT_EQ(opened.catalog().tensors.size(), builder.leaves().size() + 1);
  for (std::size_t i = 0; i < builder.leaves().size(); ++i) {
    const Leaf& leaf = builder.leaves()[i];
    const std::uint32_t index = leaf_index(opened, leaf.name);
    const TensorInfo& info = opened.catalog().tensors[index];
    const Grid grid = opened.catalog().grid_of(index);
    EXPECT_EQ(info.dtype, leaf.dtype);
    EXPECT_EQ(info.shape, leaf.shape);
    EXPECT_EQ(grid.chunk, builder.grids()[i].chunk);
    EXPECT_EQ(grid.inner, builder.grids()[i].inner);
    EXPECT_EQ(read_leaf(opened, index), builder.value(i)) << leaf.name;
  }
}

// Makes arrays of every supported dtype and form.
OrbaxBuilder all_forms(const Encoding& encoding = {}) {
  OrbaxBuilder builder(4, encoding);
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (zarr::data_type_name(dtype)) {
      builder.leaf("params.params.types." + std::string(to_string(dtype)), dtype, {7, 5}, {2, 5});
    }
  }
  builder.leaf("params.params.w", DType::bf16, {5, 3, 8}, {2, 3, 4}, {1, 3, 2});
  builder.leaf("params.params.w-x", DType::f32, {25, 12}, {1, 1});
  builder.leaf("params.params.bytes", DType::u8, {40, 9}, {20, 9}, {5, 3});
  builder.leaf("params.params.five", DType::i16, {3, 2, 2, 3, 4}, {2, 2, 1, 3, 2}, {1, 2, 1, 3, 1});
  builder.leaf("params.params.scalar", DType::f16, {}, {});
  builder.leaf("params.params.empty", DType::f32, {0, 4}, {1, 4});
  builder.leaf("zz." + std::string(4096, 'n'), DType::f32, {3}, {2});
  return builder;
}

TEST(OrbaxOpen, EveryDtypeAndFormComesBack) {
  for (const bool checksum : {true, false}) {
    OrbaxBuilder builder = all_forms({checksum});
    builder.build();
    for (const std::uint32_t entries : {2U, 5U, 32768U}) {
      TempDir dir;
      builder.write(dir / "0", {entries, 1 << 20});
      const auto opened = orbax_format().open(dir.path());
      expect_same(builder, *opened);
      const std::uint32_t step = leaf_index(*opened, "step");
      EXPECT_EQ(load_le<std::uint64_t>(as_bytes(read_leaf(*opened, step)).data()), 7U);
      EXPECT_TRUE(opened->catalog().attributes.at("scan_layers").as_bool());
      EXPECT_EQ(opened->catalog().codecs_of(step),
                checksum ? (std::vector<std::string>{"bytes", "crc32c"})
                         : std::vector<std::string>{"bytes"});
    }
  }
}

TEST(OrbaxOpen, EveryDtypeAndFormComesBackCompressed) {
  for (const Encoding encoding : {Encoding{true, 1}, Encoding{false, 9}}) {
    OrbaxBuilder builder = all_forms(encoding);
    builder.build();
    TempDir dir;
    builder.write(dir / "0", {5, 1 << 20});
    const auto opened = orbax_format().open(dir.path());
    expect_same(builder, *opened);
    std::vector<std::string> codecs{"bytes", "zstd"};
    if (encoding.checksum) codecs.emplace_back("crc32c");
    EXPECT_EQ(opened->catalog().codecs_of(leaf_index(*opened, "params.params.w-x")), codecs);
    EXPECT_EQ(opened->catalog().codecs_of(leaf_index(*opened, "step")).size(), codecs.size() - 1);
  }
}

TEST(OrbaxOpen, RootStepAndItemDirectoryAreTheSame) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {2}).build();
  TempDir dir;
  builder.write(dir / "9");
  builder.write(dir / "10");
  write_text(dir / "011/x", "");
  write_text(dir / "hf/config.json", "{}");
  EXPECT_EQ(locate(dir.path()).item, dir / "10/items");
  EXPECT_EQ(locate(dir / "9").item, dir / "9/items");
  EXPECT_EQ(locate(dir / "9/items").item, dir / "9/items");
  for (const std::string& path : {dir.path(), dir / "9", dir / "9/items", dir / "9/items/"}) {
    expect_same(builder, *orbax_format().open(path));
  }
}

TEST(OrbaxRecognise, DecidesByWhatLiesInTheDirectory) {
  const TempDir dir;
  const auto is_orbax = [&](const std::string& name) {
    return orbax_format().recognise(dir / name).has_value();
  };
  EXPECT_FALSE(is_orbax("nothing"));
  write_text(dir / "hf/model.safetensors", "");
  write_text(dir / "hf/0/x", "");
  EXPECT_FALSE(is_orbax("hf"));
  EXPECT_FALSE(is_orbax("hf/model.safetensors"));
  write_text(dir / "root/12/items/manifest.ocdbt", "");
  write_text(dir / "root/hf/model.safetensors.index.json", "");
  EXPECT_TRUE(is_orbax("root"));
  EXPECT_TRUE(is_orbax("root/12"));
  EXPECT_TRUE(is_orbax("root/12/items"));
  write_text(dir / "flat/_CHECKPOINT_METADATA", "{}");
  EXPECT_TRUE(is_orbax("flat"));
  write_text(dir / "unfinished/0.orbax-checkpoint-tmp/x", "");
  EXPECT_TRUE(is_orbax("unfinished"));
  write_text(dir / "parts/ocdbt.process_0/manifest.ocdbt", "");
  EXPECT_TRUE(is_orbax("parts"));
  write_text(dir / "plain/_METADATA", "{}");
  EXPECT_TRUE(is_orbax("plain"));
  write_text(dir / "partial/model.safetensors.index.json", "{}");
  write_text(dir / "partial/0/x", "");
  EXPECT_FALSE(is_orbax("partial"));
  write_text(dir / "file/7", "");
  EXPECT_FALSE(is_orbax("file"));
}

TEST(OrbaxRecognise, SaysWhichStepIsMeantAndWhoPublishedIt) {
  const TempDir dir;
  const auto publish = [&](char id) {
    OrbaxBuilder builder;
    builder.tree().plan_id = std::string(64, id);
    builder.tree().custom_metadata["hfshard"]["plan_id"] = builder.tree().plan_id;
    builder.leaf("w", DType::f32, {4}, {4}).build().write(dir / "9");
  };
  publish('9');
  write_text(dir / "10/items/manifest.ocdbt", "");
  write_text(dir / "011/items/manifest.ocdbt", "");
  const Found root = orbax_format().recognise(dir.path()).value();
  EXPECT_EQ(root.directory, dir / "011");
  EXPECT_EQ(root.plan_id, "");
  const std::vector<Found::Step> steps{
      {9, dir / "9", true}, {10, dir / "10", false}, {11, dir / "011", false}};
  EXPECT_EQ(root.steps, steps);
  for (const std::string& place : {dir / "9", dir / "9/items"}) {
    const Found step = orbax_format().recognise(place).value();
    EXPECT_EQ(step.directory, dir / "9");
    EXPECT_EQ(step.plan_id, std::string(64, '9'));
    EXPECT_TRUE(step.steps.empty());
  }
  // The index has one plan, and the metadata another, so the result is neither.
  const std::string manifest = read_text(dir / "9/items/manifest.ocdbt");
  publish('8');
  EXPECT_EQ(orbax_format().recognise(dir / "9").value().plan_id, std::string(64, '8'));
  write_text(dir / "9/items/manifest.ocdbt", manifest);
  EXPECT_EQ(orbax_format().recognise(dir / "9").value().plan_id, "");
  publish('9');
  for (const char* text : {"{\"custom_metadata\"", "{}", "7", R"({"custom_metadata":3})"}) {
    write_text(dir / "9/_CHECKPOINT_METADATA", text);
    EXPECT_EQ(orbax_format().recognise(dir / "9").value().plan_id, "") << text;
  }
}

TEST(OrbaxOpen, WhatIsNoCheckpointIsNamed) {
  TempDir dir;
  const auto fails = [&](const std::string& path) {
    return catch_error([&] { orbax_format().open(path); });
  };
  EXPECT_EQ(fails(dir / "none").code(), ErrorCode::not_found);
  EXPECT_EQ(fails(dir.path()).code(), ErrorCode::not_found);
  write_text(dir / "file", "");
  EXPECT_EQ(fails(dir / "file").code(), ErrorCode::bad_input);
  write_text(dir / "a/0/items/x", "");
  EXPECT_EQ(fails(dir / "a").code(), ErrorCode::not_found);
  EXPECT_EQ(fails(dir / "a").file(), dir / "a/0/items");
  write_text(dir / "b/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(fails(dir / "b").code(), ErrorCode::not_found);
  write_text(dir / "c/0/items/_METADATA", "{}");
  EXPECT_EQ(fails(dir / "c").code(), ErrorCode::corrupt);
  EXPECT_EQ(fails(dir / "c").file(), dir / "c/0/items/_METADATA");
  write_text(dir / "d/0/items/ocdbt.process_0/manifest.ocdbt", "");
  EXPECT_EQ(fails(dir / "d").code(), ErrorCode::corrupt);
  write_text(dir / "e/5.orbax-checkpoint-tmp/items/manifest.ocdbt", "");
  EXPECT_EQ(fails(dir / "e").code(), ErrorCode::not_found);
  EXPECT_FALSE(fails(dir / "e").hint_text().empty());
  EXPECT_EQ(fails(dir / "e/5.orbax-checkpoint-tmp").code(), ErrorCode::corrupt);
}

// Nothing outside a step tells who published it.
TEST(OrbaxRecognise, APlansItemIsANameInTheStep) {
  const TempDir dir;
  const std::string id(64, '9');
  const auto published_by = [&](const std::string& item) {
    OrbaxBuilder builder;
    builder.tree().plan_id = id;
    builder.tree().custom_metadata["hfshard"]["plan_id"] = id;
    builder.tree().custom_metadata["hfshard"]["item"] = item;
    builder.leaf("w", DType::f32, {4}, {4}).build().write(dir / "9");
    return orbax_format().recognise(dir / "9").value().plan_id;
  };
  for (const char* item : {"..", ".", "", "/", "../8", "items/../../8/items"})
    EXPECT_EQ(published_by(item), id) << item;
  EXPECT_EQ(published_by("other"), "");
}

TEST(OrbaxOpen, CustomMetadataMayComeFromTheStep) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {2}).build();
  builder.tree().custom_metadata = nullptr;
  TempDir dir;
  builder.write(dir / "0");
  EXPECT_EQ(orbax_format().open(dir.path())->catalog().attributes, Json(Json::Object()));
  write_text(dir / "0/_CHECKPOINT_METADATA", R"({"custom_metadata":{"scan_layers":false}})");
  EXPECT_FALSE(
      orbax_format().open(dir / "0/items")->catalog().attributes.at("scan_layers").as_bool());
}

TEST(OrbaxOpen, ThreadsMayReadAtOnce) {
  OrbaxBuilder builder(100);  // more files than stay open
  builder.leaf("params.params.w", DType::u8, {40, 50}, {1, 10}, {1, 5}).build();
  TempDir dir;
  builder.write(dir / "0");
  const auto opened = orbax_format().open(dir.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(read_leaf(*opened, 0), builder.value(0)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// A checkpoint to damage: one leaf with plain chunks, one with inner chunks, one file.
struct Damaged {
  OrbaxBuilder builder{1};
  TempDir dir;
  Damaged() {
    builder.leaf("params.params.a", DType::u8, {4, 10}, {1, 10});
    builder.leaf("params.params.s", DType::u8, {4, 10}, {2, 10}, {1, 5}).build();
    builder.write(dir / "0");
  }
  std::string data_file() const { return dir / "0/items/d/00000"; }
  std::string item(const std::string& name) const { return dir / ("0/items/" + name); }
  Error open_error() const {
    return catch_error([&] { orbax_format().open(dir.path()); });
  }
  /// Rewrites the index with a change of its root leaf.
  void change_index(const std::function<void(ocdbt::Node&)>& change) const;
};

void Damaged::change_index(const std::function<void(ocdbt::Node&)>& change) const {
  const std::string bytes = read_text(item("d/btree"));
  ocdbt::Node node = ocdbt::decode_node(as_bytes(bytes), {"", 0, bytes.size()});
  change(node);
  const std::string changed = ocdbt::encode_node(node);
  write_text(item("d/btree"), changed);
  const std::string old = read_text(item("manifest.ocdbt"));
  ocdbt::Manifest manifest = ocdbt::decode_manifest(as_bytes(old), {"", 0, old.size()});
  manifest.versions[0].length_bytes = changed.size();
  write_text(item("manifest.ocdbt"), ocdbt::encode_manifest(manifest));
}

TEST(OrbaxDamage, AFlippedByteNamesLeafChunkFileAndRange) {
  const Damaged damaged;
  const std::string good = read_text(damaged.data_file());
  const Place plain = damaged.builder.place(0, {2, 0});
  const Place shard = damaged.builder.place(1, {1, 0});
  struct Case {
    std::uint32_t leaf;
    Shape chunk;
    std::uint64_t at;
    ByteRange range;
  };
  const std::uint64_t p = plain.offset_bytes;
  const std::uint64_t s = shard.offset_bytes;
  for (const Case& each :
       {Case{0, {2, 0}, p + 3, {p, p + 14}}, Case{0, {2, 0}, p + 13, {p, p + 14}},
        Case{1, {1, 0}, s + 10, {s + 9, s + 18}}, Case{1, {1, 0}, s + 40, {s + 36, s + 104}}}) {
    std::string bad = good;
    bad[each.at] = static_cast<char>(bad[each.at] ^ 1);
    write_text(damaged.data_file(), bad);
    const auto opened = orbax_format().open(damaged.dir.path());
    const Error e = catch_error([&] { chunk_of(*opened, each.leaf, each.chunk); });
    EXPECT_EQ(e.code(), ErrorCode::corrupt);
    EXPECT_EQ(e.file(), damaged.data_file());
    EXPECT_EQ(e.tensor(), opened->catalog().tensors[each.leaf].name);
    EXPECT_EQ(e.range(), each.range);
    EXPECT_EQ(e.total_bytes(), good.size());
    EXPECT_NE(e.sentence().find(zarr::chunk_key({}, each.chunk)), std::string::npos);
    chunk_of(*opened, each.leaf, {0, 0});  // its neighbors are undamaged
  }
}

TEST(OrbaxDamage, ATruncatedOrMissingDataFileIsFoundWhenOpening) {
  const Damaged damaged;
  std::string bytes = read_text(damaged.data_file());
  bytes.pop_back();
  write_text(damaged.data_file(), bytes);
  Error e = damaged.open_error();
  EXPECT_EQ(e.code(), ErrorCode::corrupt);
  EXPECT_EQ(e.file(), damaged.data_file());
  EXPECT_EQ(e.tensor(), "params.params.s");
  EXPECT_EQ(e.range()->end, bytes.size() + 1);
  std::filesystem::remove(damaged.data_file());
  e = damaged.open_error();
  EXPECT_EQ(e.code(), ErrorCode::not_found);
  EXPECT_EQ(e.file(), damaged.data_file());
}

TEST(OrbaxDamage, AFileThatShrinksLaterIsCorrupt) {
  const Damaged damaged;
  const auto opened = orbax_format().open(damaged.dir.path());
  std::filesystem::resize_file(damaged.data_file(), 100);
  const Error e = catch_error([&] { chunk_of(*opened, 1, {1, 0}); });
  EXPECT_EQ(e.code(), ErrorCode::corrupt);
  EXPECT_EQ(e.file(), damaged.data_file());
}

TEST(OrbaxDamage, SideFilesThatAreMissingOrBrokenAreNamed) {
  for (const char* name : {"manifest.ocdbt", "_METADATA", "d/btree"}) {
    const Damaged damaged;
    const std::string bytes = read_text(damaged.item(name));
    write_text(damaged.item(name), bytes.substr(0, bytes.size() / 2));
    const Error e = damaged.open_error();
    EXPECT_EQ(e.code(), ErrorCode::corrupt) << name;
    EXPECT_EQ(e.file(), damaged.item(name));
  }
  const Damaged damaged;
  std::filesystem::remove(damaged.item("_METADATA"));
  EXPECT_EQ(damaged.open_error().code(), ErrorCode::not_found);
  EXPECT_EQ(damaged.open_error().file(), damaged.item("_METADATA"));
}

// Removes entry `i` from a leaf node. The next key must not use its prefix.
void remove_entry(ocdbt::Node& node, std::size_t i) {
  std::vector<std::string> keys;
  std::size_t at = 0;
  for (const ocdbt::NodeKey& key : node.keys) {
    keys.push_back((keys.empty() ? "" : keys.back().substr(0, key.prefix)) +
                   node.suffixes.substr(at, key.suffix));
    at += key.suffix;
  }
  keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(i));
  HFSHARD_CHECK(!node.values[i].is_inline);
  node.values.erase(node.values.begin() + static_cast<std::ptrdiff_t>(i));
  node.keys.clear();
  node.suffixes.clear();
  for (const std::string& key : keys) {
    node.keys.push_back({0, static_cast<std::uint32_t>(key.size())});
    node.suffixes += key;
  }
}

TEST(OrbaxDamage, MissingChunksAreListedAndNeverZeros) {
  const Damaged damaged;
  damaged.change_index([](ocdbt::Node& node) { remove_entry(node, 1); });
  const auto opened = orbax_format().open(damaged.dir.path());
  std::vector<std::pair<std::uint32_t, Shape>> missing;
  check_complete(
      *opened, [&](std::uint32_t leaf, const Shape& chunk) { missing.emplace_back(leaf, chunk); });
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0], (std::pair<std::uint32_t, Shape>{0, {1, 0}}));
  EXPECT_FALSE(opened->has_piece(0, {1, 0}));
  EXPECT_TRUE(opened->has_piece(0, {2, 0}));
  EXPECT_FALSE(opened->has_piece(0, {9, 0}));
  const Error e = catch_error([&] { chunk_of(*opened, 0, {1, 0}); });
  EXPECT_EQ(e.code(), ErrorCode::not_found);
  EXPECT_EQ(e.tensor(), "params.params.a");
  EXPECT_EQ(chunk_of(*opened, 0, {3, 0}), damaged.builder.value(0).substr(30));
}

TEST(OrbaxDamage, AWholeCheckpointLacksNothing) {
  const Damaged damaged;
  check_complete(*orbax_format().open(damaged.dir.path()),
                 [](std::uint32_t, const Shape&) { ADD_FAILURE(); });
}

TEST(OrbaxDamage, IndexEntriesThatFitNoLeafAreCorrupt) {
  // Keys of the root leaf: a/c/0/0 .. a/c/3/0, a/zarr.json, s/c/0/0, s/c/1/0, s/zarr.json, ...
  const auto rename = [](std::size_t i, const std::string& from, const std::string& to) {
    return [=](ocdbt::Node& node) {
      std::size_t at = 0;
      for (std::size_t k = 0; k < i; ++k) at += node.keys[k].suffix;
      EXPECT_EQ(node.suffixes.substr(at, node.keys[i].suffix), from);
      node.suffixes.replace(at, from.size(), to);
      node.keys[i].suffix = static_cast<std::uint32_t>(to.size());
    };
  };
  const std::vector<std::pair<const char*, std::function<void(ocdbt::Node&)>>> cases{
      {"length", [](ocdbt::Node& node) { node.values[0].length_bytes += 1; }},
      {"outside the grid", rename(3, "3/0", "4/0")},
      {"not canonical", rename(3, "3/0", "3/00")},
      {"no chunk", rename(3, "3/0", "x")},
      {"array unknown", rename(4, "zarr.json", "zarr.jsoo")},
  };
  for (const auto& [what, change] : cases) {
    const Damaged damaged;
    damaged.change_index(change);
    const Error e = damaged.open_error();
    EXPECT_EQ(e.code(), ErrorCode::corrupt) << what << e.what();
    EXPECT_EQ(e.file(), damaged.item("manifest.ocdbt")) << what;
    EXPECT_EQ(e.tensor(), "params.params.a") << what;
  }
}

TEST(OrbaxDamage, TreeAndIndexMustListTheSameArrays) {
  const Damaged damaged;
  std::string tree = read_text(damaged.item("_METADATA"));
  tree.replace(tree.find(R"("key":"s")"), 9, R"("key":"t")");
  write_text(damaged.item("_METADATA"), tree);
  const Error e = damaged.open_error();
  EXPECT_EQ(e.code(), ErrorCode::corrupt);
  EXPECT_EQ(e.tensor(), "params.params.s");
}

// Reads every leaf of a golden item and compares it with its writer's stated values.
void expect_golden(const std::string& name) {
  const std::string item = test_data("golden/orbax/") + name;
  const Json expected = parse_json(read_text(item + ".expected.json"), name);
  const auto opened = orbax_format().open(item);
  ASSERT_EQ(opened->catalog().tensors.size(), expected.as_object().size());
  for (std::uint32_t i = 0; i < opened->catalog().tensors.size(); ++i) {
    const TensorInfo& leaf = opened->catalog().tensors[i];
    const Json& facts = expected.at(leaf.name);
    EXPECT_EQ(zarr::data_type_name(leaf.dtype), facts.at("dtype").as_string());
    EXPECT_EQ(sha256_hex(read_leaf(*opened, i)), facts.at("sha256").as_string()) << leaf.name;
  }
  check_complete(*opened, [](std::uint32_t, const Shape&) { ADD_FAILURE(); });
  EXPECT_EQ(opened->catalog().attributes.at("made_by").as_string(), "tensorstore");
}

TEST(OrbaxGolden, TensorStoresTreeOfSeveralLevelsIsRead) { expect_golden("single"); }

TEST(OrbaxGolden, TensorStoresMergedDatabasesAreRead) { expect_golden("merged"); }

TEST(OrbaxGolden, WhatOrbaxWritesByDefaultIsRead) {
  const std::string item = test_data("golden/orbax/real_orbax");
  const auto opened = orbax_format().open(item);
  ASSERT_EQ(opened->catalog().tensors.size(), 1U);
  const TensorInfo& leaf = opened->catalog().tensors[0];
  EXPECT_EQ(leaf.name, "a");
  EXPECT_EQ(leaf.dtype, DType::i32);
  EXPECT_EQ(opened->catalog().codecs_of(0),
            (std::vector<std::string>{"sharding_indexed", "bytes", "zstd"}));
  const std::string bytes = read_leaf(*opened, 0);
  ASSERT_EQ(bytes.size(), 16U);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(load_le<std::uint32_t>(as_bytes(bytes).data() + 4 * i), i);
  }
}

}  // namespace
}  // namespace hfshard::format::orbax
