// The user's options survive plan.json. Workers, `finalize` and `verify` build the plan again from
// it, so a lost option would be another output under the same command.

#include "plan/options_json.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns every member of PlanOptions as text, with those of its structs. A structured binding
// names all members of a struct, so a new one doesn't compile. Then list it here, in options_json,
// in options_from_json, and add a change below.
constexpr std::size_t kRulesName = 15;
std::vector<std::string> members_of(const PlanOptions& options) {
  const auto& [mapping, target, meshes, rules_text, rules_name, chunk_bytes, shard_bytes, step,
               encoding, link, in_place, digests, taken, tree] = options;
  const auto& [take, leave, ignore_index] = taken;
  [[maybe_unused]] const auto& [same, axes, config_text, config_name, source_step, root, tree_name,
                                item_name, step_prefix, step_digits, direct, all_items] = tree;
  const auto& [scheme, dialect, stacked, num_layers, values, include, exclude, drop, untie, dtype,
               keep_dtype, files, casts, prefix, flat_names] =
      mapping;  // flat_names follows from the target
  const auto& [checksum, zstd_level] = encoding;
  const auto joined = [](const std::vector<std::string>& items) {
    std::string out;
    for (const std::string& item : items) out += "[" + item + "]";
    return out;
  };
  std::string named;
  for (const auto& [name, value] : values) named += "[" + name + "][" + value + "]";
  std::string cast_text;
  for (const auto& [glob, to] : casts)
    cast_text += "[" + glob + "][" + std::string(to_string(to)) + "]";
  // Everything except how a file was named, which doesn't matter after reading it.
  std::string file_text;
  for (const auto& [family, name, text, asked, path] : files)
    file_text += "[" + family + "][" + name + "][" + text + "]";
  return {scheme,
          std::to_string(static_cast<int>(stacked)),
          num_layers ? std::to_string(*num_layers) : "none",
          named,
          joined(include),
          joined(exclude),
          joined(drop),
          std::to_string(static_cast<int>(untie)),
          dtype ? std::string(to_string(*dtype)) : "none",
          std::to_string(static_cast<int>(keep_dtype)),
          file_text,
          cast_text,
          target,
          joined(meshes),
          rules_text ? "[" + *rules_text + "]" : "none",
          rules_name,
          std::to_string(chunk_bytes),
          std::to_string(shard_bytes),
          std::to_string(step.value_or(0)),
          std::to_string(static_cast<int>(checksum)),
          std::to_string(zstd_level),
          std::to_string(static_cast<int>(link)),
          std::to_string(static_cast<int>(in_place)),
          std::to_string(static_cast<int>(digests)),
          std::to_string(static_cast<int>(same)),
          joined(axes),
          config_text ? "[" + *config_text + "]" : "none",
          source_step ? std::to_string(*source_step) : "none",
          root,
          tree_name,
          item_name,
          step_prefix,
          std::to_string(step_digits),
          std::to_string(static_cast<int>(direct)),
          std::to_string(static_cast<int>(all_items)),
          prefix,
          joined(take),
          joined(leave),
          std::to_string(static_cast<int>(ignore_index)),
          dialect};
}

struct OptionChange {
  const char* what;
  std::function<void(PlanOptions&)> apply;
};

// Each changes one thing that the command line can change. `rules_name` is only for errors.
std::vector<OptionChange> changes_of_the_mapping() {
  return {
      {"scheme", [](PlanOptions& o) { o.mapping.scheme = "hf"; }},
      {"prefix", [](PlanOptions& o) { o.mapping.prefix = "model."; }},
      {"dialect", [](PlanOptions& o) { o.mapping.dialect = "modules"; }},
      {"layers", [](PlanOptions& o) { o.mapping.stacked = false; }},
      {"one layer", [](PlanOptions& o) { o.mapping.num_layers = 1; }},
      {"four layers", [](PlanOptions& o) { o.mapping.num_layers = 4; }},
      {"option",
       [](PlanOptions& o) {
         o.mapping.options = {{"rope", "halves"}, {"vocab", "7"}};
       }},
      {"include",
       [](PlanOptions& o) {
         o.mapping.include = {"a.*", "b=\"x\"\\"};
       }},
      {"exclude",
       [](PlanOptions& o) {
         o.mapping.exclude = {"*.bias", "vision*"};
       }},
      {"drop",
       [](PlanOptions& o) {
         o.mapping.drop = {"lm_head.weight", "*.scale"};
       }},
      {"item name", [](PlanOptions& o) { o.tree.item_name = "state"; }},
      {"prefix of a step's name", [](PlanOptions& o) { o.tree.step_prefix = "checkpoint_"; }},
      {"digits of a step's name", [](PlanOptions& o) { o.tree.step_digits = 8; }},
      {"a step without items", [](PlanOptions& o) { o.tree.direct = true; }},
      {"untie", [](PlanOptions& o) { o.mapping.untie = true; }},
      {"take files",
       [](PlanOptions& o) {
         o.files.take = {"model.fp16*", "x.safetensors"};
       }},
      {"leave files",
       [](PlanOptions& o) {
         o.files.leave = {"model.fp16*", "x.safetensors"};
       }},
      {"ignore the index", [](PlanOptions& o) { o.files.ignore_index = true; }},
      {"dtype f32", [](PlanOptions& o) { o.mapping.dtype = DType::f32; }},
      {"dtype f16", [](PlanOptions& o) { o.mapping.dtype = DType::f16; }},
      {"dtype bf16", [](PlanOptions& o) { o.mapping.dtype = DType::bf16; }},
      {"keep", [](PlanOptions& o) { o.mapping.keep_dtype = true; }},
      {"cast",
       [](PlanOptions& o) {
         o.mapping.casts = {{"*query.kernel", DType::f32}, {"a=b*", DType::f16}};
       }},
      {"casts in another order",
       [](PlanOptions& o) {
         o.mapping.casts = {{"a=b*", DType::f16}, {"*query.kernel", DType::f32}};
       }},
      {"mapping",
       [](PlanOptions& o) {
         o.mapping.files = {{"mine", "mine.json", "{\"family\": \"mine\"}\n"}, {"b", "b", ""}};
       }},
  };
}

std::vector<OptionChange> other_changes() {
  return {
      {"target", [](PlanOptions& o) { o.target = "null"; }},
      {"mesh", [](PlanOptions& o) { o.meshes = {"fsdp=4"}; }},
      {"two meshes",
       [](PlanOptions& o) {
         o.meshes = {"fsdp=4", "fsdp=8,tensor=2"};
       }},
      {"rules", [](PlanOptions& o) { o.rules_text = "[[\"embed\", [\"fsdp\"]]]\n"; }},
      {"empty rules", [](PlanOptions& o) { o.rules_text = ""; }},
      {"chunk_bytes", [](PlanOptions& o) { o.chunk_bytes = UINT64_MAX; }},
      {"shard_bytes", [](PlanOptions& o) { o.shard_bytes = 2000000000; }},
      {"step", [](PlanOptions& o) { o.step = 12000; }},
      {"no checksum", [](PlanOptions& o) { o.encoding.checksum = false; }},
      {"zstd 1", [](PlanOptions& o) { o.encoding.zstd_level = 1; }},
      {"zstd 22", [](PlanOptions& o) { o.encoding.zstd_level = 22; }},
      {"link", [](PlanOptions& o) { o.link = true; }},
      {"link in place", [](PlanOptions& o) { o.link = o.in_place = true; }},
      {"link without digests",
       [](PlanOptions& o) {
         o.link = true;
         o.digests = false;
       }},
      {"under the same names", [](PlanOptions& o) { o.tree.same = true; }},
      {"axes",
       [](PlanOptions& o) {
         o.tree.axes = {"*.kernel=embed,,mlp", "x="};
       }},
      {"config", [](PlanOptions& o) { o.tree.config_text = "{\"a\": 1}\n"; }},
      {"step of the source", [](PlanOptions& o) { o.tree.step = 7; }},
      {"subtree of the source", [](PlanOptions& o) { o.tree.root = "model"; }},
      {"tree of the source", [](PlanOptions& o) { o.tree.items = "state"; }},
      {"what lies beside it", [](PlanOptions& o) { o.tree.all_items = true; }},
  };
}

const std::vector<OptionChange>& option_changes() {
  static const std::vector<OptionChange> all = [] {
    std::vector<OptionChange> out = changes_of_the_mapping();
    for (OptionChange& change : other_changes()) out.push_back(std::move(change));
    return out;
  }();
  return all;
}

PlanOptions changed_by(const OptionChange& change) {
  PlanOptions options;
  change.apply(options);
  return options;
}

// Reads options as plan.json does: from text.
PlanOptions read_back(const PlanOptions& options) {
  return options_from_json(parse_json(dump_json_pretty(options_json(options)), "plan.json"));
}

void expect_survives(const PlanOptions& options) {
  std::vector<std::string> wanted = members_of(options);
  std::vector<std::string> found = members_of(read_back(options));
  wanted.erase(wanted.begin() + kRulesName);
  found.erase(found.begin() + kRulesName);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(read_back(options).rules_name,
            options.rules_text ? "recorded rules" : PlanOptions().rules_name);
}

TEST(OptionsJson, EveryOptionComesBackFromPlanJson) {
  expect_survives({});
  for (const OptionChange& change : option_changes()) {
    SCOPED_TRACE(change.what);
    expect_survives(changed_by(change));
  }
}

// Options that are recorded under one name must not hide each other.
TEST(OptionsJson, EveryPairOfOptionsComesBackFromPlanJson) {
  for (const OptionChange& first : option_changes()) {
    for (const OptionChange& second : option_changes()) {
      PlanOptions both = changed_by(first);
      second.apply(both);
      if (both.mapping.keep_dtype && both.mapping.dtype) continue;  // --dtype has one value
      SCOPED_TRACE(std::string(first.what) + ", " + second.what);
      expect_survives(both);
    }
  }
}

TEST(OptionsJson, EveryMemberHasAChange) {
  const std::vector<std::string> before = members_of({});
  std::set<std::size_t> seen{kRulesName};
  for (const OptionChange& change : option_changes()) {
    const std::vector<std::string> after = members_of(changed_by(change));
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] != after[i]) seen.insert(i);
    }
  }
  EXPECT_EQ(seen.size(), before.size());
}

// The record is part of the plan id, so no two of these can have the same one.
TEST(OptionsJson, DifferentOptionsHaveDifferentRecords) {
  std::set<std::string> records{dump_json(options_json({}))};
  for (const OptionChange& change : option_changes()) {
    EXPECT_TRUE(records.insert(dump_json(options_json(changed_by(change)))).second) << change.what;
  }
}

TEST(OptionsJson, ADamagedRecordIsRefused) {
  const Json good = options_json({});
  for (const auto& [member, unused] : good.as_object()) {
    Json::Object without = good.as_object();
    without.erase(member);
    EXPECT_THROW(options_from_json(Json(without)), Error) << member;
  }
  for (const char* cast : {"no dtype", "x=", "x=f33", "="}) {
    Json bad = good;
    bad["cast"].array().emplace_back(cast);
    EXPECT_EQ(catch_error([&] { options_from_json(bad); }).code(), ErrorCode::corrupt) << cast;
  }
}

}  // namespace
}  // namespace hfshard
