#include "run/check/output_manifest.h"

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/text.h"
#include "run/check/manifest_decode.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "unit/run/check/two_rules.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

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

TEST_F(ManifestTest, RowsAndChunksThatDoNotFitAreRefused) {
  const auto refused = [&](const char* list, const char* key, const Json& value) {
    Json changed = good_;
    changed[list].array()[0][key] = value;
    write_text(path_, dump_json(changed));
    const Error error = catch_error([&] { read_manifest(path_); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    return error.sentence();
  };
  constexpr const char* kRows = "the rows of a rule do not divide those of its sources";
  Json fits = good_;
  fits["transfers"].array()[0]["row"] = 1;
  write_text(path_, dump_json(fits));
  EXPECT_EQ(read_manifest(path_).model->transfers.at(0).row, 1U);
  EXPECT_EQ(refused("transfers", "row", Json(0)), kRows);
  EXPECT_EQ(refused("transfers", "row", Json(1009)), kRows);
  EXPECT_EQ(refused("leaves", "inner", Json::Array{Json(1), Json(1), Json(1), Json(1), Json(1)}),
            "a chunk's rank differs from its leaf's");
}

TEST_F(ManifestTest, AnotherStructureOfTheTreeIsADifference) {
  Manifest manifest = read_manifest(path_);
  manifest.structure_sha256 = std::string(64, '0');
  QuietReporter reporter;
  const std::vector<Difference> found =
      verify_digests(*format_of("orbax").open(out_), manifest, to_output(out_), reporter)
          .differences;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].what,
            "the tree's lists, dicts, empty nodes, strings or custom metadata differ from what was "
            "written");
}

TEST_F(ManifestTest, AFileThatBecameADirectoryIsADifference) {
  const Manifest manifest = read_manifest(path_);
  ASSERT_FALSE(manifest.files.side.empty());
  const std::string path = join_path(dir_ / "out/hf", manifest.files.side[0].path);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  VerifyResult found;
  verify_files(manifest.files.side, dir_ / "out/hf", to_output(out_), found);
  ASSERT_EQ(found.differences.size(), 1U);
  EXPECT_TRUE(found.differences[0].what.starts_with("this isn't a file any more"))
      << found.differences[0].what;
}

TEST_F(ManifestTest, EveryMemberThatVerifyReliesOnIsMissed) {
  EXPECT_FALSE(noticed(good_, "as written"));
  for (const Member& member : members_) {
    Json bad = good_;
    Json& parent = go_to(bad, member.keys, member.keys.size() - 1);
    if (member.in_list) {
      Json::Array& list = parent.array();
      list.erase(list.begin() + std::stol(member.keys.back()));
    } else {
      parent.object().erase(member.keys.back());
    }
    const bool found = noticed(bad, "without " + join(member.keys, "."));
    EXPECT_TRUE(found || describes(member)) << "without " << join(member.keys, ".");
  }
}

TEST_F(ManifestTest, EveryMemberThatVerifyReliesOnCountsWithItsValue) {
  std::set<std::string> changed;
  for (const Member& member : members_) {
    Json bad = good_;
    if (!change(go_to(bad, member.keys, member.keys.size()))) continue;
    changed.insert(member.name());
    const bool found = noticed(bad, join(member.keys, ".") + " changed");
    EXPECT_TRUE(found || describes(member)) << join(member.keys, ".");
  }
  for (const char* name : {"schema", "root_digest", "fills.value", "fills.map.dst", "leaves.dtype",
                           "leaves.shape", "rules", "tensors.name", "transfers.digests",
                           "transfers.map.src", "transfers.map.digits", "transfers.loops"}) {
    EXPECT_TRUE(changed.contains(name)) << name;
  }
}

TEST_F(ManifestTest, OneThatContradictsItselfIsCorruptAndANewerOneUnsupported) {
  const auto item = [](Json& json, const char* list) -> Json& { return json[list].array().at(0); };
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> cases{
      {"schema", [](Json& json) { json["schema"] = 2; }},
      {"rank of a chunk", [&](Json& json) { item(json, "leaves")["chunk"].array().pop_back(); }},
      {"stacked axis", [&](Json& json) { item(json, "leaves")["stacked"] = Json::Array{Json(9)}; }},
      {"stacked axis after the last",
       [&](Json& json) {
         Json& leaf = item(json, "leaves");
         leaf["stacked"] = Json::Array{Json(leaf["shape"].as_array().size())};
       }},
      {"leaf", [&](Json& json) { item(json, "transfers")["leaf"] = 99; }},
      {"rule", [&](Json& json) { item(json, "transfers")["rule"] = 99; }},
      {"source", [&](Json& json) { item(json, "transfers")["sources"].array().at(0) = Json(99); }},
      {"no source", [&](Json& json) { item(json, "transfers")["sources"] = Json::Array{}; }},
      {"number of digests",
       [&](Json& json) { item(json, "transfers")["digests"].array().emplace_back("0"); }},
      {"no digests", [&](Json& json) { item(json, "transfers")["digests"] = Json::Array{}; }},
      {"half a digest",
       [&](Json& json) {
         Json& digest = item(json, "transfers")["digests"].array().at(0);
         digest = Json(digest.as_string().substr(0, 16));
       }},
      {"loops",
       [&](Json& json) { item(json, "transfers")["loops"] = Json::Array{Json::Array{Json(2)}}; }},
      {"a loop too many",
       [&](Json& json) {
         item(json, "transfers")["loops"] = Json::Array{Json::Array{Json(2), Json(1)}};
       }},
      {"digit",
       [&](Json& json) {
         item(json, "transfers")["map"]["digits"].array().at(0).array().emplace_back(1);
       }},
      {"leaf of a fill", [&](Json& json) { item(json, "fills")["leaf"] = 99; }},
      {"rule of a fill", [&](Json& json) { item(json, "fills")["rule"] = 99; }},
      {"leaf beyond 32 bits", [&](Json& json) { raise(item(json, "transfers")["leaf"]); }},
      {"rule beyond 32 bits", [&](Json& json) { raise(item(json, "transfers")["rule"]); }},
      {"source beyond 32 bits",
       [&](Json& json) { raise(item(json, "transfers")["sources"].array().at(0)); }},
      {"leaf of a fill beyond 32 bits", [&](Json& json) { raise(item(json, "fills")["leaf"]); }},
      {"rule of a fill beyond 32 bits", [&](Json& json) { raise(item(json, "fills")["rule"]); }},
      {"dropped tensor beyond 32 bits",
       [](Json& json) { json["drops"] = Json::Array{dropped(kBeyond, 0, 0)}; }},
      {"rule of a drop beyond 32 bits",
       [](Json& json) { json["drops"] = Json::Array{dropped(0, kBeyond, 0)}; }},
      {"original of a drop beyond 32 bits",
       [](Json& json) { json["drops"] = Json::Array{dropped(0, 0, kBeyond)}; }},
      {"a file outside",
       [&](Json& json) { item(json, "files")["path"] = "../../source/config.json"; }},
      {"a fill too many",
       [&](Json& json) { json["fills"].array().push_back(json["fills"].as_array()[0]); }},
  };
  for (const auto& [what, damage] : cases) {
    Json bad = good_;
    damage(bad);
    write_text(path_, dump_json(bad));
    const Error error = catch_error([&] { read_manifest(path_); });
    const bool schema = bad.at("schema") != good_.at("schema");
    EXPECT_EQ(error.code(), schema ? ErrorCode::unsupported : ErrorCode::corrupt)
        << what << ": " << error.format();
    EXPECT_EQ(error.file(), path_) << what;
  }
}

// It detects any change, even of members that only describe.
TEST_F(ManifestTest, KnowsWhetherItIsAsItWasWritten) {
  const std::string text = read_file(path_);
  EXPECT_FALSE(read_manifest(path_).is_damaged);
  std::string other = text;
  other.replace(other.find("qwen3.json"), 5, "qwen2");
  write_text(path_, other);
  EXPECT_TRUE(read_manifest(path_).is_damaged);
  EXPECT_EQ(catch_error([&] { read_intact_manifest(path_); }).code(), ErrorCode::corrupt);
  write_text(path_, text + "\n");
  EXPECT_TRUE(read_manifest(path_).is_damaged);
  const std::size_t own = text.find(",\n\"record_sha256\"");
  write_text(path_, text.substr(0, own) + "}\n");  // as before 0.2.0
  EXPECT_FALSE(read_manifest(path_).is_damaged);
}

TEST_F(ManifestTest, AManifestThatEndsEarlyIsCorruptAndOneThatIsNotThereIsNotFound) {
  const std::string text = read_file(path_);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 2}) {
    write_text(path_, text.substr(0, size));
    const Error error = catch_error([&] { read_manifest(path_); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << size;
    EXPECT_EQ(error.file(), path_);
  }
  EXPECT_EQ(catch_error([&] { read_manifest(dir_ / "none"); }).code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace hfshard
