// Families of the user, rules that are shown, and sources that are checked.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/mapping/families.h"
#include "unit/mapping/tiny_family.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;

// Returns "family path asked" for each file.
Texts read(const std::vector<std::string>& asked, const std::string& directory) {
  Texts out;
  for (const MappingFile& file : read_mappings(asked, directory))
    out.push_back(file.family + " " + file.path + (file.asked ? " asked" : ""));
  return out;
}

TEST(ReadMappings, AnAskedFamilyReplacesTheOneInTheDirectory) {
  const TempDir dir;
  const std::string other = tiny_family_with(R"("family": "tiny")", R"("family": "other")");
  write_text(dir / "maps/tiny.json", kTinyFamily);
  write_text(dir / "maps/other.json", other);
  write_text(dir / "mine.json", tiny_family_with("\"F\": 5", "\"F\": 6"));
  EXPECT_EQ(
      read({dir / "mine.json"}, dir / "maps"),
      (Texts{"tiny " + (dir / "mine.json") + " asked", "other " + (dir / "maps/other.json")}));
  EXPECT_EQ(read({}, dir / "maps"),
            (Texts{"other " + (dir / "maps/other.json"), "tiny " + (dir / "maps/tiny.json")}));
  EXPECT_EQ(read({dir / "mine.json"}, ""), Texts{"tiny " + (dir / "mine.json") + " asked"});
  const MappingFile file = read_mappings({dir / "mine.json"}, dir / "maps").front();
  EXPECT_EQ(file.name, "mine.json");
  EXPECT_EQ(file.text, tiny_family_with("\"F\": 5", "\"F\": 6"));
}

TEST(ReadMappings, TwoFilesForOneFamilyAreRefused) {
  const TempDir dir;
  write_text(dir / "maps/a.json", kTinyFamily);
  write_text(dir / "maps/b.json", kTinyFamily);
  write_text(dir / "mine.json", kTinyFamily);
  const auto refused = [&](const std::vector<std::string>& asked, const std::string& directory) {
    const Error error = catch_error([&] { read_mappings(asked, directory); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.sentence(), "two mapping files define family \"tiny\"");
    return error.file();
  };
  EXPECT_EQ(refused({dir / "mine.json", dir / "maps/a.json"}, ""), dir / "maps/a.json");
  EXPECT_EQ(refused({}, dir / "maps"), dir / "maps/b.json");
  EXPECT_EQ(read({dir / "mine.json"}, dir / "maps").size(), 1U) << "it replaces both";
}

// A copy of this project's `mappings` has them: a schema and shared parts.
TEST(ReadMappings, OtherJsonIsSkippedAndADamagedFamilyIsAnError) {
  const TempDir dir;
  write_text(dir / "maps/a.json", R"({"family": "x"})");
  write_text(dir / "maps/b.json", R"({"match": {}})");
  write_text(dir / "maps/c.json", "[1]");
  write_text(dir / "maps/d.json", "[1, 2");
  write_text(dir / "maps/e.json/inside.json", kTinyFamily);
  write_text(dir / "maps/tiny.json", kTinyFamily);
  EXPECT_EQ(read({}, dir / "maps"), Texts{"tiny " + (dir / "maps/tiny.json")});
  write_text(dir / "maps/f.json", R"({"family": "x", )");
  const Error error = catch_error([&] { read_mappings({}, dir / "maps"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.file(), dir / "maps/f.json");
}

TEST(ListMappings, AFamilyThatTheUserReplacedHasNoProof) {
  const auto qwen3 = [](const std::vector<MappingFile>& own) {
    const std::vector<FamilySummary> all = list_mappings(own);
    EXPECT_EQ(std::ranges::count(all, "qwen3", &FamilySummary::name), 1);
    return *std::ranges::find(all, "qwen3", &FamilySummary::name);
  };
  const FamilySummary built_in = qwen3({});
  EXPECT_GT(built_in.proof.accounted, 0U);
  EXPECT_EQ(built_in.model_types, Texts{"qwen3"});
  EXPECT_EQ(std::ranges::count(built_in.architectures, "Qwen3ForCausalLM"), 1);
  EXPECT_EQ(std::ranges::count(built_in.schemes, "torchtitan"), 1);
  const std::string text(family_by_name("qwen3").text);
  const FamilySummary own = qwen3({{"qwen3", "qwen3.json", text, false}});
  EXPECT_EQ(own.proof.accounted, 0U);
  EXPECT_EQ(own.model_types, built_in.model_types);
  EXPECT_EQ(list_schemes().front().name, "maxtext");
  EXPECT_EQ(list_schemes().back().name, "hf");
  EXPECT_EQ(list_dialects().front().name, "files");
}

TEST(ShowMapping, SchemeHfNeedsADialectThatTheFamilyHas) {
  FamilyChoice choice;
  choice.family = "flux";
  const Error none = catch_error([&] { show_mapping(choice, true, "hf"); });
  EXPECT_EQ(none.code(), ErrorCode::usage);
  EXPECT_EQ(none.sentence(), "--scheme hf has no rules; it keeps names and shapes");
  EXPECT_EQ(none.hint_text(), "pass --dialect modules, which has rules");
  const Error lacks = catch_error([&] { show_mapping(choice, true, "hf", "modules"); });
  EXPECT_EQ(lacks.code(), ErrorCode::not_found);
  EXPECT_EQ(lacks.sentence(), "family \"flux\" has no dialect \"modules\"");
  EXPECT_EQ(lacks.file(), "mappings/flux.json");
  choice.family = "qwen3_moe";
  const auto shown = [&](bool stacked, const std::string& scheme, const std::string& dialect) {
    const FamilyRules rules = show_mapping(choice, stacked, scheme, dialect);
    EXPECT_FALSE(rules.rules.empty());
    EXPECT_EQ(parse_json(rules.config, ""), family_info("qwen3_moe").example);
    return rules.family + "/" + rules.scheme + "/" + rules.dialect +
           (rules.stacked ? "/stacked" : "");
  };
  EXPECT_EQ(shown(true, "", "files"), "qwen3_moe/maxtext//stacked");
  EXPECT_EQ(shown(false, "", "files"), "qwen3_moe/maxtext/");
  EXPECT_EQ(shown(false, "torchtitan", "files"), "qwen3_moe/torchtitan/");
  EXPECT_EQ(shown(false, "hf", "modules"), "qwen3_moe/hf/modules");
}

class CheckSource : public testing::Test {
 protected:
  // Gives all tensors in the index another prefix, and removes the weights. A module of layer 0
  // gets a wrapper, if it has a name.
  std::string names_only(const std::string& prefix, const std::string& wrapped = {}) {
    const std::string out = copy_fixture("qwen3", dir_ / ("names" + prefix + wrapped));
    const std::string path = out + "/model.safetensors.index.json";
    const Json index = parse_json(read_file(path), path);
    Json changed;
    changed["weight_map"] = Json::Object{};
    for (const auto& [name, file] : index.at("weight_map").as_object()) {
      std::string stored = prefix + name;
      const std::size_t at = wrapped.empty() ? std::string::npos : stored.find(".0." + wrapped);
      if (at != std::string::npos) stored.insert(at + 3, "_orig_mod.");
      changed["weight_map"][stored] = file;
      std::filesystem::remove(join_path(out, file.as_string()));
    }
    write_text(path, dump_json(changed));
    return out;
  }

  TempDir dir_;
  Reporter quiet_;
};

TEST_F(CheckSource, NamesOfAModelWithoutItsWeightsAreCheckedUnderItsOwnNames) {
  const CheckReport plain = check_mapping(names_only(""), {}, {});
  EXPECT_FALSE(plain.shapes_seen);
  EXPECT_EQ(plain.source_notes, Texts());
  EXPECT_TRUE(plain.problems.empty());
  const CheckReport wrapped = check_mapping(names_only("module."), {}, {});
  EXPECT_TRUE(wrapped.problems.empty());
  EXPECT_EQ(wrapped.leaves, plain.leaves);
  EXPECT_EQ(wrapped.source_notes,
            Texts{"hfshard removed the wrapper \"module.\" from every tensor name"});
  MappingOptions prefix;
  prefix.prefix = "net.";
  const CheckReport prefixed = check_mapping(names_only("net."), prefix, {});
  EXPECT_TRUE(prefixed.problems.empty());
  EXPECT_EQ(prefixed.source_notes,
            Texts{"hfshard removed \"net.\" from every tensor name (--prefix)"});
  SourceName source(names_only("x."));
  source.ignore_index = true;
  EXPECT_EQ(catch_error([&] { check_mapping(source, {}, {}); }).code(), ErrorCode::not_found);
}

TEST_F(CheckSource, ATreeIsCheckedAtItsStepOnItsWayBackToTheModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions options;
  for (const std::uint64_t step : {3U, 12U}) {
    options.step = step;
    hfshard::convert(source, options, to_output(dir_ / "run"), quiet_);
  }
  SourceName run(dir_ / "run");
  const CheckReport highest = check_mapping(run, {}, {});
  EXPECT_TRUE(highest.problems.empty());
  EXPECT_EQ(highest.scheme, "hf");
  EXPECT_EQ(highest.step, 12U);
  EXPECT_EQ(highest.other_steps, std::vector<std::uint64_t>{3});
  EXPECT_EQ(highest.leaves, open_catalog(source).tensors.size());
  run.step = 3;
  MappingOptions titan;
  titan.scheme = "torchtitan";
  const CheckReport lower = check_mapping(run, titan, {});
  EXPECT_TRUE(lower.problems.empty());
  EXPECT_EQ(lower.scheme, "torchtitan");
  EXPECT_EQ(lower.step, 3U);
  EXPECT_EQ(lower.other_steps, std::vector<std::uint64_t>{12});
  EXPECT_FALSE(check_mapping(source, {}, {}).step);
  EXPECT_EQ(check_mapping(source, {}, {}).scheme, "maxtext");
}

TEST_F(CheckSource, AWrapperOfOneModuleDoesNotHideItsNames) {
  const CheckReport report = check_mapping(names_only("", "mlp"), {}, {});
  EXPECT_TRUE(report.problems.empty());
  ASSERT_EQ(report.source_notes.size(), 1U);
  EXPECT_TRUE(
      report.source_notes[0].starts_with("hfshard removed the wrapper \"_orig_mod.\" from 3 "))
      << report.source_notes[0];
}

TEST_F(CheckSource, TensorsOfAnAdapterAreRefusedAndUnreadableOnesCanBeExcluded) {
  const Catalog files = files_of("qwen3");
  const auto write = [&](const std::string& other, bool is_odd) {
    SafetensorsBuilder builder;
    for (const TensorInfo& info : files.tensors) builder.tensor(info.name, info.dtype, info.shape);
    builder.tensor(other, DType::f32, {2});
    if (is_odd) builder.lie_about(other, "dtype", R"("F99")");
    write_text(dir_ / "model/config.json", files.config_text);
    builder.write(dir_ / "model/model.safetensors");
    return dir_ / "model";
  };
  const std::string adapter = "model.layers.0.mlp.up_proj.lora_A.weight";
  MappingOptions mapping;
  const Error error = catch_error([&] { check_mapping(write(adapter, false), mapping, {}); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), adapter);
  const Error odd = catch_error([&] { check_mapping(write("odd", true), mapping, {}); });
  EXPECT_EQ(odd.code(), ErrorCode::unsupported);
  EXPECT_EQ(odd.tensor(), "odd");
  mapping.exclude = {"odd"};
  EXPECT_TRUE(check_mapping(write("odd", true), mapping, {}).problems.empty());
}

}  // namespace
}  // namespace hfshard
