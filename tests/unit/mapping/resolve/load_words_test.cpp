#include "mapping/resolve/load_words.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mapping/tables/loader_models.h"
#include "mapping/tables/scheme_defaults.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Words = std::vector<std::string>;

// Returns the tiny family with additional members of its scheme, in JSON.
MappingTable with_members(const std::string& members) {
  return load_table(tiny_file(tiny_family_with("\"axes\": ", members + ", \"axes\": ")));
}

LoadAdvice advice_of(const MappingTable& table, bool stacked, const std::string& config = {}) {
  const Json json = config.empty() ? table.example : parse_json(config, "config.json");
  const Bindings::Options options;
  const Bindings bindings(table, json, options, {});
  return load_advice(table.schemes.front(), bindings, bindings, stacked);
}

// Two models of MaxText: qwen3-1.7b is 2048 wide and has 28 layers, qwen3-0.6b 1024 and 28.
constexpr const char* kQwen3 =
    R"("settings": {"decoder_block": "'qwen3'", "base_emb_dim": "D", "base_num_decoder_layers": "L"},
       "model_names": [["qwen3-1.7b-base", "false"], ["qwen3-1.7b", "true"], ["qwen3-0.6b", "L > 2"]])";

std::string sized(int width, int layers) {
  return "{\"hidden_size\": " + std::to_string(width) +
         ", \"num_hidden_layers\": " + std::to_string(layers) + "}";
}

TEST(LoadAdvice, NamesTheModelThatFits) {
  const LoadAdvice advice = advice_of(with_members(kQwen3), true, sized(2048, 28));
  EXPECT_EQ(advice.names, (Words{"qwen3-1.7b"}));
  EXPECT_EQ(advice.words, (Words{"scan_layers=true", "model_name=qwen3-1.7b"}));
  EXPECT_EQ(advice.note, "");
  EXPECT_TRUE(advice.warnings.empty());
}

TEST(LoadAdvice, NamesTheNearestModelAndWhatDiffers) {
  const LoadAdvice advice = advice_of(with_members(kQwen3), false, sized(2048, 27));
  EXPECT_TRUE(advice.names.empty());
  EXPECT_EQ(advice.words, (Words{"scan_layers=false", "model_name=qwen3-1.7b",
                                 "base_num_decoder_layers=27", "override_model_config=true"}));
  EXPECT_EQ(advice.note,
            "qwen3-1.7b is the nearest model_name; the other arguments set what differs.");
  EXPECT_EQ(advice_of(with_members(kQwen3), true, sized(1024, 3)).words[1],
            "model_name=qwen3-0.6b");
  EXPECT_EQ(advice_of(with_members(kQwen3), true, sized(1024, 2)).words[1],
            "model_name=qwen3-1.7b");
}

TEST(LoadAdvice, TheFirstOfEquallyNearModelsIsNamed) {
  const MappingTable table = with_members(
      R"("settings": {"decoder_block": "'qwen3'", "base_emb_dim": "D", "base_num_decoder_layers": "L"},
         "model_names": [["qwen3-1.7b-base", "true"], ["qwen3-1.7b", "true"]])");
  const LoadAdvice fits = advice_of(table, true, sized(2048, 28));
  EXPECT_EQ(fits.names, (Words{"qwen3-1.7b", "qwen3-1.7b-base"}));
  EXPECT_EQ(fits.words, (Words{"scan_layers=true", "model_name=qwen3-1.7b"}));
  EXPECT_EQ(fits.note, "other names that fit: qwen3-1.7b-base");
  EXPECT_EQ(advice_of(table, true, sized(2048, 27)).words[1], "model_name=qwen3-1.7b");
}

TEST(LoadAdvice, WithoutAModelSetsEverything) {
  const MappingTable table = with_members(
      R"("settings": {"base_emb_dim": "D", "vocab_size": "null", "decoder_block": "'llama2'"})");
  const LoadAdvice advice = advice_of(table, true);
  EXPECT_EQ(advice.words, (Words{"scan_layers=true", "base_emb_dim=7", "decoder_block=llama2"}));
  EXPECT_EQ(advice.note, "No MaxText model_name matches; the arguments above set every size.");
}

TEST(LoadAdvice, AModelOfAnotherKindLendsNoName) {
  const MappingTable table = with_members(
      R"("settings": {"decoder_block": "'llama2'", "base_emb_dim": "D"}, "model_names": [["*", "true"]])");
  EXPECT_TRUE(advice_of(table, true, sized(1024, 28)).words[1].starts_with("model_name=llama"));
}

TEST(LoadAdvice, HowTheModelIsRunDoesNotDecideItsName) {
  const MappingTable table = with_members(
      R"("settings": {"decoder_block": "'qwen3'", "base_emb_dim": "D", "use_multimodal": "true", "scan_layers": "false"},
         "model_names": [["qwen3-1.7b", "true"]])");
  const LoadAdvice advice = advice_of(table, true, sized(2048, 1));
  EXPECT_EQ(advice.names, (Words{"qwen3-1.7b"}));
  EXPECT_EQ(advice.words, (Words{"scan_layers=false", "model_name=qwen3-1.7b",
                                 "use_multimodal=true", "override_model_config=true"}));
}

TEST(LoadAdvice, NumbersAndListsAreComparedByValue) {
  const MappingTable table = with_members(
      R"("settings": {"decoder_block": "'qwen3'", "rope_max_timescale": "rope.theta", "mlp_activations": "'[silu,linear]'",
                      "normalization_layer_epsilon": "rms_norm_eps"},
         "model_names": [["qwen3-1.7b", "true"]])");
  const std::string begin = R"({"hidden_size": 1, "num_hidden_layers": 1, "rope_theta": )";
  EXPECT_EQ(advice_of(table, true, begin + R"(1000000.0, "rms_norm_eps": 1e-6})").names.size(), 1U);
  const LoadAdvice advice = advice_of(table, true, begin + R"(2.5e6, "rms_norm_eps": 1e-5})");
  EXPECT_EQ(advice.words,
            (Words{"scan_layers=true", "model_name=qwen3-1.7b", "normalization_layer_epsilon=1e-05",
                   "rope_max_timescale=2500000", "override_model_config=true"}));
}

TEST(LoadAdvice, AValueOfAnotherKindThanTheDefaultIsSaid) {
  const MappingTable table = with_members(
      R"("settings": {"base_emb_dim": "'wide'", "rope_max_timescale": "rope.theta", "rope_type": "true"})");
  EXPECT_EQ(advice_of(table, true, R"({"hidden_size": 1, "rope_theta": 1e17})").words,
            (Words{"scan_layers=true", "base_emb_dim=wide", "rope_max_timescale=1e+17",
                   "rope_type=true"}));
}

// MaxText's qwen3-vl-30b-a3b has its own scan_layers.
TEST(LoadAdvice, AModelWithAnotherLayoutOfLayersIsOverridden) {
  const MappingTable table = with_members(
      R"("settings": {"decoder_block": "'qwen3_moe'", "base_emb_dim": "D", "base_num_decoder_layers": "L"},
         "model_names": [["qwen3-vl-30b-a3b", "true"]])");
  EXPECT_EQ(advice_of(table, false, sized(2048, 48)).words,
            (Words{"scan_layers=false", "model_name=qwen3-vl-30b-a3b"}));
  EXPECT_EQ(
      advice_of(table, true, sized(2048, 48)).words,
      (Words{"scan_layers=true", "model_name=qwen3-vl-30b-a3b", "override_model_config=true"}));
}

TEST(LoadAdvice, AFractionWhereNoneIsTakenIsRoundedAndSaid) {
  const MappingTable table = with_members(R"("settings": {"rope_factor": "rope.factor"})");
  const LoadAdvice advice = advice_of(
      table, true, R"({"hidden_size": 1, "rope_scaling": {"type": "yarn", "factor": 2.5}})");
  EXPECT_EQ(advice.words.back(), "rope_factor=2");
  ASSERT_EQ(advice.warnings.size(), 1U);
  EXPECT_EQ(advice.warnings[0],
            "rope_factor takes whole numbers and config.json says 2.5: logits will differ");
}

// Models of torchtitan, which only accepts a config's name, without sizes.
LoadAdvice torchtitans(const std::string& config) {
  MappingTable table = with_members(
      R"("settings": {"dim": "D", "n_layers": "L", "rope_theta": "rope.theta ?? null",
                      "rope_scaling": "rope.type == 'default' ? 'llama' : rope.type",
                      "mscale": "mscale ?? null"},
         "model_names": [["llama3*", "true"]])");
  table.schemes.front().name = "torchtitan";
  return advice_of(table, false, config);
}

TEST(LoadAdvice, ALoaderWithoutSettingsIsNamedTheConfigThatIsTheSame) {
  const LoadAdvice same = torchtitans(sized(4096, 32));
  EXPECT_EQ(same.names, (Words{"llama3_8b"}));
  EXPECT_EQ(same.words, (Words{"--module=llama3", "--config=llama3_8b", "--checkpoint.enable"}));
  EXPECT_EQ(same.note, "");
  const LoadAdvice flavor = torchtitans(sized(2048, 16));
  EXPECT_EQ(flavor.words, (Words{"--checkpoint.enable"}));
  EXPECT_TRUE(flavor.names.empty());
  EXPECT_EQ(flavor.note,
            "torchtitan's llama3 has the flavor 1B, but no config that uses it: add one with "
            "model_registry(\"1B\").");
  const LoadAdvice none = torchtitans(sized(4096, 31));
  EXPECT_EQ(none.words, (Words{"--checkpoint.enable"}));
  EXPECT_EQ(none.note,
            "torchtitan has no model of these sizes; add a flavor and a config with dim=4096 "
            "n_layers=31 rope_scaling=llama.");
}

TEST(LoadAdvice, AModelThatOnlyComputesOtherwiseFitsWithAWarning) {
  const LoadAdvice theta =
      torchtitans(R"({"hidden_size": 4096, "num_hidden_layers": 32, "rope_theta": 1e6})");
  EXPECT_TRUE(theta.names.empty());
  EXPECT_EQ(theta.words, (Words{"--module=llama3", "--config=llama3_8b", "--checkpoint.enable"}));
  EXPECT_EQ(theta.note, "");
  EXPECT_EQ(theta.warnings,
            (Words{"torchtitan's llama3_8b has rope_theta=500000, but this model needs "
                   "rope_theta=1000000: logits will differ"}));
  const LoadAdvice two = torchtitans(
      R"({"hidden_size": 2048, "num_hidden_layers": 16, "mscale": 0.5,
          "rope_scaling": {"type": "yarn", "factor": 2.5}})");
  EXPECT_EQ(two.words, (Words{"--checkpoint.enable"}));
  EXPECT_EQ(two.warnings,
            (Words{"torchtitan's llama3:1B has mscale=none rope_scaling=llama, but this model "
                   "needs mscale=0.5 rope_scaling=yarn: logits will differ"}));
}

TEST(LoadAdvice, WarnsWithWhatConfigJsonSays) {
  const MappingTable table = with_members(
      R"("warnings": [["no {rope.type} by {rope.factor} at {D}: logits will differ", "rope.type != 'default'"]])");
  EXPECT_TRUE(advice_of(table, true).warnings.empty());
  EXPECT_EQ(advice_of(table, true,
                      R"({"hidden_size": 9, "rope_scaling": {"type": "dynamic", "factor": 2.5}})")
                .warnings,
            (Words{"no dynamic by 2.5 at 9: logits will differ"}));
}

TEST(LoadAdvice, EveryWarningOfAFamilySaysWhatFollows) {
  std::size_t seen = 0;
  for (const FamilyFile& file : embedded_families()) {
    const MappingTable table = load_table(file);
    for (const Scheme& scheme : table.schemes) {
      seen += scheme.warnings.size();
      for (const Warning& warning : scheme.warnings)
        EXPECT_NE(warning.text.text().find("logits will differ"), std::string::npos)
            << table.family << ": " << warning.text.text();
    }
  }
  EXPECT_GE(seen, 60U);
}

TEST(LoadAdvice, EveryFamilyOfMaxTextSetsItsSizes) {
  for (const FamilyFile& file : embedded_families()) {
    const MappingTable table = load_table(file);
    const Scheme* scheme = table.scheme("maxtext");
    if (scheme == nullptr) continue;
    for (const char* name : {"decoder_block", "base_emb_dim", "base_num_decoder_layers",
                             "base_num_query_heads", "base_num_kv_heads", "base_mlp_dim",
                             "vocab_size", "logits_via_embedding", "normalization_layer_epsilon"})
      EXPECT_NE(std::ranges::find(scheme->settings, name, &Setting::name), scheme->settings.end())
          << table.family << ": " << name;
  }
}

TEST(LoadAdvice, MembersThatAreNoneAreRefused) {
  for (const char* members : {R"("model_names": [["a"]])", R"("warnings": [["a", "true", "b"]])",
                              R"("settings": {"a": "1 +"})", R"("notes": [["b"]])"}) {
    EXPECT_EQ(catch_error([&] { with_members(members); }).code(), ErrorCode::bad_input) << members;
  }
}

TEST(LoaderModels, AreThoseOfMaxText) {
  const LoaderFacts& facts = loader_facts("maxtext");
  ASSERT_NE(facts.defaults, nullptr);
  EXPECT_GE(facts.models.size(), 50U);
  const auto found = std::ranges::find(facts.models, "llama3.1-8b-Instruct", &LoaderModel::name);
  ASSERT_NE(found, facts.models.end());
  EXPECT_EQ(facts.value(found->settings, "base_emb_dim")->as_int(), 4096);
  EXPECT_EQ(facts.value(found->settings, "rope_type")->as_string(), "default");
  EXPECT_EQ(facts.value(found->settings, "no_such_setting"), nullptr);
  EXPECT_TRUE(loader_facts("somebody's").models.empty());
}

// The forms of MaxText's pretraining, SFT and RL load. Parameters alone, and layers in a list,
// don't.
TEST(LoadWords, LoaderTakesAFormByItsNames) {
  const std::string norm = "decoder.decoder_norm.scale";
  EXPECT_TRUE(loader_takes("maxtext", {"params.params." + norm}));
  EXPECT_TRUE(loader_takes("maxtext", {norm + ".value", "decoder.layers.mlp.wo.kernel.value"}));
  EXPECT_TRUE(loader_takes("maxtext", {"base." + norm + ".value"}));
  EXPECT_FALSE(loader_takes("maxtext", {"params." + norm}));
  EXPECT_FALSE(loader_takes("maxtext", {norm}));
  EXPECT_FALSE(
      loader_takes("maxtext", {norm + ".value", "decoder.moe_layers.0.mlp.wo.kernel.value"}));
  EXPECT_FALSE(loader_takes("maxtext", {norm + ".value", "decoder.layers.0.mlp.wo.kernel.value"}));
  EXPECT_TRUE(loader_takes("torchtitan", {"tok_embeddings.weight"}));  // it doesn't have forms
}

TEST(LoaderModels, OfAnUnknownSchemeHaveNoOptions) {
  EXPECT_TRUE(loader_options("hf").path.empty());
  EXPECT_EQ(loader_options("maxtext").path, "load_parameters_path");
  EXPECT_EQ(loader_options("maxtext").fixed, (Words{"decoder_block", "attention_type"}));
}

TEST(LoadAdvice, ASchemeWithoutALoaderHasWarningsAlone) {
  MappingTable table = with_members(
      R"("warnings": [["narrow: logits will differ", "D < 8"]], "settings": {"base_emb_dim": "D"})");
  table.schemes.front().name = "own";
  const LoadAdvice advice = advice_of(table, true);
  EXPECT_EQ(advice.warnings, Words{"narrow: logits will differ"});
  EXPECT_TRUE(advice.words.empty());
  EXPECT_TRUE(advice.names.empty());
  EXPECT_EQ(advice.note, "");
}

TEST(LoadAdvice, AReleaseIsNotedForTheLayoutThatDiffers) {
  const MappingTable table = with_members(R"("by_release": "stacked", )" + std::string(kQwen3));
  const Json config = parse_json(sized(2048, 28), "config.json");
  const auto note = [&](const Bindings::Options& options, bool stacked) {
    const Bindings bindings(table, config, options, {});
    return load_advice(table.schemes.front(), bindings, bindings, stacked).note;
  };
  EXPECT_EQ(note({}, true), "The tree fits MaxText 0.2.5; for another release: --maxtext 0.2.4.");
  EXPECT_EQ(note({{"maxtext", "0.2.4"}}, true),
            "The tree fits MaxText 0.2.4; for another release: --maxtext 0.2.5.");
  EXPECT_EQ(note({}, false), "");
  const MappingTable none = with_members(R"("by_release": "stacked")");
  EXPECT_EQ(advice_of(none, true).note,
            "No MaxText model_name matches; the arguments above set every size. The tree fits "
            "MaxText 0.2.5; for another release: --maxtext 0.2.4.");
}

// The model is chosen by its whole depth. The words are for the layers in use.
TEST(LoadAdvice, ACutModelHasTheNameOfTheWholeOne) {
  const MappingTable table = with_members(kQwen3);
  const Json whole = parse_json(sized(2048, 28), "config.json");
  const Json cut = parse_json(sized(2048, 2), "config.json");
  const Bindings::Options none;
  const Bindings model(table, cut, none, {});
  const Bindings uncut(table, whole, none, {});
  const LoadAdvice advice = load_advice(table.schemes.front(), model, uncut, true);
  EXPECT_EQ(advice.words, (Words{"scan_layers=true", "model_name=qwen3-1.7b",
                                 "base_num_decoder_layers=2", "override_model_config=true"}));
}

TEST(LoadAdvice, ALoaderWithoutSettingsNotesNoSizesIfThereAreNone) {
  MappingTable table = with_members(R"("model_names": [["llama3*", "false"]])");
  table.schemes.front().name = "torchtitan";
  const LoadAdvice advice = advice_of(table, false);
  EXPECT_EQ(advice.note, "");
  EXPECT_EQ(advice.words, Words{"--checkpoint.enable"});
}

}  // namespace
}  // namespace hfshard
