#include "service/diff_objects.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "catalog/tree_structure.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/service/diff_around_fixture.h"
#include "unit/service/named_checkpoint.h"

namespace hfshard {
namespace {

// A checkpoint whose objects can't be read.
class Unreadable final : public CatalogOnly {
 public:
  Unreadable(Catalog catalog, ErrorCode code) : CatalogOnly(std::move(catalog)), code_(code) {}
  std::string object_digest(const ObjectReader& /*reader*/,
                            const ObjectInfo& /*object*/) const override {
    throw Error(code_, "the disk failed").in_file("data");
  }

 private:
  ErrorCode code_;
};

// A checkpoint whose objects all have one digest.
class Digested final : public CatalogOnly {
 public:
  Digested(Catalog catalog, std::string digest)
      : CatalogOnly(std::move(catalog)), digest_(std::move(digest)) {}
  std::string object_digest(const ObjectReader& /*reader*/,
                            const ObjectInfo& /*object*/) const override {
    return digest_;
  }

 private:
  std::string digest_;
};

DiffSide side_of(std::shared_ptr<const Checkpoint> checkpoint) {
  DiffSide out;
  out.place = StorePath("nowhere");
  out.other_item = true;  // no items are next to it
  out.checkpoint = std::move(checkpoint);
  return out;
}

std::vector<StructureDiff> differences(const DiffSide& a, const DiffSide& b) {
  DiffResult out;
  diff_objects(
      a, b, [](std::string_view) { return true; }, {}, out);
  return out.structure;
}

Catalog with_object(const std::string& name, const std::string& keys) {
  Catalog out;
  out.objects.emplace_back().name = name;
  out.nested = {{name, keys}};
  return out;
}

TEST(DiffObjects, KeysAreComparedForObjectsOfBothSides) {
  const DiffSide a = side_of(checkpoint_of(with_object("b.0", R"(["b", 0])")));
  const DiffSide b = side_of(checkpoint_of(with_object("c.0", R"(["c", 0])")));
  const std::vector<StructureDiff> found = differences(a, b);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "b.0");
  EXPECT_EQ(found[0].kind, StructureDiff::Kind::only_a);
  EXPECT_EQ(found[0].what, "an object that isn't a tensor");
  EXPECT_EQ(found[1].what, "an object that isn't a tensor");
  EXPECT_EQ(found[1].name, "c.0");
  EXPECT_EQ(found[1].kind, StructureDiff::Kind::only_b);
}

TEST(DiffObjects, AnObjectOfBothSidesCanHaveOtherKeys) {
  const auto digested = [](const char* keys) {
    return side_of(std::make_shared<Digested>(with_object("b.0", keys), "1"));
  };
  const DiffSide a = digested(R"(["b",0])");
  const DiffSide b = digested(R"(["b","0"])");
  const std::vector<StructureDiff> found = differences(a, b);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, StructureDiff::Kind::differs);
  EXPECT_EQ(found[0].name, "b.0");
  EXPECT_EQ(found[0].what, R"(the keys that lead to it are ["b",0] in A, ["b","0"] in B)");
  EXPECT_TRUE(differences(a, a).empty());
  DiffResult out;
  diff_objects(
      a, b, [](std::string_view name) { return name != "b.0"; }, {}, out);
  EXPECT_TRUE(out.structure.empty());
  EXPECT_EQ(out.compared_objects, 0U);
}

TEST(DiffObjects, AStopEndsTheComparison) {
  const DiffSide side = side_of(std::make_shared<Digested>(with_object("b", ""), "1"));
  const std::atomic<bool> stop = true;
  RunOptions run;
  run.stop = &stop;
  DiffResult out;
  const Error error = catch_error([&] {
    diff_objects(
        side, side, [](std::string_view) { return true; }, run, out);
  });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
}

TEST(DiffObjects, OnlyDamageOfAnObjectIsADifference) {
  const Catalog objects = with_object("b", "");
  for (const ErrorCode code : {ErrorCode::corrupt, ErrorCode::not_found}) {
    const DiffSide side = side_of(std::make_shared<Unreadable>(objects, code));
    const std::vector<StructureDiff> found = differences(side, side);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].what, "A: the disk failed (in data)");
    EXPECT_EQ(found[1].what, "B: the disk failed (in data)");
  }
  const DiffSide side = side_of(std::make_shared<Unreadable>(objects, ErrorCode::io));
  EXPECT_EQ(catch_error([&] { differences(side, side); }).code(), ErrorCode::io);
}

TEST(DiffObjects, EverythingButArraysIsNotedByItsKind) {
  auto tree = std::make_shared<TreeStructure>();
  using EntryKind = TreeEntry::Kind;
  for (const auto& [name, kind] :
       {std::pair("text", EntryKind::text), std::pair("none", EntryKind::empty),
        std::pair("w", EntryKind::array), std::pair("key", EntryKind::array)}) {
    TreeEntry& entry = tree->entries.emplace_back();
    entry.kind = kind;
    entry.add_key(name, false);
  }
  tree->entries.back().random_key = "fry";
  tree->attributes = parse_json(R"({"run": 1, "hfshard": {}})", "attributes");
  tree->rich_types = R"({"pair":{"category":"custom","clazz":"tuple","entries":[null]}})";
  Catalog nodes;
  nodes.structure = tree;
  Catalog arrays;
  arrays.objects.resize(2);
  arrays.objects[0].name = "a";
  arrays.objects[1].name = "b";
  DiffResult out;
  out.through = "another layout";
  diff_objects(
      side_of(checkpoint_of(nodes)), side_of(checkpoint_of(arrays)),
      [](std::string_view) { return true; }, {}, out);
  const std::string held = "not compared, since the other side can't hold them: the ";
  EXPECT_EQ(out.notes,
            (std::vector{std::string("not compared, since the other side can't hold objects: 2 "
                                     "objects of B (\"a\", \"b\")"),
                         held + "strings and empty nodes \"text\", \"none\" of A",
                         held + "custom metadata \"run\" of A",
                         held + "tuples and named tuples \"pair\" of A",
                         held + "random-key generators \"key\" of A"}));
  EXPECT_EQ(out.structure.size(), 0U);
}

// A node without arrays is noted, since only the format with nodes can hold it.
TEST_F(DiffAroundTest, KeysOfArraysAreComparedWithoutOtherNodes) {
  const std::string flat = write_torch(dir_ / "flat", {"n", "n.b", "opt.0.x", "opt.1.x"});
  const std::string tree = dir_ / "tree";
  hfshard::convert(flat, reshard_options("orbax"), run_to(tree), quiet_);
  add_none(tree);
  for (const DiffResult& found : {compare(flat, tree), compare(tree, flat)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.notes.size(), 1U);
  }
  // A state of torch doesn't say as what an array is restored.
  edit_metadata(tree, [](Json& metadata) {
    for (auto& [name, node] : metadata["tree_metadata"].object()) {
      Json& type = node["value_metadata"]["value_type"];
      if (type.as_string() != "None") type = "scalar";
    }
  });
  for (const DiffResult& found : {compare(flat, tree), compare(tree, flat)})
    EXPECT_TRUE(found.equal()) << found.structure.at(0).what;
}

TEST_F(DiffAroundTest, NodesOfAnotherTreeOfTheStepsAreNamedBelowItsPath) {
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir_ / "x.safetensors");
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  const std::string a = dir_ / "a";
  const std::string b = dir_ / "b";
  for (const std::string& run : {a, b}) {
    hfshard::convert(dir_ / "x.safetensors", plain, run_to(run), quiet_);
    const std::string other = run + "-other";
    hfshard::convert(dir_ / "x.safetensors", plain, run_to(other), quiet_);
    edit_metadata(other,
                  [&](Json& metadata) { metadata["custom_metadata"]["run"] = run == a ? 6 : 7; });
    if (run == a) add_none(other);
    std::filesystem::rename(other + "/0/items", run + "/0/average");
  }
  const DiffResult found = compare(a, b);
  EXPECT_EQ(found.compared_tensors, 2U);
  EXPECT_EQ(found.differing_tensors, 0U);
  ASSERT_EQ(found.structure.size(), 2U);
  EXPECT_EQ(found.structure[0].name, "average");
  EXPECT_EQ(found.structure[0].what, "custom metadata \"run\": 6 in A, 7 in B");
  EXPECT_EQ(found.structure[1].name, "average/note");
  EXPECT_EQ(found.structure[1].kind, StructureDiff::Kind::only_a);
  EXPECT_EQ(found.structure[1].what, "None");
}

TEST_F(DiffAroundTest, DifferencesOfAllKindsAreSortedByName) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  add_none(a);
  write_text(a + "/0/zebra", "one");
  write_text(b + "/0/all", "one");
  write_text(b + "/metadata/_ROOT_METADATA", R"({"custom_metadata": {"run": 1}})");
  std::vector<std::string> names;
  for (const StructureDiff& item : compare(a, b).structure) names.push_back(item.name);
  EXPECT_EQ(names, (std::vector<std::string>{"all", "metadata/_ROOT_METADATA", "note", "zebra"}));
}

TEST_F(DiffAroundTest, AFileInAStepIsAnItem) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  write_text(a + "/0/notes", "one");
  write_text(b + "/0/notes", "one");
  EXPECT_TRUE(compare(a, b).equal());
  write_text(b + "/0/notes", "two");
  const DiffResult found = compare(a, b);
  ASSERT_EQ(found.structure.size(), 1U);
  EXPECT_EQ(found.structure[0].name, "notes");
  EXPECT_EQ(found.structure[0].what, "the files hold different bytes");
}

// The name of one item can begin with that of another.
TEST_F(DiffAroundTest, AnItemHasOnlyTheFilesBelowItsName) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  for (const std::string& run : {a, b}) {
    write_text(run + "/0/rng/key", "1");
    write_text(run + "/0/rng_state/key", run == a ? "1" : "2");
  }
  const auto named = [&] {
    std::vector<std::string> out;
    for (const StructureDiff& item : compare(a, b).structure)
      out.push_back(item.name + ": " + item.what);
    return out;
  };
  EXPECT_EQ(named(), std::vector<std::string>{"rng_state/key: the files hold different bytes"});
  write_text(b + "/0/rng_state/more", "");
  EXPECT_EQ(named(), std::vector<std::string>{"rng_state: the item has other files"});
}

TEST_F(DiffAroundTest, ALargeFileOfAnItemIsComparedByItsBytesOnly) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  const std::string item = "/0/loader/state.json";
  write_text(b + item, "1");
  write_text(a + item, "1" + std::string(kMost - 1, ' '));
  EXPECT_TRUE(compare(a, b).equal()) << "the same JSON";
  write_text(a + item, "1" + std::string(kMost, ' '));
  for (const DiffResult& found : {compare(a, b), compare(b, a)}) {
    ASSERT_EQ(found.structure.size(), 1U);
    EXPECT_EQ(found.structure[0].name, "loader/state.json");
  }
}

TEST(DiffObjects, TransformsExplainBytesThatDiffer) {
  Catalog plain = with_object("b", "");
  Catalog packed = plain;
  packed.objects[0].transforms = {"zstd", "crypt"};
  const auto digested = [](const Catalog& catalog, const char* digest) {
    return side_of(std::make_shared<Digested>(catalog, digest));
  };
  const std::vector<StructureDiff> found = differences(digested(plain, "1"), digested(packed, "2"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, StructureDiff::Kind::differs);
  EXPECT_EQ(found[0].name, "b");
  EXPECT_EQ(found[0].what,
            "the stored bytes differ, and their transforms differ: none in A, zstd, crypt in B");
  EXPECT_EQ(differences(digested(packed, "1"), digested(packed, "2")).at(0).what,
            "the objects hold different bytes");
  EXPECT_TRUE(differences(digested(plain, "1"), digested(packed, "1")).empty());
}

TEST(DiffObjects, KeysThatDifferAreWrittenAsJson) {
  Catalog a = catalog_named({"b.0", "c.0"});
  Catalog b = a;
  a.nested = {{"b.0", R"(["b",0])"}};
  const std::vector<StructureDiff> found =
      differences(side_of(checkpoint_of(a)), side_of(checkpoint_of(b)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, StructureDiff::Kind::differs);
  EXPECT_EQ(found[0].name, "b.0");
  EXPECT_EQ(found[0].what, R"(the keys that lead to it are ["b",0] in A, ["b.0"] in B)");
  b.nested = {{"b.0", R"(["b","0"])"}, {"c.0", R"(["c",0])"}};
  b.tensors.erase(b.tensors.begin() + 1);  // only A has c.0
  const std::vector<StructureDiff> fewer =
      differences(side_of(checkpoint_of(b)), side_of(checkpoint_of(a)));
  ASSERT_EQ(fewer.size(), 1U);
  EXPECT_EQ(fewer[0].what, R"(the keys that lead to it are ["b","0"] in A, ["b",0] in B)");
}

TEST(DiffObjects, OneObjectThatIsNotComparedIsNoted) {
  DiffResult out;
  DiffSide model = side_of(checkpoint_of(Catalog()));
  model.is_model = true;
  diff_objects(
      side_of(checkpoint_of(with_object("b", ""))), model, [](std::string_view) { return true; },
      {}, out);
  EXPECT_EQ(out.notes,
            std::vector<std::string>{
                "not compared, since the other side can't hold objects: 1 object of A (\"b\")"});
  EXPECT_EQ(out.compared_objects, 0U);
  EXPECT_TRUE(out.structure.empty());
}

TEST(StructureKinds, EachHasAName) {
  using Around = StructureDiff::Kind;
  std::vector<std::string> names;
  for (const Around kind : {Around::differs, Around::damaged, Around::only_a, Around::only_b})
    names.emplace_back(to_string(kind));
  EXPECT_EQ(names, (std::vector<std::string>{"differs", "damaged", "only_a", "only_b"}));
}

// The exclusion leaves out an array that can't be read, in a tree next to the main one.
TEST_F(DiffAroundTest, NotesOfAnotherTreeBeginWithItsPath) {
  std::vector<std::string> runs;
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir_ / "x.safetensors");
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  for (const char* name : {"a", "b"}) {
    runs.push_back(dir_ / name);
    hfshard::convert(dir_ / "x.safetensors", plain, run_to(runs.back()), quiet_);
    const std::string item = runs.back() + "/0/other";
    const std::string array =
        R"("value_metadata": {"value_type": "np.ndarray", "skip_deserialize": false}})";
    write_text(item + "/_METADATA",
               R"({"use_ocdbt": false, "tree_metadata": {
                   "w": {"key_metadata": [{"key": "w", "key_type": 2}], )" +
                   array + R"(, "v": {"key_metadata": [{"key": "v", "key_type": 2}], )" + array +
                   "}}");
    for (const auto& [key, compressor] : {std::pair("w", R"({"id": "blosc"})"), {"v", "null"}}) {
      write_text(join_path(item, key) + "/.zarray",
                 fmt::format(R"({{"chunks": [4], "dtype": "|u1", "filters": null, "shape": [4],
                     "zarr_format": 2, "compressor": {}, "order": "C", "fill_value": null}})",
                             compressor));
      write_text(join_path(item, key) + "/0", "abcd");
    }
  }
  const DiffResult without = compare(runs[0], runs[1]);
  EXPECT_EQ(without.notes,
            std::vector<std::string>{"not compared: other: the compressor \"blosc\" isn't "
                                     "supported"});
  EXPECT_EQ(without.a.tensors, 1U);
  DiffOptions options;
  options.exclude = {"w"};
  const std::string end = "/0/other: not compared, since hfshard can't read it: \"w\"";
  const DiffResult found = compare(runs[0], runs[1], options);
  EXPECT_EQ(found.compared_tensors, 2U);
  EXPECT_EQ(found.tensors.at(1).name, "other/v");
  EXPECT_EQ(found.notes,
            (std::vector<std::string>{"other: " + runs[0] + end, "other: " + runs[1] + end}));
}

}  // namespace
}  // namespace hfshard
