// Checkpoints that are laid out again keep their arrays and names.

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/anew_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST_F(AnewTest, NumbersOfAStateAreNamedIfTheirDtypeWouldBecomeNarrower) {
  TorchCheckpoint torch;
  torch.whole("a_whole_number", DType::i64, {});
  torch.whole("count", DType::f32, {});
  torch.whole("w", DType::f32, {2});
  torch.write(dir_ / "state");
  const auto noted = [&](DType dtype) {
    PlanOptions options;
    options.target = "orbax";
    options.mapping.scheme = "hf";
    options.mapping.dtype = dtype;
    options.tree.same = true;
    const RunOptions run = run_to(dir_ / std::string(to_string(dtype)));
    const auto notes = hfshard::convert(dir_ / "state", options, run, quiet_).plan.notes;
    return std::ranges::count(notes, "numbers keep their dtype: \"count\"");
  };
  EXPECT_EQ(noted(DType::bf16), 1);
  EXPECT_EQ(noted(DType::f32), 0);
}

// Orbax can hold both names, because a key of a tree can have a dot.
TEST_F(AnewTest, ANameCanBeginWithTheNameOfAnotherArray) {
  const std::string bytes(16, '\1');
  TorchCheckpoint torch;
  for (const char* name : {"a", "a.b"})
    torch.tensor(name, DType::u8, {16}).part({0}, {16}, bytes, false);
  torch.write(dir_ / "torch");
  const std::string tree = reshard(dir_ / "torch", "orbax");
  const DiffResult found = diff(dir_ / "torch", tree, {}, run_to(""), quiet_);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.compared_tensors, 2U);
}

TEST_F(AnewTest, ATreeThatBecomesPlainArraysIsVerified) {
  const std::string tree = dir_ / "tree";
  hfshard::convert(copy_fixture("qwen3", dir_ / "source"), small_options(), run_to(tree), quiet_);
  for (const char* target : {"dcp", "safetensors"}) {
    const std::string out = reshard(tree, target);
    const VerifyResult alone = verify(out, {}, run_to(""), quiet_);
    EXPECT_TRUE(alone.differences.empty()) << target << ": " << alone.differences[0].what;
    EXPECT_GT(alone.tensors, 10U);
    EXPECT_TRUE(verify(out, tree, run_to(""), quiet_).differences.empty()) << target;
  }
}

// A step of 257 would become 256 in bf16.
TEST_F(AnewTest, ADtypeLeavesTheNumbersOfAStateAsTheyAre) {
  const auto f32 = [](float value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  };
  TorchCheckpoint torch;
  torch.tensor("w", DType::f32, {1}).part({0}, {1}, f32(1), false);
  torch.tensor("step", DType::f32, {}).part({}, {}, f32(257), false);
  torch.tensor("rate", DType::f32, {}).part({}, {}, f32(0.1F), false);
  torch.write(dir_ / "torch");
  for (const char* target : {"dcp", "orbax", "safetensors"}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.mapping.dtype = DType::bf16;
    options.mapping.casts = {{"rat?", DType::f16}};
    options.tree.same = true;
    const ConvertReport report =
        hfshard::convert(dir_ / "torch", options, run_to(dir_ / target), quiet_);
    EXPECT_NE(std::ranges::find(report.plan.notes, "numbers keep their dtype: \"step\""),
              report.plan.notes.end())
        << target;
    for (const StoredArray& array : inspect(dir_ / target, {}, quiet_).checkpoint.arrays) {
      const DType wanted = array.name == "w"      ? DType::bf16
                           : array.name == "step" ? DType::f32
                                                  : DType::f16;
      EXPECT_EQ(array.dtype, wanted) << target << " " << array.name;
    }
  }
}

// Only such a tree gets the empty node that MaxText looks for, and a step.
TEST_F(AnewTest, AForeignTreeIsMaxTextsIfItHasItsParametersAndAStepOnly) {
  const std::string norm = "params.params.decoder.decoder_norm.scale";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{norm, "step"}, "maxtext"},
      {{norm}, "hf"},
      {{"opt_state.mu.w", norm, "step"}, "hf"},
      {{"step", "tok_embeddings.weight"}, "hf"},
  };
  for (const auto& [names, scheme] : cases) {
    const std::string out = dir_ / ("out" + std::to_string(&names - &cases[0].first));
    const ConvertReport report = reshard_foreign(names, "orbax", out, {});
    EXPECT_EQ(report.plan.scheme, scheme) << names.back();
    std::vector<std::string> kept;
    for (const StoredArray& array : inspect(out, {}, quiet_).checkpoint.arrays)
      kept.push_back(array.name);
    EXPECT_EQ(kept, names);
  }
}

TEST_F(AnewTest, NoLoaderIsNamedForATreeThatLacksAParameter) {
  struct Case {
    std::vector<std::string> names;
    std::string target;
    std::string path;
  };
  const Case cases[] = {
      {{"params.params.decoder.decoder_norm.scale", "params.params.w.kernel", "step"},
       "orbax",
       "load_parameters_path"},
      {{"layers.0.w.weight", "tok_embeddings.weight"}, "dcp", "--checkpoint.initial_load_path"}};
  for (const Case& item : cases) {
    const std::string out = dir_ / item.target;
    EXPECT_EQ(reshard_foreign(item.names, item.target, out, {}).plan.load_path, item.path);
    const PlanSummary part =
        reshard_foreign(item.names, item.target, out + "-part", {"*.w.*"}).plan;
    EXPECT_EQ(part.load_path, "") << item.target;
    EXPECT_EQ(part.warnings.size(), 1U) << item.target;
  }
  const PlanSummary unknown =
      reshard_foreign({"a.w.x", "b.v.x"}, "dcp", dir_ / "unknown", {"*.w.*"}).plan;
  EXPECT_EQ(unknown.warnings, std::vector<std::string>()) << "no loader takes it";
}

TEST_F(AnewTest, ADtypeLeavesArraysWideThatTheFamilyKeepsWide) {
  const std::string source = copy_fixture("deepseek4", dir_ / "source");
  PlanOptions wide;
  wide.mapping.dtype = DType::f32;
  hfshard::convert(source, wide, run_to(dir_ / "wide"), quiet_);
  PlanOptions narrow;
  narrow.mapping.dtype = DType::bf16;
  hfshard::convert(source, narrow, run_to(dir_ / "wanted"), quiet_);
  const auto dtypes_in = [&](const std::string& place) {
    std::map<std::string, DType> out;
    for (const StoredArray& array : inspect(place, {}, quiet_).checkpoint.arrays)
      out.emplace(array.name, array.dtype);
    return out;
  };
  const std::map<std::string, DType> wanted = dtypes_in(dir_ / "wanted");
  EXPECT_TRUE(
      std::ranges::any_of(wanted, [](const auto& one) { return one.second == DType::f32; }));
  for (const bool by_config : {false, true}) {
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.mapping.dtype = DType::bf16;
    options.tree.same = true;
    if (by_config) {
      options.tree.config_text = read_file(source + "/config.json");
      options.tree.config_name = "config.json";
    }
    const std::string out = dir_ / (by_config ? "by-config" : "by-record");
    hfshard::convert(dir_ / "wide", options, run_to(out), quiet_);
    EXPECT_EQ(dtypes_in(out), wanted) << by_config;
  }
}

// MaxText also reads NNX names and variables that were saved separately.
TEST_F(AnewTest, ALoaderIsNamedForTheFormsOfNamesThatItReads) {
  const std::string top = "params.params.";
  const auto bare = [&](const std::string& name) { return name.substr(top.size()); };
  struct Case {
    std::string form;
    std::string scheme;
    std::function<std::string(const std::string&)> name;
    bool loads;
  };
  const Case cases[] = {
      {"value", "maxtext", [&](auto& name) { return bare(name) + ".value"; }, true},
      {"base", "maxtext", [&](auto& name) { return "base." + bare(name) + ".value"; }, true},
      {"aside", "maxtext",
       [&](auto& name) {
         return name.ends_with("norm.scale") ? "nnx_aux.model." + bare(name) : name;
       },
       true},
      {"bare", "maxtext", bare, false},
      {"titan", "torchtitan", [](auto& name) { return name; }, true},
      {"wrapped", "torchtitan", [](auto& name) { return "model." + name; }, false},
      {"compiled", "torchtitan",
       [](auto& name) { return (name.starts_with("layers.") ? "_orig_mod." : "") + name; }, false},
  };
  for (const Case& item : cases) {
    const bool titan = item.scheme == "torchtitan";
    const PlanSummary plan = reshard_with_config(write_arrays(item.form, item.scheme, item.name),
                                                 titan ? "dcp" : "orbax");
    EXPECT_EQ(plan.scheme, "hf");
    EXPECT_EQ(plan.load_path, !item.loads ? ""
                              : titan     ? "--checkpoint.initial_load_path"
                                          : "load_parameters_path")
        << item.form;
    EXPECT_EQ(plan.load_words.empty(), !item.loads) << item.form;
    EXPECT_EQ(plan.load_note.empty(), !item.loads) << item.form;
  }
}

TEST_F(AnewTest, ATreeWithoutTheLoadersKeysHasNoArgumentsForItsSizes) {
  const auto bare = [](const std::string& name) {
    return name.substr(std::string("params.params.").size());
  };
  const PlanSummary plan =
      reshard_with_config(write_arrays("tree", "maxtext", bare, {"step"}), "orbax");
  EXPECT_EQ(plan.scheme, "maxtext");
  EXPECT_EQ(plan.load_words, std::vector<std::string>{});
}

TEST_F(AnewTest, WithoutAConfigMaxTextsNamesNeedOneOfItsForms) {
  for (const auto& [name, path] : std::map<std::string, std::string>{
           {"decoder.decoder_norm.scale", ""},
           {"decoder.decoder_norm.scale.value", "load_parameters_path"}})
    EXPECT_EQ(reshard_foreign({name}, "orbax", dir_ / name, {}).plan.load_path, path) << name;
}

TEST_F(AnewTest, ANumberBetweenTheModelsArraysKeepsItsDtype) {
  const std::string number = "params.params.decoder.a_count";
  const PlanSummary plan = reshard_with_config(
      write_arrays("tree", "maxtext", [](const std::string& name) { return name; }, {number}),
      "orbax", DType::f16);
  EXPECT_EQ(std::ranges::count(plan.notes, "numbers keep their dtype: \"" + number + "\""), 1);
}

TEST_F(AnewTest, NamesThatEndLikePackedCodesAreOnlyTheirWeights) {
  TorchCheckpoint torch;
  for (const char* name : {"a_packed", "b_packed", "c_packed", "model.norm.weight"})
    torch.whole(name, DType::u8, {26});
  torch.write(dir_ / "tree");
  const Error error = catch_error([&] { reshard_with_config(dir_ / "tree", "orbax"); });
  EXPECT_EQ(error.sentence(), "the checkpoint doesn't belong to this config's model");
}

TEST_F(AnewTest, ATreeWithTheNamesOfTwoLoadersHasNone) {
  std::vector<std::string> names{"params.params.decoder.decoder_norm.scale"};
  EXPECT_NE(reshard_foreign(names, "orbax", dir_ / "one", {}).plan.load_path, "");
  names.emplace_back("tok_embeddings.weight");
  EXPECT_EQ(reshard_foreign(names, "orbax", dir_ / "both", {}).plan.load_path, "");
}

TEST_F(AnewTest, ALoaderIsNamedOnlyForTheFormatThatItReads) {
  const std::vector<std::string> names{"params.params.decoder.decoder_norm.scale", "step"};
  for (const auto& [target, path] : std::map<std::string, std::string>{
           {"dcp", ""}, {"orbax", "load_parameters_path"}, {"safetensors", ""}}) {
    EXPECT_EQ(reshard_foreign(names, target, dir_ / target, {}).plan.load_path, path) << target;
  }
}

TEST_F(AnewTest, ATokenizerIsAnArgumentOfTheLoaderThatTakesOne) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  const auto planned = [&](const std::string& target, const std::string& scheme) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = scheme;
    return plan(source, options, run_to("")).summary;
  };
  EXPECT_EQ(planned("dcp", "torchtitan").load_assets, "");
  EXPECT_FALSE(planned("dcp", "torchtitan").carries_tokenizer);
  write_text(source + "/tokenizer_config.json", "{}");
  EXPECT_EQ(planned("dcp", "torchtitan").load_assets, "--hf_assets_path");
  EXPECT_TRUE(planned("dcp", "torchtitan").carries_tokenizer);
  EXPECT_EQ(planned("orbax", "maxtext").load_assets, "");
  EXPECT_TRUE(planned("orbax", "maxtext").carries_tokenizer);
}

// MaxText restores a training state of its own run, whose directories are arguments.
TEST_F(AnewTest, ATrainingStateHasAnotherPathThanParametersWithAStep) {
  const std::string norm = "params.params.decoder.decoder_norm.scale";
  const PlanSummary alone = reshard_foreign({norm, "step"}, "orbax", dir_ / "alone", {}).plan;
  EXPECT_EQ(alone.load_path, "load_parameters_path");
  EXPECT_TRUE(alone.load_run.empty());
  EXPECT_EQ(alone.load_words, std::vector<std::string>()) << "its layers can be in either layout";
  EXPECT_EQ(alone.load_note,
            "Pass --config DIR of the model to add MaxText's arguments for its sizes.");
  const PlanSummary state =
      reshard_foreign({"opt_state.mu.w", norm, "step"}, "orbax", dir_ / "state", {}).plan;
  EXPECT_EQ(state.load_path, "load_full_state_path");
  EXPECT_EQ(state.load_run,
            (std::vector<std::string>{"base_output_directory", "run_name", "checkpoints"}));
}

TEST_F(AnewTest, ATrainingStateAddsAnArgumentOfTheLoader) {
  const auto words = [&](const std::string& out, std::vector<std::string> names) {
    return reshard_foreign(names, "dcp", dir_ / out, {}).plan.load_words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words("alone", {"norm.weight", "tok_embeddings.weight"}), Words{"--checkpoint.enable"});
  EXPECT_EQ(words("state", {"norm.weight", "optimizer.state.x", "tok_embeddings.weight"}),
            (Words{"--checkpoint.enable", "--checkpoint.no-initial_load_model_only"}));
}

TEST_F(AnewTest, ACastOfTheUserIsStrongerThanTheFamilysDtype) {
  const std::string source = copy_fixture("deepseek4", dir_ / "source");
  PlanOptions wide;
  wide.mapping.dtype = DType::f32;
  hfshard::convert(source, wide, run_to(dir_ / "wide"), quiet_);
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.dtype = DType::bf16;
  options.tree.same = true;
  options.mapping.casts = {{"*", DType::f16}};
  hfshard::convert(dir_ / "wide", options, run_to(dir_ / "out"), quiet_);
  for (const StoredArray& array : inspect(dir_ / "out", {}, quiet_).checkpoint.arrays) {
    EXPECT_EQ(array.dtype, is_float(array.dtype) ? DType::f16 : array.dtype) << array.name;
  }
}

}  // namespace
}  // namespace hfshard
