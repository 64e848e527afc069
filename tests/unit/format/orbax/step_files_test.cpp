// A step keeps metrics, times and shardings of its source.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/json.h"
#include "catalog/tree_structure.h"
#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "format/orbax/structure.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/builder.h"

namespace hfshard::format::orbax {
namespace {

// Returns the text of a file of the step. Empty if the step lacks the file.
std::string written_file(const TreeSpec& tree, const Placements& placed, const std::string& path) {
  for (const SideFile& side : side_files(tree, placed)) {
    std::string out;
    if (side.path != path) continue;
    side.write([&](std::span<const std::byte> bytes) { out += as_text(bytes); });
    return out;
  }
  return {};
}

TreeEntry jax_array(const std::string& name) {
  TreeEntry out;
  out.add_key(name, /*is_index=*/false);
  out.type = "jax.Array";
  return out;
}

TEST(OrbaxStepFiles, MetricsAreThoseOfTheSourcesStep) {
  OrbaxBuilder builder;
  builder.leaf("w", DType::u8, {4}, {4}).build();
  const auto member = [&](const char* name) {
    return dump_json(
        parse_json(written_file(builder.tree(), builder, "_CHECKPOINT_METADATA"), "f").at(name));
  };
  EXPECT_EQ(member("metrics"), "{}");
  builder.tree().beside = parse_json(R"({"metrics":{"loss":2},"other":1})", "f");
  EXPECT_EQ(member("metrics"), R"({"loss":2})");
  EXPECT_EQ(member("performance_metrics"), "{}");
}

TEST(OrbaxStepFiles, ATreeWithItsStructureKeepsTheMembersOfItsStep) {
  OrbaxBuilder builder;
  builder.leaf("w", DType::u8, {4}, {4}).build().tree().extras = {};
  TreeStructure structure;
  structure.entries = {jax_array("w")};
  const auto step_of = [&](const std::string& step) {
    structure.step = parse_json(step, "f");
    builder.tree().structure = std::make_shared<const TreeStructure>(structure);
    return parse_json(written_file(builder.tree(), builder, "_CHECKPOINT_METADATA"), "f");
  };
  const Json kept = step_of(
      R"({"metrics":{"loss":1},"init_timestamp_nsecs":5,"own":[1],"performance_metrics":null})");
  EXPECT_EQ(dump_json(kept.at("metrics")), R"({"loss":1})");
  EXPECT_EQ(dump_json(kept.at("own")), "[1]");
  EXPECT_EQ(dump_json(kept.at("performance_metrics")), "null");
  EXPECT_EQ(kept.at("init_timestamp_nsecs").as_uint(), 5U);
  EXPECT_EQ(kept.at("commit_timestamp_nsecs").as_uint(), 1700000000000000000U);
  const Json fresh = step_of("{}");
  EXPECT_EQ(dump_json(fresh.at("metrics")), "{}");
  EXPECT_EQ(dump_json(fresh.at("performance_metrics")), "{}");
  EXPECT_EQ(fresh.at("init_timestamp_nsecs").as_uint(), 1700000000000000000U);
}

// Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/sharding.py.
TEST(OrbaxStepFiles, AMeshIsWrittenWithItsDevicesRowByRow) {
  TreeStructure structure;
  structure.entries = {jax_array("a"), jax_array("b"), jax_array("gone")};
  structure.entries[2].sharding = 0;
  structure.shardings = {"recorded"};
  const std::vector<Leaf> leaves{{{"a", DType::u8, {4, 4}}, {}, {}},
                                 {{"b", DType::u8, {4}}, {}, {}}};
  PerLeaf<Grid> grids;
  grids.push_back({{4, 4}, {4, 4}, {4, 4}});
  grids.push_back({{4}, {4}, {4}});
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  tree.mesh = {{"x", 2}, {"y", 3}};
  tree.shardings.push_back({{{"x", "y"}, {}}});
  tree.shardings.push_back({{{"y"}}});
  tree.structure = std::make_shared<const TreeStructure>(structure);
  std::string text;
  for (const SideFile& file : structure_files(tree, "item/")) {
    if (file.path == "item/_sharding")
      file.write([&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  }
  const Json all = parse_json(text, "f");
  ASSERT_EQ(all.as_object().size(), 2U);
  const Json a = parse_json(all.at(encode_base64("a")).as_string(), "f");
  EXPECT_EQ(dump_json(a.at("sharding_type")), R"("NamedSharding")");
  EXPECT_EQ(dump_json(a.at("shape")), "[2,3]");
  EXPECT_EQ(dump_json(a.at("axis_names")), R"(["x","y"])");
  EXPECT_EQ(dump_json(a.at("axis_types")), R"(["AxisType.Auto","AxisType.Auto"])");
  EXPECT_EQ(dump_json(a.at("device_mesh")),
            R"({"mesh":[[{"id":0},{"id":1},{"id":2}],[{"id":3},{"id":4},{"id":5}]]})");
  EXPECT_EQ(dump_json(a.at("partition_spec")), R"([["x","y"],null])");
  const Json b = parse_json(all.at(encode_base64("b")).as_string(), "f");
  EXPECT_EQ(dump_json(b.at("partition_spec")), R"(["y"])");
  EXPECT_EQ(b.at("device_mesh"), a.at("device_mesh"));
}

TEST(OrbaxStepFiles, WithoutJaxArraysThereAreNoFilesForThem) {
  TreeStructure structure;
  structure.entries = {jax_array("gone")};
  structure.entries[0].sharding = 0;
  structure.shardings = {"recorded"};
  const std::vector<Leaf> leaves{{{"a", DType::u8, {4}}, {}, {}}};
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.structure = std::make_shared<const TreeStructure>(structure);
  EXPECT_TRUE(structure_files(tree, "").empty());
}

TEST(OrbaxStepFiles, ElementsOfListsHaveAnotherTypeOfKey) {
  TreeStructure structure;
  TreeEntry& element = structure.entries.emplace_back();
  element.add_key("a", /*is_index=*/false);
  element.add_key("0", /*is_index=*/true);
  element.type = "np.ndarray";
  TreeEntry& none = structure.entries.emplace_back();
  none.add_key("b", /*is_index=*/false);
  none.type = "None";
  none.kind = TreeEntry::Kind::empty;
  const std::vector<Leaf> leaves{{{"a.0", DType::u8, {4}}, {}, {}}};
  PerLeaf<Grid> grids;
  grids.push_back({{4}, {4}, {4}});
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  tree.structure = std::make_shared<const TreeStructure>(structure);
  std::vector<std::string> entries;
  put_entries(tree, [&](const std::string& entry) { entries.push_back(entry); });
  EXPECT_EQ(entries,
            (std::vector<std::string>{
                R"~("('a', '0')":{"key_metadata":[{"key":"a","key_type":2},)~"
                R"~({"key":"0","key_type":1}],"value_metadata":{"skip_deserialize":false,)~"
                R"~("value_type":"np.ndarray"}})~",
                R"~("('b',)":{"key_metadata":[{"key":"b","key_type":2}],"value_metadata":)~"
                R"~({"skip_deserialize":true,"value_type":"None"}})~"}));
}

TEST(OrbaxStepFiles, ArraysWithTheSameShardingShareIt) {
  TreeStructure structure;
  structure.entries = {jax_array("a"), jax_array("b"), jax_array("c")};
  Json json;
  json[encode_base64("a")] = R"({"axis_names":["x"]})";
  json[encode_base64("b")] = R"({"axis_names":["x"]})";
  json[encode_base64("c")] = R"({"axis_names":["y"]})";
  add_shardings(json, structure);
  EXPECT_EQ(structure.shardings.size(), 2U);
  EXPECT_EQ(structure.entries[0].sharding, structure.entries[1].sharding);
  EXPECT_NE(structure.entries[0].sharding, structure.entries[2].sharding);
  EXPECT_EQ(structure.mesh_axes, (std::vector<std::string>{"x", "y"}));
}

TEST(OrbaxStepFiles, AStepThatIsItsOwnItemHasItsPlan) {
  const TempDir dir;
  OrbaxBuilder builder;
  const std::string id(64, '7');
  builder.tree().plan_id = id;
  builder.tree().custom_metadata["hfshard"]["plan_id"] = id;
  builder.tree().direct = true;
  builder.leaf("w", DType::u8, {4}, {4}).build();
  for (const SideFile& side : side_files(builder.tree(), builder)) {
    std::string text;
    side.write([&](std::span<const std::byte> bytes) { text += as_text(bytes); });
    write_text(dir / ("7/" + side.path), text);
  }
  EXPECT_EQ(find_checkpoint(StorePath(dir / "7"))->plan_id, id);
  builder.tree().plan_id = std::string(64, '8');
  for (const SideFile& side : side_files(builder.tree(), builder)) {
    std::string text;
    side.write([&](std::span<const std::byte> bytes) { text += as_text(bytes); });
    if (side.path == "manifest.ocdbt") write_text(dir / ("7/" + side.path), text);
  }
  EXPECT_EQ(find_checkpoint(StorePath(dir / "7"))->plan_id, "");
}

}  // namespace
}  // namespace hfshard::format::orbax
