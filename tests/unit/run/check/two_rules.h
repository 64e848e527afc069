#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/text.h"
#include "run/check/manifest_decode.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {

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

inline std::string root_of(const TwoRules& made, const std::vector<Digest128>& sums) {
  return output_digests(made.build(), sums, {}).root;
}

inline Json manifest_of(const TwoRules& made) {
  const Plan plan = made.build();
  std::string text;
  write_manifest(plan, output_digests(plan, kSums, {}), {},
                 [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  return parse_json(text, "hfshard.json");
}

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

inline Json& go_to(Json& json, const std::vector<std::string>& keys, std::size_t depth) {
  Json* at = &json;
  for (std::size_t i = 0; i < depth; ++i) {
    at = at->is_array() ? &at->array().at(std::stoul(keys[i])) : &(*at)[keys[i]];
  }
  return *at;
}

// Collects only the first and the last item of a list.
inline void collect(const Json& json, Member& at, std::vector<Member>& out) {
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
inline bool change(Json& value) {
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
inline bool describes(const Member& member) {
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

inline void raise(Json& index) { index = index.as_uint() + kBeyond; }

inline Json dropped(std::uint64_t source, std::uint64_t rule, std::uint64_t same_as) {
  Json out;
  out["source"] = source;
  out["rule"] = rule;
  out["same_as"] = same_as;
  out["why"] = "a test";
  return out;
}

// Returns the error for a decoder of two scales with one member replaced.
inline Error refused_decode(const std::string& key, const Json& value,
                            const Shape& shape = {14, 32}) {
  Catalog catalog;
  catalog.tensors.resize(2);
  Json json = Json::Object{{"code", "f8_e4m3"},
                           {"scales", Json::Array{Json(0), Json(1)}},
                           {"block", Json::Array{Json(7), Json(8)}}};
  EXPECT_EQ(read_decode(json, {14, 32}, catalog).form.col_block, 8U);
  json[key] = value;
  return catch_error([&] { read_decode(json, shape, catalog); });
}

}  // namespace hfshard
