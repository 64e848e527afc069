// Checkpoints that are laid out again keep their arrays and names.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class AnewTest : public testing::Test {
 protected:
  RunOptions run_to(const std::string& out) const {
    RunOptions run = to_output(out);
    run.limits = &limits_;
    return run;
  }
  std::string reshard(const std::string& source, const std::string& target) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    const RunOptions run = run_to(dir_ / target);
    hfshard::convert(source, options, run, quiet_);
    return run.out;
  }

  // Reshards a tree of another program.
  ConvertReport reshard_foreign(const std::vector<std::string>& names, const std::string& target,
                                const std::string& out, const std::vector<std::string>& exclude) {
    TorchCheckpoint torch;
    for (const std::string& name : names)
      torch.tensor(name, DType::u8, {4}).part({0}, {4}, "abcd", false);
    torch.write(out + "-torch");
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.mapping.exclude = exclude;
    options.tree.same = true;
    return hfshard::convert(out + "-torch", options, run_to(out), quiet_);
  }

  // Writes the arrays of a scheme's model of the qwen3 example, as another program names them.
  std::string write_arrays(const std::string& out, const std::string& scheme,
                           const std::function<std::string(const std::string&)>& name,
                           const std::vector<std::string>& numbers = {}) const {
    MappingOptions mapping;
    mapping.scheme = scheme;
    TorchCheckpoint torch;
    const CompiledModel model = compile_model(files_of("qwen3"), mapping);
    for (const Leaf& leaf : model.leaves) {
      torch.tensor(name(leaf.name), leaf.dtype, leaf.shape)
          .part(Shape(std::vector<std::uint64_t>(leaf.shape.rank())), leaf.shape,
                std::string(packed_bytes(leaf.dtype, leaf.shape.numel()), '\1'), false);
    }
    for (const std::string& number : numbers)
      torch.tensor(number, DType::f32, {}).part({}, {}, std::string(4, '\1'), false);
    torch.write(dir_ / out);
    return dir_ / out;
  }
  // Reshards with the config of the qwen3 example.
  PlanSummary reshard_with_config(const std::string& source, const std::string& target,
                                  std::optional<DType> dtype = {}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.mapping.dtype = dtype;
    options.tree.same = true;
    options.tree.config_text = files_of("qwen3").config_text;
    options.tree.config_name = "config.json";
    return hfshard::convert(source, options, run_to(source + "-out"), quiet_).plan;
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
};

TEST_F(AnewTest, NumbersOfAStateAreNamedIfTheirDtypeWouldBecomeNarrower) {
  TorchCheckpoint torch;
  torch.tensor("a_whole_number", DType::i64, {}).part({}, {}, std::string(8, '\1'), false);
  torch.tensor("count", DType::f32, {}).part({}, {}, std::string(4, '\1'), false);
  torch.tensor("w", DType::f32, {2}).part({0}, {2}, std::string(8, '\1'), false);
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

TEST_F(AnewTest, ATreeOfARecordedModelStillBecomesThatModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  hfshard::convert(source, small_options(), run_to(dir_ / "tree"), quiet_);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  hfshard::convert(reshard(dir_ / "tree", "orbax"), back, run_to(dir_ / "back"), quiet_);
  const DiffResult found = diff(source, dir_ / "back", {}, run_to(""), quiet_);
  EXPECT_TRUE(found.equal());
  EXPECT_TRUE(found.through.empty());
  EXPECT_EQ(read_file(dir_ / "back/config.json"), read_file(source + "/config.json"));
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

// The config next to the checkpoint names the model. Without it, its record is still there.
TEST_F(AnewTest, ARecordedTreeThatLostItsConfigIsStillResharded) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions titan;
  titan.target = "dcp";
  titan.mapping.scheme = "torchtitan";
  hfshard::convert(source, titan, run_to(dir_ / "tree"), quiet_);
  std::filesystem::remove(dir_ / "tree/config.json");
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.mapping.dtype = DType::f32;
  options.tree.same = true;
  const PlanSummary plan =
      hfshard::convert(dir_ / "tree", options, run_to(dir_ / "again"), quiet_).plan;
  EXPECT_EQ(plan.load_words, std::vector<std::string>{"--checkpoint.enable"});
  for (const StoredArray& array : inspect(dir_ / "again", {}, quiet_).checkpoint.arrays)
    EXPECT_EQ(array.dtype, DType::f32) << array.name;
}

TEST_F(AnewTest, NamesThatEndLikePackedCodesAreOnlyTheirWeights) {
  TorchCheckpoint torch;
  for (const char* name : {"a_packed", "b_packed", "c_packed", "model.norm.weight"})
    torch.tensor(name, DType::u8, {26}).part({0}, {26}, std::string(26, '\1'), false);
  torch.write(dir_ / "tree");
  const Error error = catch_error([&] { reshard_with_config(dir_ / "tree", "orbax"); });
  EXPECT_EQ(error.sentence(), "the checkpoint doesn't belong to this config's model");
}

TEST_F(AnewTest, AFewMissingArraysAreToldFromAnotherModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  const auto error_without = [&](const std::string& name, const std::string& excluded) {
    PlanOptions part;
    part.target = "dcp";
    part.mapping.exclude = {excluded};
    const std::string tree = dir_ / name;
    hfshard::convert(source, part, run_to(tree), quiet_);
    std::filesystem::remove(tree + "/hfshard.json");
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    options.tree.config_text = read_file(source + "/config.json");
    options.tree.config_name = "config.json";
    return catch_error([&] { hfshard::convert(tree, options, run_to(tree + "-out"), quiet_); });
  };
  const Error one = error_without("one", "model.norm.weight");
  EXPECT_EQ(one.code(), ErrorCode::not_found);
  EXPECT_EQ(one.sentence(), "the checkpoint lacks one array of the model");
  EXPECT_EQ(one.file(), dir_ / "one");
  EXPECT_EQ(one.tensor(), "params.params.decoder.decoder_norm.scale");
  EXPECT_EQ(one.hint_text(),
            "leave out --config to reshard the arrays that are there, or pass the config of this "
            "model");
  const Error most = error_without("most", "*mlp*");
  EXPECT_EQ(most.code(), ErrorCode::not_found);
  EXPECT_EQ(most.sentence(), "the checkpoint lacks 3 arrays of the model");
  const Error few = error_without("few", "*layers*");
  EXPECT_EQ(few.code(), ErrorCode::bad_input);
  EXPECT_EQ(few.sentence(), "the checkpoint doesn't belong to this config's model");
  EXPECT_EQ(few.file(), "config.json");
  EXPECT_EQ(few.tensor(), "params.params.decoder.layers.mlp.wi_0.kernel");
  EXPECT_EQ(few.hint_text(), "pass the config of the checkpoint's model");
}

// Files of a model with names of a loader would be looked for under other names.
TEST_F(AnewTest, AReshardOfARecordedTreeIsDescribedAsItsModel) {
  PlanOptions separate;
  separate.mapping.stacked = false;
  hfshard::convert(copy_fixture("qwen3", dir_ / "source"), separate, run_to(dir_ / "tree"), quiet_);
  for (const auto& [target, has_config] :
       std::map<std::string, bool>{{"dcp", true}, {"orbax", false}, {"safetensors", false}}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    const PlanSummary plan =
        hfshard::convert(dir_ / "tree", options, run_to(dir_ / target), quiet_).plan;
    EXPECT_EQ(plan.family, "qwen3") << target;
    EXPECT_EQ(plan.scheme, "maxtext") << target;
    EXPECT_FALSE(plan.stacked) << target;
    EXPECT_EQ(std::ranges::count(plan.load_words, "scan_layers=false"), target == "orbax" ? 1 : 0)
        << target;
    EXPECT_EQ(std::filesystem::exists(dir_ / target + "/config.json"), has_config) << target;
  }
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
