#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/version.h"
#include "run/check/manifest_decode.h"
#include "run/check/output_manifest.h"
#include "support/catch_error.h"
#include "support/memory_store.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

// Two rules into two leaves. The first takes two tensors, the second is linked.
struct TwoRules {
  TwoRules() {
    catalog.tensors.resize(3);
    for (std::size_t i = 0; i < 3; ++i) catalog.tensors[i].name = std::string(1, "abc"[i]);
    model.rules = {"r0", "r1"};
    model.leaves = {{{"p", DType::bf16, {2}}, {}, {}}, {{"q", DType::bf16, {1}}, {}, {}}};
    model.transfers.resize(2);
    model.transfers[0].sources = {0, 1};
    model.transfers[1].sources = {2};
    model.transfers[1].rule = model.transfers[1].target = 1;
    for (const Leaf& leaf : model.leaves) {
      Grid grid{leaf.shape, leaf.shape, leaf.shape};
      grid.linked = leaf.name == "q";
      cut.grids.push_back(grid);
      cut.units.push_back(UnitForm{});
    }
  }

  Plan build() const {
    PlanFacts facts;
    facts.options.digests = digests;
    facts.options.mapping.files = files;
    return {Layout(make_model(catalog, model), cut, {}, false), facts};
  }

  Catalog catalog;
  CompiledModel model;
  CutLeaves cut;
  std::vector<MappingFile> files;
  bool digests = true;
};

const std::vector<Digest128> kSums{{1, 2}, {3, 4}, {5, 6}};

std::string root_of(const TwoRules& made, const std::vector<Digest128>& sums) {
  return output_digests(made.build(), sums, {}).root;
}

Json manifest_of(const TwoRules& made) {
  const Plan plan = made.build();
  std::string text;
  write_manifest(plan, output_digests(plan, kSums, {}), {},
                 [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  return parse_json(text, "hfshard.json");
}

// The text is part of the format: docs/json.md.
TEST(RootDigest, IsOverAllSlotsByLeafAndTensor) {
  const TwoRules made;
  const std::string zeros(15, '0');
  const std::string text = "p\na\n" + zeros + "2" + zeros + "1\n" +  //
                           "p\nb\n" + zeros + "4" + zeros + "3\n" +  //
                           "q\nc\n" + zeros + "6" + zeros + "5\n";
  EXPECT_EQ(root_of(made, kSums), sha256_hex(text));
  EXPECT_NE(root_of(made, {kSums[1], kSums[0], kSums[2]}), sha256_hex(text));
}

TEST(RootDigest, OfALeafThatIsOnlyLinkedHasADash) {
  TwoRules made;
  made.digests = false;
  const std::string zeros(15, '0');
  EXPECT_EQ(root_of(made, kSums), sha256_hex("p\na\n" + zeros + "2" + zeros + "1\n" +  //
                                             "p\nb\n" + zeros + "4" + zeros + "3\n" +  //
                                             "q\nc\n-\n"));
}

TEST(RootDigest, DoesNotDependOnHowRulesAreNamedOrOrdered) {
  TwoRules other;
  other.model.rules = {"elsewhere", "r1"};
  std::swap(other.model.transfers[0], other.model.transfers[1]);
  EXPECT_EQ(root_of(other, {kSums[2], kSums[0], kSums[1]}), root_of({}, kSums));
}

// Verify needs neither, but an export of the output does: docs/json.md.
TEST(WriteManifest, RecordsHowValuesWereMade) {
  TwoRules rules;
  Transfer& made = rules.model.transfers[0];
  made.value.mul = 0.5F;
  made.value.add = 2.0F;
  made.copy = true;
  made.row = 3;
  made.source_shape = {6, 4};
  Decode decode;
  decode.form.code = Code::f8_e4m3;
  decode.form.row_block = 3;
  decode.form.col_block = 2;
  decode.scales = {2, 1};
  made.decode = std::make_shared<const Decode>(decode);
  Drop drop;
  drop.source = 2;
  drop.rule = 1;
  drop.why = "stored twice";
  drop.same_as = 1;
  rules.model.drops.push_back(drop);
  const Json json = manifest_of(rules);
  const Json& transfer = json.at("transfers").as_array().at(0);
  EXPECT_EQ(transfer.at("mul").as_double(), 0.5);
  EXPECT_EQ(transfer.at("add").as_double(), 2.0);
  EXPECT_TRUE(transfer.at("copy").as_bool());
  EXPECT_EQ(transfer.at("row").as_uint(), 3U);
  EXPECT_EQ(dump_json(transfer.at("decode")),
            R"({"block":[3,2],"code":"f8_e4m3","scales":[2,1],"shape":[6,4]})");
  for (const char* name : {"mul", "add", "copy", "row", "decode"})
    EXPECT_EQ(json.at("transfers").as_array().at(1).find(name), nullptr) << name;
  EXPECT_EQ(dump_json(json.at("drops")),
            R"([{"rule":1,"same_as":1,"source":2,"why":"stored twice"}])");
}

TEST(WriteManifest, RecordsADecoderSoThatItCanBeReadBack) {
  Catalog catalog;
  catalog.tensors.resize(5);
  for (TensorInfo& tensor : catalog.tensors) tensor.dtype = DType::bf16;
  Decode decode;
  decode.form = {Code::uint8, DType::bf16, 6, 8, 1, 4};
  decode.scales = {2, 1};
  EXPECT_EQ(read_decode(json_decode(decode, {6, 8}), {6, 8}, catalog).form, decode.form);
  decode.form.zeros = ZeroPoints::packed8;
  decode.form.factor = Factor::divides;
  decode.form.rounds_to_half = true;
  decode.zeros = {0, 3};
  decode.factors = {4, 4};
  const Json json = json_decode(decode, {6, 8});
  const Decode back = read_decode(json, {6, 8}, catalog);
  EXPECT_EQ(back.form, decode.form);
  EXPECT_EQ(back.zeros, decode.zeros);
  EXPECT_EQ(back.factors, decode.factors);
  for (const auto& [key, value] :
       {std::pair<std::string, Json>{"zero_points", "q"},
        {"factor", "q"},
        {"rounds", "i8"},
        {"zeros", Json::Array{Json(std::uint64_t{1})}},
        {"factors", Json::Array{Json(std::uint64_t{4})}},
        {"factors", Json::Array{Json(std::uint64_t{9}), Json(std::uint64_t{9})}}}) {
    Json broken = json;
    broken[key] = value;
    EXPECT_EQ(catch_error([&] {
                read_decode(broken, {6, 8}, catalog);
              }).code(),
              ErrorCode::corrupt)
        << key;
  }
}

// Two machines write the same record, wherever the user's files are.
TEST(WriteManifest, RecordsAUsersFileWithoutItsFolder) {
  TwoRules rules;
  rules.files = {{"mine", "mine.json", "{}", true, "/some/where/mine.json"}};
  rules.model.rules[0] = "/some/where/mine.json#/schemes/hf/0";
  EXPECT_EQ(dump_json(manifest_of(rules).at("rules")), R"(["mine.json#/schemes/hf/0","r1"])");
  // The path of one is the beginning of the other's.
  rules.files = {{"mine", "own", "{}", true, "own"}, {"more", "more", "{}", true, "own.d/more"}};
  rules.model.rules = {"own.d/more#/schemes/hf/0", "own#/schemes/hf/1"};
  EXPECT_EQ(dump_json(manifest_of(rules).at("rules")),
            R"(["more#/schemes/hf/0","own#/schemes/hf/1"])");
  rules.files[0].path = "";  // a text without a file
  EXPECT_EQ(dump_json(manifest_of(rules).at("rules")),
            R"(["more#/schemes/hf/0","own#/schemes/hf/1"])");
}

TEST(WriteManifest, RecordsInnerChunksAndWhatIsLinked) {
  TwoRules rules;
  Grid grid;
  grid.shard = grid.chunk = {2};
  grid.inner = {1};
  rules.cut.grids = {};
  rules.cut.grids.push_back(grid);
  grid.inner = grid.chunk = {1};
  grid.linked = true;
  rules.cut.grids.push_back(grid);
  const Json json = manifest_of(rules);
  const Json& leaves = json.at("leaves");
  EXPECT_EQ(dump_json(leaves.as_array()[0].at("inner")), "[1]");
  EXPECT_EQ(leaves.as_array()[0].find("linked"), nullptr);
  EXPECT_EQ(leaves.as_array()[1].find("inner"), nullptr);
  EXPECT_TRUE(leaves.as_array()[1].at("linked").as_bool());
}

TEST(LinkedFiles, AreThoseThatALinkedLeafReads) {
  TwoRules made;
  made.catalog.files.resize(3);
  made.catalog.tensors[0].file = 0;
  made.catalog.tensors[1].file = 2;
  made.catalog.tensors[2].file = 1;
  EXPECT_EQ(made.build().linked_files(), std::vector<std::uint32_t>{1});
}

TEST(WriteManifest, TheFirstMembersSayWhereItIsFrom) {
  TwoRules made;
  const Json bare = manifest_of(made);
  EXPECT_EQ(bare.at("schema").as_uint(), 1U);
  EXPECT_EQ(bare.at("tool").as_string(), std::string("hfshard ") + kVersion);
  EXPECT_EQ(bare.at("layers").as_string(), "separate");
  for (const char* name : {"revision", "structure_sha256", "nested", "objects", "through", "files",
                           "data_files", "side_files", "root_files"})
    EXPECT_EQ(bare.find(name), nullptr) << name;
  const auto store = std::make_shared<MemoryStore>();
  store->set_commit("abc");
  made.catalog.directory = StorePath(store, "tree");
  made.model.stacked = true;
  TreeStructure tree;
  tree.attributes["mine"] = 7;
  made.model.structure = std::make_shared<const TreeStructure>(tree);
  made.model.through = {{"t", DType::f32, {4}}};
  const Json full = manifest_of(made);
  EXPECT_EQ(full.at("revision").as_string(), "abc");
  EXPECT_EQ(full.at("layers").as_string(), "stacked");
  EXPECT_EQ(full.at("structure_sha256").as_string(), structure_sha256(tree));
  EXPECT_EQ(dump_json(full.at("through")), R"([{"dtype":"f32","name":"t","shape":[4]}])");
}

// Only the part of a tensor that isn't written is recorded as dropped.
TEST(WriteManifest, RecordsWhatPartOfATensorIsDropped) {
  TwoRules rules;
  rules.catalog.tensors[2].shape = {2, 3};
  Drop half;
  half.source = 2;
  half.why = "padding";
  half.map = identity_map({3});
  half.map.src_base = 3;
  Drop whole = half;
  whole.map = identity_map({2, 3});
  rules.model.drops = {half, whole};
  EXPECT_EQ(dump_json(manifest_of(rules).at("drops")),
            R"([{"map":{"digits":[[3,1,1]],"dst":0,"src":3},"rule":0,"source":2,"why":"padding"},)"
            R"({"rule":0,"source":2,"why":"padding"}])");
}

TEST(CopyManifest, CopiesTheBytes) {
  const TempDir dir;
  write_text(dir / "record", "{}  \n");
  std::string text;
  copy_manifest(dir / "record", [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  EXPECT_EQ(text, "{}  \n");
  EXPECT_EQ(catch_error([&] {
              copy_manifest(dir / "none", [](std::span<const std::byte> /*bytes*/) {});
            }).code(),
            ErrorCode::not_found);
}

}  // namespace
}  // namespace hfshard
