// hfshard.json is read as it was written, and says what is wrong with it.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "run/check/output_manifest.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

const std::vector<Digest128> kThree{{1, 2}, {3, 4}, {5, 6}};

// "p" has two tensors. The other half of "q" is filled, and half of its tensor is dropped.
class ManifestRecord : public testing::Test {
 protected:
  ManifestRecord() {
    catalog_.tensors.resize(3);
    for (std::size_t i = 0; i < 3; ++i) catalog_.tensors[i].name = std::string(1, "abc"[i]);
    catalog_.tensors[0].shape = catalog_.tensors[1].shape = {1};
    catalog_.tensors[2].shape = {2, 3};
    for (TensorInfo& tensor : catalog_.tensors) tensor.dtype = DType::bf16;
    model_.family = "some";
    model_.scheme = "other";
    model_.stacked = true;
    model_.rules = {"r0", "r1", "r2"};
    model_.through = {{"t", DType::f32, {4}}, {"u", DType::i8, {5}}};
    model_.leaves = {{{"p", DType::bf16, {2}}, {"embed"}, {false}},
                     {{"q", DType::f16, {2, 3}}, {"layers", ""}, {true, false}}};
    Transfer both;
    both.map = identity_map({1});
    both.loops = {{2, 1}};
    both.sources = {0, 1};
    both.source_shape = {1};
    Transfer half;
    half.target = half.rule = 1;
    half.map = identity_map({3});
    half.sources = {2};
    half.source_shape = {2, 3};
    half.value = {0.5F, 2.0F};
    half.copy = true;
    half.row = 3;
    model_.transfers = {both, half};
    Fill fill;
    fill.target = 1;
    fill.rule = 2;
    fill.map = identity_map({3});
    fill.map.dst_base = 3;
    fill.scalar = 1.5;
    model_.fills = {fill};
    Drop drop;
    drop.source = 2;
    drop.rule = 2;
    drop.why = "padding";
    drop.same_as = 1;
    drop.map = identity_map({3});
    drop.map.src_base = 3;
    model_.drops = {drop};
    for (const Leaf& leaf : model_.leaves) {
      cut_.grids.push_back({leaf.shape, leaf.shape, leaf.shape});
      cut_.units.push_back(UnitForm{});
    }
    digests_.objects = {{"lr", 3, "00"}, {"step", 4, "01"}};
    digests_.nested = "02";
    files_ = {{{"items/d/00000", 5, ""}}, {{"x", 6, "03"}}, {{"y", 7, "04"}}, {{"z", 8, "05"}}};
  }

  // Writes the record, and returns it as it is read.
  Manifest read() const {
    PlanFacts facts;
    facts.options.step = 9;
    facts.options.digests = has_digests_;
    facts.identity["part"] = "value";
    const Plan plan{Layout(make_model(catalog_, model_), cut_, {}, false), facts};
    OutputDigests digests = output_digests(plan, kThree, {});
    digests.objects = digests_.objects;
    digests.nested = digests_.nested;
    std::string text;
    write_manifest(plan, digests, files_,
                   [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
    write_text(path_, text);
    return read_manifest(path_);
  }

  TempDir dir_;
  std::string path_ = dir_ / "hfshard.json";
  Catalog catalog_;
  CompiledModel model_;
  CutLeaves cut_;
  OutputDigests digests_;
  WrittenFiles files_;
  bool has_digests_ = true;
};

TEST_F(ManifestRecord, IsReadAsItWasWritten) {
  const Manifest read = this->read();
  EXPECT_FALSE(read.is_damaged);
  EXPECT_EQ(read.step, 9U);
  EXPECT_EQ(read.identity.at("part").as_string(), "value");
  EXPECT_EQ(read.revision, "");
  EXPECT_EQ(read.structure_sha256, "");
  EXPECT_EQ(read.digests.objects, digests_.objects);
  EXPECT_EQ(read.digests.nested, "02");
  EXPECT_EQ(read.digests.sums, kThree);
  EXPECT_EQ(read.digests.recorded, (std::vector<bool>{true, true}));
  EXPECT_EQ(read.files.data, files_.data);
  EXPECT_EQ(read.files.step, files_.step);
  EXPECT_EQ(read.files.side, files_.side);
  EXPECT_EQ(read.files.root, files_.root);
  const Model& model = *read.model;
  EXPECT_EQ(model.family, "some");
  EXPECT_EQ(model.scheme, "other");
  EXPECT_TRUE(model.stacked);
  EXPECT_EQ(model.rules, model_.rules);
  ASSERT_EQ(model.through.size(), 2U);
  EXPECT_EQ(model.through[1].name, "u");
  EXPECT_EQ(model.through[1].dtype, DType::i8);
  EXPECT_EQ(model.through[1].shape, (Shape{5}));
  EXPECT_EQ(model.catalog().tensors[2].name, "c");
  EXPECT_EQ(model.catalog().tensors[2].shape, (Shape{2, 3}));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(model.leaves[i].name, model_.leaves[i].name);
    EXPECT_EQ(model.leaves[i].dtype, model_.leaves[i].dtype);
    EXPECT_EQ(model.leaves[i].shape, model_.leaves[i].shape);
    EXPECT_EQ(model.leaves[i].axes, model_.leaves[i].axes);
    EXPECT_EQ(model.leaves[i].stacked, model_.leaves[i].stacked);
  }
}

TEST_F(ManifestRecord, KeepsEveryRule) {
  const Manifest read = this->read();
  const Model& model = *read.model;
  for (std::size_t i = 0; i < 2; ++i) {
    const Transfer& wanted = model_.transfers[i];
    const Transfer& found = model.transfers.at(i);
    EXPECT_EQ(found.target, wanted.target);
    EXPECT_EQ(found.rule, wanted.rule);
    EXPECT_EQ(found.map, wanted.map);
    EXPECT_EQ(found.sources, wanted.sources);
    EXPECT_EQ(found.source_shape, wanted.source_shape);
    EXPECT_EQ(found.source_dtype, DType::bf16);
    EXPECT_EQ(found.value.mul, wanted.value.mul);
    EXPECT_EQ(found.value.add, wanted.value.add);
    EXPECT_EQ(found.copy, wanted.copy);
    EXPECT_EQ(found.row, wanted.row);
    EXPECT_EQ(found.loops.size(), wanted.loops.size());
  }
  EXPECT_EQ(model.transfers[0].loops.at(0).extent, 2U);
  EXPECT_EQ(model.transfers[0].loops.at(0).dst_step, 1);
  const Fill& fill = model.fills.at(0);
  EXPECT_EQ(fill.target, 1U);
  EXPECT_EQ(fill.rule, 2U);
  EXPECT_EQ(fill.map, model_.fills[0].map);
  EXPECT_EQ(fill.scalar, 1.5);
  const Drop& drop = model.drops.at(0);
  EXPECT_EQ(drop.source, 2U);
  EXPECT_EQ(drop.rule, 2U);
  EXPECT_EQ(drop.why, "padding");
  EXPECT_EQ(drop.same_as, 1U);
  EXPECT_EQ(drop.map, model_.drops[0].map);
  model_.drops[0].map = identity_map({2, 3});
  model_.drops[0].same_as.reset();
  const Manifest whole = this->read();
  EXPECT_EQ(whole.model->drops.at(0).map, identity_map({2, 3})) << "all of it";
  EXPECT_FALSE(whole.model->drops[0].same_as.has_value());
}

TEST_F(ManifestRecord, SaysWhatContradictsIt) {
  (void)read();
  const Json good = parse_json(read_file(path_), path_);
  const auto item = [](Json& json, const char* list, std::size_t at = 0) -> Json& {
    return json[list].array().at(at);
  };
  constexpr const char* kRule = "a rule names a leaf or source that is not listed";
  constexpr const char* kFill = "a fill names a leaf or rule that is not listed";
  constexpr const char* kDrop = "a drop names a tensor or rule that is not listed";
  const std::vector<std::pair<std::string, std::function<void(Json&)>>> cases{
      {kRule, [&](Json& json) { item(json, "transfers")["leaf"] = 2; }},
      {kRule, [&](Json& json) { item(json, "transfers")["rule"] = 3; }},
      {kRule, [&](Json& json) { item(json, "transfers")["sources"].array()[1] = Json(3); }},
      {kFill, [&](Json& json) { item(json, "fills")["leaf"] = 2; }},
      {kFill, [&](Json& json) { item(json, "fills")["rule"] = 3; }},
      {kDrop, [&](Json& json) { item(json, "drops")["source"] = 3; }},
      {kDrop, [&](Json& json) { item(json, "drops")["rule"] = 3; }},
      {kDrop, [&](Json& json) { item(json, "drops")["same_as"] = 3; }},
      {"unknown dtype f9", [&](Json& json) { item(json, "tensors")["dtype"] = "f9"; }},
      {"a digit has three numbers",
       [&](Json& json) { item(json, "fills")["map"]["digits"].array().at(0).array().pop_back(); }},
      {"a loop has two numbers",
       [&](Json& json) { item(json, "transfers")["loops"].array().at(0).array().pop_back(); }},
      {"the map of a rule or fill fits no leaf: the loops of a rule do not count its sources",
       [&](Json& json) { item(json, "transfers")["loops"] = Json::Array{}; }},
      {"a rule has no sources, or not one digest for each of them",
       [&](Json& json) { item(json, "transfers")["digests"].array().pop_back(); }},
      {"a rule of a leaf that is not linked has no digests",
       [&](Json& json) { item(json, "transfers")["digests"] = Json::Array{}; }},
      {"the rows of a rule do not divide those of its sources",
       [&](Json& json) { item(json, "transfers", 1)["row"] = 2; }},
      {"rules and fills reach 3 of 6 elements", [](Json& json) { json["fills"] = Json::Array{}; }},
      {"the tensors that rules lead through are not sorted",
       [&](Json& json) { item(json, "through")["name"] = "v"; }},
      {"a leaf is stacked along an axis that it lacks",
       [&](Json& json) { item(json, "leaves")["stacked"] = Json::Array{Json(1)}; }},
      {"a recorded file lies outside: \"../x\"",
       [&](Json& json) { item(json, "root_files")["path"] = "../x"; }},
      {"a recorded file lies outside: \"../x\"",
       [&](Json& json) { item(json, "data_files")["path"] = "../x"; }},
  };
  for (const auto& [sentence, damage] : cases) {
    Json bad = good;
    damage(bad);
    write_text(path_, dump_json(bad));
    const Error error = catch_error([&] { read_manifest(path_); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << sentence;
    EXPECT_EQ(error.sentence(), sentence);
    EXPECT_EQ(error.file(), path_);
  }
  Json newer = good;
  newer["schema"] = 2;
  write_text(path_, dump_json(newer));
  EXPECT_EQ(catch_error([&] { read_manifest(path_); }).sentence(),
            "the manifest was written by a newer hfshard");
}

// Codes have another dtype and shape than the tensor that holds them.
TEST_F(ManifestRecord, KeepsADecoderWithTheShapeOfItsCodes) {
  catalog_.tensors[2].dtype = DType::u8;
  Transfer& coded = model_.transfers[1];
  Decode decode;
  decode.form = {Code::int4, DType::bf16, 2, 6, 1, 2};
  decode.scales = {1};
  coded.source_shape = {2, 6};
  coded.decode = std::make_shared<const Decode>(decode);
  const Manifest read = this->read();
  const Transfer& found = read.model->transfers.at(1);
  EXPECT_EQ(found.source_shape, (Shape{2, 6}));
  EXPECT_EQ(found.source_dtype, DType::f4);
  ASSERT_NE(found.decode, nullptr);
  EXPECT_EQ(found.decode->form, decode.form);
  EXPECT_EQ(found.decode->scales, decode.scales);
  EXPECT_EQ(read.model->transfers.at(0).decode, nullptr);
}

// A list of files that is empty isn't written, and a linked leaf needs no digests.
TEST_F(ManifestRecord, KeepsALinkedLeafWithoutDigests) {
  files_ = {};
  digests_ = {};
  cut_.grids = {};
  for (const Leaf& leaf : model_.leaves) {
    Grid grid{leaf.shape, leaf.shape, leaf.shape};
    grid.linked = leaf.name == "p";
    cut_.grids.push_back(grid);
  }
  has_digests_ = false;
  const Manifest read = this->read();
  EXPECT_EQ(read.digests.recorded, (std::vector<bool>{false, true}));
  EXPECT_EQ(read.digests.sums, (std::vector<Digest128>{{}, {}, kThree[2]}));
  EXPECT_TRUE(read.digests.objects.empty());
  EXPECT_EQ(read.digests.nested, "");
  EXPECT_TRUE(read.files.data.empty());
  EXPECT_EQ(read.digests.root, root_digest(*read.model, read.digests));
}

}  // namespace
}  // namespace hfshard
