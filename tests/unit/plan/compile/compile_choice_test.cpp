// Choices before any rule: the family, the scheme, the layout and the options.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

FakeCatalog plain_example(const std::string& family = "qwen3") {
  return FakeCatalog::of(family, example_config(family));
}

Error choice_refusal(const Catalog& catalog, const MappingOptions& options) {
  return catch_error([&] { compile_model(catalog, options); });
}

TEST(CompileChoice, SchemesAndDialectsThatAFamilyLacksAreNamed) {
  MappingOptions options;
  options.scheme = "t5x";
  const Error scheme = choice_refusal(plain_example(), options);
  EXPECT_EQ(scheme.sentence(), "family \"qwen3\" has no scheme \"t5x\"");
  EXPECT_EQ(scheme.hint_text(), "its schemes are hf, maxtext, torchtitan");
  options.scheme = "hf";
  options.dialect = "other";
  const Error dialect = choice_refusal(plain_example(), options);
  EXPECT_EQ(dialect.sentence(), "family \"qwen3\" has no dialect \"other\"");
  EXPECT_EQ(dialect.hint_text(), "pass --dialect files to keep the source's names");
}

TEST(CompileChoice, FlagsForTheModelsOwnNamesNeedItsScheme) {
  MappingOptions options;
  options.prefix = "model.";
  EXPECT_EQ(choice_refusal(plain_example(), options).sentence(),
            "--prefix requires --scheme hf, which keeps the model's own names");
  options.prefix = "";
  options.dialect = "modules";
  const Error error = choice_refusal(plain_example(), options);
  EXPECT_EQ(error.sentence(), "--dialect requires --scheme hf, which keeps the model's own names");
  EXPECT_EQ(error.hint_text(), "--to dcp and --to safetensors imply it");
}

TEST(CompileChoice, SchemeHfHasNoOptionsExceptReleasesAndNoLayers) {
  const FakeCatalog catalog = FakeCatalog().add("a", {3});
  MappingOptions options;
  options.scheme = "hf";
  options.options["maxtext"] = "0.2.4";
  EXPECT_EQ(compile_model(catalog, options).leaves.size(), 1U) << "it's the source's";
  options.options["vocab"] = "3";
  const Error error = choice_refusal(catalog, options);
  EXPECT_EQ(error.sentence(), "--scheme hf has no option \"vocab\"");
  EXPECT_EQ(error.hint_text(), "it keeps every tensor as stored");
  options.options.clear();
  options.num_layers = 1;
  const Error layers = choice_refusal(catalog, options);
  EXPECT_EQ(layers.code(), ErrorCode::usage);
  EXPECT_EQ(layers.sentence(), "--scheme hf doesn't know layers, so it can't use --num-layers");
}

TEST(CompileChoice, OneOfSeveralMappingsIsTheModels) {
  const std::string other = R"({"family": "own", "match": {"model_type": ["qwen3"]}})";
  const Json config = example_config("qwen3");
  std::vector<MappingFile> own{{"tiny", "tiny.json", std::string(kTinyFamily)},
                               {"own", "own.json", other}};
  EXPECT_EQ(family_of(config, "dir", own).name, "own");
  own[1].asked = false;
  const Error error = catch_error([&] { family_of(config, "dir", own); });
  EXPECT_EQ(error.sentence(), "the mapping of family \"tiny\" doesn't match config.json");
  EXPECT_EQ(error.hint_text(), "check the model types and architectures in the file's `match`");
  own[0].asked = false;
  EXPECT_EQ(family_of(config, "dir", own).name, "own");
}

TEST(CompileChoice, AModelTypeThatNoFamilyHasIsQuoted) {
  const Error error =
      catch_error([] { family_of(parse_json(R"({"model_type": "qwen33"})", "c"), "dir", {}); });
  EXPECT_EQ(error.sentence(), "no family has model_type \"qwen33\"");
  EXPECT_EQ(error.file(), "dir/config.json");
  EXPECT_TRUE(error.hint_text().starts_with("did you mean qwen3")) << error.hint_text();
  EXPECT_TRUE(
      catch_error([] { family_of(parse_json(R"({"model_type": "zzzzzzzzzz"})", "c"), "dir", {}); })
          .hint_text()
          .starts_with("pass --scheme hf to keep names and shapes"));
}

TEST(CompileChoice, WithoutAConfigThereIsNoFamily) {
  FakeCatalog catalog = plain_example();
  catalog.config_text = "";
  const Error error = choice_refusal(catalog, {});
  EXPECT_EQ(error.sentence(), "the source lacks config.json, which names the family");
  EXPECT_EQ(error.file(), "fake");
  EXPECT_EQ(error.hint_text(),
            "pass --config DIR of the model, or --scheme hf to keep names and shapes");
}

TEST(CompileChoice, ADtypeThatIsKeptKeepsTheCodesOfALoaderWithAPlaceForScales) {
  MappingOptions options;
  options.keep_dtype = true;
  const CompiledModel kept = compile_model(kept_example(), options);
  EXPECT_TRUE(kept.keeps_codes);
  EXPECT_TRUE(std::ranges::any_of(kept.leaves,
                                  [](const Leaf& leaf) { return leaf.dtype == DType::f8_e4m3; }));
  options.options["codes"] = "decoded";
  const Error error = choice_refusal(kept_example(), options);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(error.sentence().ends_with("has no place for its scales")) << error.sentence();
}

TEST(CompileChoice, CodesAreDecodedUnlessTheirDtypeIsKept) {
  const CompiledModel model = compile_model(kept_example(), {});
  EXPECT_FALSE(model.keeps_codes);
  for (const Leaf& leaf : model.leaves) EXPECT_EQ(leaf.dtype, DType::bf16) << leaf.name;
}

TEST(CompileChoice, CodesThatAreKeptLeaveNoRoomForADtype) {
  MappingOptions options;
  options.options["codes"] = "kept";
  options.dtype = DType::f32;
  EXPECT_EQ(choice_refusal(kept_example(), options).hint_text(), "leave out one of the two");
}

TEST(CompileChoice, TheConfigOfACutModelIsItsOwn) {
  MappingOptions options;
  EXPECT_EQ(compile_model(plain_example(), options).config_text, "");
  options.num_layers = 2;
  const CompiledModel cut = compile_model(plain_example(), options);
  Json config = example_config("qwen3");
  EXPECT_EQ(parse_json(cut.config_text, "c").at("num_hidden_layers").as_int(), 2);
  EXPECT_EQ(parse_json(cut.config_text, "c").at("hidden_size"), config.at("hidden_size"));
  ASSERT_FALSE(cut.drops.empty());
  EXPECT_EQ(cut.drops[0].why, "layer 2 is left out (--num-layers 2)");
  EXPECT_EQ(cut.rules.at(cut.drops[0].rule), kNumLayers);
}

TEST(CompileChoice, AQuantizationThatIsLeftOverIsNotedAndTakenOut) {
  FakeCatalog catalog = plain_example();
  Json config = example_config("qwen3");
  config["quantization_config"] = parse_json(R"({"quant_method": "awq"})", "c");
  catalog.config_text = dump_json(config);
  const CompiledModel model = compile_model(catalog, {});
  EXPECT_EQ(model.notes, std::vector<std::string>{"no tensor is quantized, so hfshard ignores "
                                                  "quantization_config in config.json"});
  EXPECT_EQ(parse_json(model.config_text, "c"), example_config("qwen3"));
}

TEST(CompileChoice, ADialectHasNoAxisRulesAndNoStacks) {
  MappingOptions options;
  const CompiledModel loader = compile_model(plain_example(), options);
  EXPECT_FALSE(loader.axis_rules.empty());
  EXPECT_TRUE(loader.stacked);
  EXPECT_EQ(loader.load_words.at(0), "scan_layers=true");
  options.scheme = "hf";
  options.dialect = "modules";
  const CompiledModel dialect = compile_model(plain_example(), options);
  EXPECT_TRUE(dialect.axis_rules.empty());
  EXPECT_FALSE(dialect.stacked);
  EXPECT_TRUE(dialect.load_words.empty());
  EXPECT_TRUE(std::ranges::any_of(dialect.rules,
                                  [](const auto& rule) { return rule == "--dialect modules"; }));
}

TEST(CompileChoice, ACutModelIsLoadedAsTheWholeOneWithFewerLayers) {
  const FamilyInfo info = family_info("qwen3");
  const FakeCatalog catalog = FakeCatalog::of("qwen3", info.sizes.at("qwen3-0.6b"));
  MappingOptions options;
  options.num_layers = 2;
  const CompiledModel cut = compile_model(catalog, options);
  EXPECT_EQ(cut.model_names, std::vector<std::string>{"qwen3-0.6b"});
  EXPECT_EQ(cut.load_note, "");
  ASSERT_GE(cut.load_words.size(), 3U);
  EXPECT_EQ(cut.load_words[1], "model_name=qwen3-0.6b");
  EXPECT_NE(std::ranges::find(cut.load_words, "base_num_decoder_layers=2"), cut.load_words.end());
  EXPECT_EQ(cut.load_words.back(), "override_model_config=true");
  const CompiledModel whole = compile_model(catalog, {});
  EXPECT_EQ(whole.load_words,
            (std::vector<std::string>{"scan_layers=true", "model_name=qwen3-0.6b"}));
}

}  // namespace
}  // namespace hfshard
