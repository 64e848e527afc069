#include "run/check/output_manifest.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// A member of the manifest: its path, with numbers for places in a list.
struct Member {
  std::vector<std::string> keys;
  bool in_list = false;
  // Without the numbers.
  std::string name() const {
    std::string out;
    for (const std::string& key : keys) {
      if (key.find_first_not_of("0123456789") == key.npos) continue;
      out += (out.empty() ? "" : ".") + key;
    }
    return out;
  }
};

Json& go_to(Json& json, const std::vector<std::string>& keys, std::size_t depth) {
  Json* at = &json;
  for (std::size_t i = 0; i < depth; ++i) {
    at = at->is_array() ? &at->array().at(std::stoul(keys[i])) : &(*at)[keys[i]];
  }
  return *at;
}

// Collects only the first and the last item of a list.
void collect(const Json& json, Member& at, std::vector<Member>& out) {
  if (!at.keys.empty()) out.push_back(at);
  if (json.is_object() && at.name() != "identity") {
    for (const auto& [key, value] : json.as_object()) {
      at.keys.push_back(key);
      at.in_list = false;
      collect(value, at, out);
      at.keys.pop_back();
    }
  }
  if (!json.is_array()) return;
  const std::size_t size = json.as_array().size();
  for (std::size_t i = 0; i < size; i += std::max<std::size_t>(size - 1, 1)) {
    at.keys.push_back(std::to_string(i));
    at.in_list = true;
    collect(json.as_array()[i], at, out);
    at.keys.pop_back();
  }
}

// Changes a value to another one of the same kind. Returns false if that isn't possible.
bool change(Json& value) {
  if (value.is_string()) {
    std::string text = value.as_string();
    if (text == "bf16") {
      text = "f16";
    } else {
      text.back() = text.back() == '0' ? '1' : '0';
    }
    value = Json(text);
  } else if (value.is_integer()) {
    value = Json(value.as_int() + 1);
  } else if (value.is_number()) {
    value = Json(value.as_double() + 1);
  } else {
    return false;
  }
  return true;
}

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    PlanOptions options = small_options();
    options.mapping.options["vocab"] = "56";  // with fills
    convert(small_plan(source_, options), to_output(out_));
    good_ = parse_json(read_file(path_), path_);
    Member at;
    collect(good_, at, members_);
  }

  // Returns whether verify detects a changed manifest.
  bool noticed(const Json& changed, const std::string& what) {
    write_text(path_, dump_json(changed));
    try {
      QuietReporter reporter;
      const Manifest manifest = read_manifest(path_);
      VerifyResult found =
          verify_digests(*format_of("orbax").open(out_), manifest, to_output(out_), reporter);
      verify_files(manifest.files.step, dir_ / "out/0", to_output(out_), found);
      verify_files(manifest.files.side, dir_ / "out/hf", to_output(out_), found);
      verify_data_sizes(manifest.files.data, dir_ / "out/0", found);
      return !found.differences.empty();
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported)
          << what << ": " << error.format();
      EXPECT_EQ(error.file(), path_) << what;
      return true;
    }
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
  std::string path_ = dir_ / "out/0/hfshard.json";
  Json good_;
  std::vector<Member> members_;
};

// Members that only describe. Nothing that is verified depends on them.
bool describes(const Member& member) {
  static const std::set<std::string> kNames{"data_files",
                                            "data_files.path",
                                            "data_files.size_bytes",
                                            "drops",
                                            "drops.rule",
                                            "drops.source",
                                            "drops.why",
                                            "family",
                                            "fills.map.src",
                                            "fills.rule",
                                            "identity",
                                            "layers",
                                            "leaves.axes",
                                            "leaves.chunk",
                                            "leaves.inner",
                                            "leaves.shard",
                                            "leaves.stacked",
                                            "plan_id",
                                            "scheme",
                                            "step",
                                            "tensors.dtype",
                                            "tensors.shape",
                                            "tool",
                                            "rules",
                                            "transfers.rule",
                                            "files",
                                            "side_files",
                                            "record_sha256"};
  // Only the target side of a fill's map is used. Names of rules are for people.
  const bool unused = member.name() == "fills.map.digits" && member.keys.back() == "1";
  return unused || kNames.contains(member.name());
}

// Its lower 32 bits are 0.
constexpr std::uint64_t kBeyond = std::uint64_t{1} << 32;

void raise(Json& index) { index = index.as_uint() + kBeyond; }

Json dropped(std::uint64_t source, std::uint64_t rule, std::uint64_t same_as) {
  Json out;
  out["source"] = source;
  out["rule"] = rule;
  out["same_as"] = same_as;
  out["why"] = "a test";
  return out;
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

// The source's own files are another checkpoint.
TEST_F(ManifestTest, ACheckpointWithoutAStructureDiffersFromATree) {
  Manifest manifest = read_manifest(path_);
  manifest.structure_sha256 = std::string(64, '0');
  QuietReporter reporter;
  const std::vector<Difference> found =
      verify_digests(*open_checkpoint(source_), manifest, to_output(out_), reporter).differences;
  EXPECT_EQ(std::ranges::count(found,
                               "the tree's lists, dicts, empty nodes, strings or custom metadata "
                               "differ from what was written",
                               &Difference::what),
            1);
}

// Files that the output lacks, or has as directories, are told when its own record is checked.
TEST_F(ManifestTest, AMissingConfigIsNotComparedWithTheSource) {
  write_text(join_path(source_, "tokenizer.json"), "{}");
  const Plan plan = small_plan(source_);
  const auto differences = [&] {
    VerifyResult found;
    verify_source_files(plan, dir_ / "out/0", dir_ / "out/hf", to_output(out_), found);
    return found.differences;
  };
  EXPECT_EQ(differences().size(), 1U) << "it lacks the tokenizer";
  make_directories(dir_ / "out/hf/tokenizer.json");
  EXPECT_EQ(differences().size(), 0U);
  std::filesystem::remove(dir_ / "out/hf/config.json");
  EXPECT_EQ(differences().size(), 0U);
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

// Bytes that a short file lacks are damage of their arrays already. Nothing reads additional bytes.
TEST_F(ManifestTest, ADataFileOfAnotherSizeIsADifference) {
  const std::vector<FileRecord> data = read_manifest(path_).files.data;
  ASSERT_FALSE(data.empty());
  const std::string path = join_path(dir_ / "out/0", data[0].path);
  const std::uint64_t size = data[0].size_bytes;
  const Difference told{"a leaf", "", "", "damaged", path};
  const Difference elsewhere{"a leaf", "", "", "damaged", path + "1"};
  const auto told_sizes = [&](const Difference& known) {
    VerifyResult found;
    found.differences = {known};
    verify_data_sizes(data, dir_ / "out/0", found);
    std::vector<std::string> out;
    for (std::size_t i = 1; i < found.differences.size(); ++i)
      out.push_back(found.differences[i].what);
    return out;
  };
  const auto sentence = [&](std::uint64_t now) {
    return std::vector{fmt::format("the file has {} bytes, {} were written ({})", now, size, path)};
  };
  EXPECT_EQ(told_sizes(told), std::vector<std::string>{});
  std::filesystem::resize_file(path, size + 1);
  EXPECT_EQ(told_sizes(told), sentence(size + 1));
  EXPECT_EQ(told_sizes(elsewhere), sentence(size + 1));
  std::filesystem::resize_file(path, size - 1);
  EXPECT_EQ(told_sizes(told), std::vector<std::string>{});
  EXPECT_EQ(told_sizes(elsewhere), sentence(size - 1));
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
