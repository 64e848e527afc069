#include "mapping/resolve/family_info.h"

#include <algorithm>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "mapping/resolve/find.h"
#include "support/catch_error.h"
#include "support/test_data.h"
#include "unit/mapping/families.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(Families, EveryExampleKeepsDimsApart) {
  for (const FamilyFile& file : embedded_families()) {
    EXPECT_EQ(lint_table(load_table(file)), std::vector<std::string>{}) << file.path;
  }
}

TEST(Families, TheFileNameIsTheFamilyName) {
  const std::vector<FamilyInfo> all = list_families();
  ASSERT_EQ(all.size(), embedded_families().size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].name, embedded_families()[i].name);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &FamilyInfo::name));
}

TEST(Families, AFileOfTheSameNameReplacesTheBuiltInOne) {
  const std::string text = R"({"family": "qwen3", "match": {"model_type": ["other"]}})";
  const std::vector<MappingFile> own{{"qwen3", "own.json", text}};
  EXPECT_EQ(find_family(parse_json(R"({"model_type": "other"})", "c"), own).value().path,
            "own.json");
  EXPECT_FALSE(find_family(parse_json(R"({"model_type": "qwen3"})", "c"), own));
  EXPECT_EQ(find_family(parse_json(R"({"model_type": "llama"})", "c"), own).value().name, "llama");
}

TEST(Families, OnlyTextsOfAConfigAreNamesOfClasses) {
  const auto family = [](const char* config) {
    const FamilyFile* found = find_family(parse_json(config, "config.json"));
    return found == nullptr ? std::string("none") : std::string(found->name);
  };
  EXPECT_EQ(family(R"({"architectures": [3, null, "LlamaForCausalLM"]})"), "llama");
  EXPECT_EQ(family(R"({"architectures": [3]})"), "none");
}

Json config_of(const char* model_type, const char* architecture) {
  Json config;
  config["model_type"] = model_type;
  config["architectures"] = Json::Array{Json(architecture)};
  return config;
}

TEST(Families, AModelTypeAndArchitecturesOfTwoFamiliesAreDoubted) {
  const std::string doubt = config_doubt(config_of("mistral", "MixtralForCausalLM"));
  for (const char* word : {"\"mistral\"", "\"MixtralForCausalLM\"", "family mistral", "mixtral"})
    EXPECT_NE(doubt.find(word), std::string::npos) << doubt;
  EXPECT_NE(config_doubt(config_of("unheard-of", "LlamaForCausalLM")), "");
  EXPECT_EQ(config_doubt(config_of("kimi_k2", "DeepseekV3ForCausalLM")), "");      // one family
  EXPECT_EQ(config_doubt(config_of("llama", "LlamaForTokenClassification")), "");  // unknown
  for (const FamilyInfo& info : list_families()) EXPECT_EQ(config_doubt(info.example), "");
}

TEST(Families, EveryExampleFindsItsFamilyByTypeAndByArchitecture) {
  for (const FamilyInfo& info : list_families()) {
    SCOPED_TRACE(info.name);
    ASSERT_NE(find_family(info.example), nullptr);
    EXPECT_EQ(find_family(info.example)->name, info.name);
    if (info.architectures.empty()) continue;
    Json config;
    config["model_type"] = "unheard-of";
    config["architectures"] = Json::Array{Json(info.architectures[0])};
    ASSERT_NE(find_family(config), nullptr);
    EXPECT_EQ(find_family(config)->name, info.name);
  }
  EXPECT_EQ(find_family(Json(Json::Object{})), nullptr);
}

TEST(Families, AnUnknownNameIsNotFoundAndNearNamesAreGiven) {
  const Error error = catch_error([] { family_by_name("quen3"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_NE(error.hint_text().find("qwen3"), std::string::npos);
}

TEST(Families, AFamilyWithoutProofHasZeros) {
  const FamilyProof proof = info_of_family(tiny_file(kTinyFamily), true).proof;
  EXPECT_EQ(proof.accounted, 0U);
  EXPECT_EQ(proof.executed, 0U);
  EXPECT_EQ(proof.by_maxtext, 0U);
  EXPECT_EQ(proof.by_own_oracle, 0U);
  EXPECT_EQ(proof.by_torchtitan, 0U);
}

TEST(Families, TheProofOfAFamilyHasTheNumbersOfItsFile) {
  const Json proofs = parse_json(read_file(test_data("../mappings/proof.json")), "proof.json");
  for (const FamilyInfo& info : list_families()) {
    SCOPED_TRACE(info.name);
    const Json* numbers = proofs.find(info.name);
    ASSERT_NE(numbers, nullptr);
    EXPECT_EQ(info.proof.accounted, numbers->at("accounted").as_uint());
    EXPECT_EQ(info.proof.executed, numbers->at("executed").as_uint());
    EXPECT_EQ(info.proof.by_maxtext, numbers->at("right_by_maxtext").as_uint());
    EXPECT_EQ(info.proof.by_own_oracle, numbers->at("right_by_own_oracle").as_uint());
    EXPECT_EQ(info.proof.by_torchtitan, numbers->at("right_by_torchtitan").as_uint());
  }
}

TEST(LintFamily, FindsEqualDimsProductsAndMissingSources) {
  const auto lint = [](std::string_view old_text, std::string_view new_text) {
    return lint_table(load_table(tiny_file(tiny_family_with(old_text, new_text))));
  };
  EXPECT_TRUE(lint_table(load_table(tiny_file(kTinyFamily))).empty());
  EXPECT_EQ(lint("\"num_experts\": 4", "\"num_experts\": 7").size(), 1U);
  EXPECT_EQ(lint("\"num_experts\": 4", "\"num_experts\": 21").size(), 1U);
  EXPECT_EQ(lint("\"num_experts\": 4", "\"num_experts\": 1").size(), 1U);
  EXPECT_EQ(
      lint("\"use\": [\"mlp\"], \"source\": \"tiny/repo loader.py\"", "\"use\": [\"mlp\"]").size(),
      1U);
}

TEST(ExpectedTensors, NamesEveryTensorOfTheConfig) {
  const auto tensors = expected_tensors(family_by_name("mixtral"), family_info("mixtral").example);
  EXPECT_TRUE(std::ranges::is_sorted(tensors, {}, &ExpectedTensor::name));
  // 3 layers of 2 norms, 4 projections, a gate and 9 experts of 3 matrices, and 3 other tensors.
  EXPECT_EQ(tensors.size(), 3U * (2 + 4 + 1 + 27) + 3);
  const auto found = std::ranges::find(
      tensors, "model.layers.2.block_sparse_moe.experts.8.w2.weight", &ExpectedTensor::name);
  ASSERT_NE(found, tensors.end());
  EXPECT_EQ(found->shape, (Shape{26, 14}));
}

// The config members of published models that the rules read, and the number of tensors in their
// indexes.
struct PublishedModel {
  std::string name;
  std::string config;
  std::size_t tensors;
};

TEST(ExpectedTensors, AreThoseOfPublishedModels) {
  const std::vector<PublishedModel> models = {
      {"Llama-2-13b, without 40 rotary_emb.inv_freq",
       R"({"model_type": "llama", "hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40,
           "num_hidden_layers": 40, "num_key_value_heads": 40, "rope_scaling": null,
           "tie_word_embeddings": false, "vocab_size": 32000})",
       363},
      {"Llama-3.2-3B",
       R"({"model_type": "llama", "attention_bias": false, "head_dim": 128, "hidden_size": 3072,
           "intermediate_size": 8192, "mlp_bias": false, "num_attention_heads": 24, "num_hidden_layers": 28,
           "num_key_value_heads": 8, "rope_scaling": {"factor": 32.0, "rope_type": "llama3"},
           "tie_word_embeddings": true, "vocab_size": 128256})",
       254},
      {"SmolLM-135M",
       R"({"model_type": "llama", "attention_bias": false, "head_dim": 64, "hidden_size": 576,
           "intermediate_size": 1536, "mlp_bias": false, "num_attention_heads": 9, "num_hidden_layers": 30,
           "num_key_value_heads": 3, "rope_parameters": {"rope_theta": 100000, "rope_type": "default"},
           "tie_word_embeddings": true, "vocab_size": 49152})",
       272},
      {"Qwen3-1.7B",
       R"({"model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_size": 2048,
           "intermediate_size": 6144, "num_attention_heads": 16, "num_hidden_layers": 28,
           "num_key_value_heads": 8, "rope_scaling": null, "tie_word_embeddings": true, "vocab_size": 151936})",
       310},
      {"Mixtral-8x22B",
       R"({"model_type": "mixtral", "hidden_size": 6144, "intermediate_size": 16384, "num_attention_heads": 48,
           "num_hidden_layers": 56, "num_key_value_heads": 8, "num_local_experts": 8,
           "tie_word_embeddings": false, "vocab_size": 32000})",
       1739},
  };
  for (const PublishedModel& model : models) {
    SCOPED_TRACE(model.name);
    const Json config = parse_json(model.config, "config.json");
    ASSERT_NE(find_family(config), nullptr);
    EXPECT_EQ(expected_tensors(*find_family(config), config).size(), model.tensors);
  }
}

TEST(ExpectedTensors, ATiedModelHasNoHead) {
  Json config = family_info("qwen3").example;
  config["tie_word_embeddings"] = true;
  const auto tensors = expected_tensors(family_by_name("qwen3"), config);
  EXPECT_EQ(std::ranges::find(tensors, "lm_head.weight", &ExpectedTensor::name), tensors.end());
}

TEST(ExpectedTensors, IntegersHaveTheDtypeOfTheirRule) {
  const auto tensors =
      expected_tensors(family_by_name("deepseek_v4"), family_info("deepseek_v4").example);
  EXPECT_TRUE(std::ranges::any_of(
      tensors, [](const ExpectedTensor& tensor) { return tensor.dtype == DType::i64; }));
}

TEST(ExpectedTensors, ATensorHasTheSameShapeInAllItsRules) {
  const auto tensors = [](const std::string& other) {
    const std::string text = tiny_family_with(R"(["norm.weight [D]", "norm.scale [D]"])",
                                              R"(["norm.weight [D]", "norm.scale [D]"], )" + other);
    return expected_tensors(tiny_file(text), parse_json(R"({"hidden_size": 7,
                            "num_hidden_layers": 1, "num_experts": 1})",
                                                        "config.json"));
  };
  const auto twice = tensors(R"(["norm.weight [D]", "norm.twin [D]"])");
  ASSERT_EQ(twice.size(), 3U);
  EXPECT_EQ(twice[2].name, "norm.weight");
  const Error error = catch_error([&] { tensors(R"(["norm.weight [F]", "norm.twin [F]"])"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "rules give \"norm.weight\" the shapes 7 and 5");
  EXPECT_EQ(error.tensor(), "norm.weight");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/global/1");
}

TEST(ExpectedTensors, CodesHaveTheirShapesAndScales) {
  const auto tensors = [](const std::string& decoder, const std::string& more = "") {
    const std::string text =
        tiny_family_with("\"dims\"", "\"decode\": [" + decoder + "], \"dims\"");
    const Json config =
        parse_json(R"({"hidden_size": 64, "num_hidden_layers": 1, "num_experts": 1)" + more + "}",
                   "config.json");
    std::string out;
    for (const ExpectedTensor& tensor : expected_tensors(tiny_file(text), config)) {
      out += tensor.name + " " + to_string(tensor.shape);
      if (tensor.dtype) out += " " + std::string(to_string(*tensor.dtype));
      out += tensor.scale ? " scale; " : "; ";
    }
    return out;
  };
  const std::string block =
      R"({"kind": "block", "name": "*.up.weight", "dtype": "F8_E4M3", "scale": "{name}_s", "block": [2, 32]})";
  const std::string plain =
      "layers.0.experts.0.weight 5x64; layers.0.up.weight 5x64; norm.weight 64; ";
  EXPECT_EQ(tensors(block), plain);
  const std::string quantized = R"(, "quantization_config": {})";
  EXPECT_EQ(tensors(block, R"(, "quantization_config": null)"), plain);
  const std::string coded =
      "layers.0.experts.0.weight 5x64; layers.0.up.weight 5x64 f8_e4m3; layers.0.up.weight_s 3x2 "
      "f32 scale; norm.weight 64; ";
  EXPECT_EQ(tensors(block, quantized), coded);
  EXPECT_EQ(tensors(block, R"(, "text_config": {"quantization_config": {}})"), coded);
  EXPECT_EQ(
      tensors(
          R"({"kind": "tensor", "name": "*.up.weight", "dtype": "F8_E5M2", "scale": "{name}_s"})",
          quantized),
      "layers.0.experts.0.weight 5x64; layers.0.up.weight 5x64 f8_e5m2; layers.0.up.weight_s "
      "scalar f32 scale; norm.weight 64; ");
  EXPECT_EQ(
      tensors(R"({"kind": "mx", "name": "*.up.weight", "dtype": "U8", "scale": "{name}_s"})",
              quantized),
      "layers.0.experts.0.weight 5x64; layers.0.up.weight 5x32 u8; layers.0.up.weight_s 5x2 u8 "
      "scale; norm.weight 64; ");
  EXPECT_EQ(
      tensors(R"({"kind": "int4", "name": "*.up.weight", "dtype": "I32", "scale": "{name}_s"})",
              quantized),
      "layers.0.experts.0.weight 5x64; layers.0.up.weight 5x8 i32; layers.0.up.weight_s 5x2 bf16 "
      "scale; norm.weight 64; ");
}

TEST(AllFamilies, AreSortedByNameWithTheUsersOwn) {
  const std::vector<MappingFile> own = {{"zebra", "zebra.json", "{}"},
                                        {"aardvark", "a.json", "{}"},
                                        {"llama", "my_llama.json", "{}"}};
  const std::vector<FamilyFile> all = all_families(own);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &FamilyFile::name));
  EXPECT_EQ(all.front().name, "aardvark");
  EXPECT_EQ(all.back().name, "zebra");
  EXPECT_EQ(std::ranges::count(all, "llama", &FamilyFile::name), 1) << "it replaces hfshard's";
}

TEST(ExpectedTensors, AMissingConfigKeyIsNamedWithTheFamily) {
  Json config = family_info("qwen3").example;
  config.object().erase("intermediate_size");
  const Error error = catch_error([&] { expected_tensors(family_by_name("qwen3"), config); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_NE(error.sentence().find("\"intermediate_size\""), std::string::npos);
  EXPECT_NE(error.sentence().find("\"qwen3\""), std::string::npos);
}

TEST(ShowFamily, HasARowForEachRuleThatApplies) {
  const Json example = family_info("llama").example;
  const auto stacked = show_family(family_by_name("llama"), example, true).rules;
  const auto query =
      std::ranges::find(stacked, "model.layers.{l}.self_attn.q_proj.weight", &ShownRule::source);
  ASSERT_NE(query, stacked.end());
  EXPECT_EQ(query->count, 5U);
  EXPECT_EQ(query->source_shape, (Shape{84, 26}));
  EXPECT_EQ(query->target, "params.params.decoder.layers.self_attention.query.kernel");
  EXPECT_EQ(query->target_shape, (Shape{26, 5, 6, 14}));
  EXPECT_EQ(query->target_pattern, "[D H (c t)]");
  EXPECT_EQ(query->axes, "embed, layers, q_heads, kv");
  EXPECT_NE(query->value.find("1 / sqrt(h)"), std::string::npos);
  const auto separate = show_family(family_by_name("llama"), example, false).rules;
  EXPECT_EQ(separate.size(), stacked.size());
  const auto row =
      std::ranges::find(separate, "model.layers.{l}.self_attn.q_proj.weight", &ShownRule::source);
  ASSERT_NE(row, separate.end());
  EXPECT_EQ(row->count, 5U);
  EXPECT_EQ(row->target, "params.params.decoder.layers_{l}.self_attention.query.kernel");
}

TEST(ShowFamily, ARuleCountsItsTensorsInEitherLayout) {
  for (const bool stacked : {false, true}) {
    const FamilyFile tiny = tiny_file(kTinyFamily);
    const auto rules = show_family(tiny, load_table(tiny).example, stacked).rules;
    const auto row = std::ranges::find(rules, "layers.{l}.experts.{e}.weight", &ShownRule::source);
    ASSERT_NE(row, rules.end());
    EXPECT_EQ(row->count, 3U * 4U) << "layers and experts";
  }
}

TEST(ShowFamily, OfAnotherSchemeHasItsNames) {
  const Json example = family_info("llama").example;
  const ShownFamily shown = show_family(family_by_name("llama"), example, true, {}, "torchtitan");
  EXPECT_EQ(shown.scheme, "torchtitan");
  EXPECT_FALSE(shown.stacked);
  const auto row = std::ranges::find(shown.rules, "model.layers.{l}.self_attn.q_proj.weight",
                                     &ShownRule::source);
  ASSERT_NE(row, shown.rules.end());
  EXPECT_EQ(row->target, "layers.{l}.attention.qkv_linear.wq.weight");
  EXPECT_EQ(row->target_pattern, "[(H c t) D]");
  EXPECT_EQ(row->axes, "-, dim_1");
}

TEST(ShowFamily, AFillOfAGroupHasThePrefixOfItsLayers) {
  const std::string text =
      tiny_family_with(R"("use": ["mlp"])", R"("fill": [[0, "zeros [D]"]], "use": ["mlp"])");
  const FamilyFile tiny = tiny_file(text);
  const auto filled = [&](bool stacked) {
    const auto rules = show_family(tiny, load_table(tiny).example, stacked).rules;
    const auto row = std::ranges::find(rules, "(filled with 0)", &ShownRule::source);
    return row == rules.end() ? ShownRule() : *row;
  };
  EXPECT_EQ(filled(true).target, "params.decoder.layers.zeros");
  EXPECT_EQ(filled(true).target_shape, (Shape{7, 3}));
  EXPECT_EQ(filled(true).axes, "embed, layers");
  EXPECT_EQ(filled(true).rule, "mappings/tiny.json#/schemes/maxtext/layer/fill/0");
  EXPECT_EQ(filled(true).count, 1U);
  EXPECT_EQ(filled(false).target, "params.decoder.layers_{l}.zeros");
  EXPECT_EQ(filled(false).target_shape, (Shape{7}));
  EXPECT_EQ(filled(false).count, 3U) << "layers";
}

TEST(ShowFamily, AFillOutsideOfGroupsHasThePrefixOfTheScheme) {
  const std::string text =
      tiny_family_with(R"("global")", R"("fill": [[1, "ones [D]"]], "global")");
  const FamilyFile tiny = tiny_file(text);
  const auto rules = show_family(tiny, load_table(tiny).example, true).rules;
  const auto row = std::ranges::find(rules, "(filled with 1)", &ShownRule::source);
  ASSERT_NE(row, rules.end());
  EXPECT_EQ(row->target, "params.ones");
  EXPECT_EQ(row->target_shape, (Shape{7}));
}

TEST(ShowFamily, ADropHasItsReasonAndAShapeIfItStatesOne) {
  const auto dropped = [](const char* side) {
    const std::string text = tiny_family_with("old.* [*]", side);
    const FamilyFile tiny = tiny_file(text);
    const auto rules = show_family(tiny, load_table(tiny).example, true).rules;
    const auto row = std::ranges::find(rules, "(dropped: unused)", &ShownRule::target);
    return row == rules.end() ? ShownRule() : *row;
  };
  EXPECT_EQ(dropped("old.* [*]").source, "old.*");
  EXPECT_EQ(dropped("old.* [*]").source_pattern, "[*]");
  EXPECT_EQ(dropped("old.* [*]").source_shape, std::nullopt);
  EXPECT_EQ(dropped("old [D F]").source_pattern, "[D F]");
  EXPECT_EQ(dropped("old [D F]").source_shape, (Shape{7, 5}));
}

TEST(ShowFamily, ADialectHasItsRenamingsAndTheRest) {
  const Json example = family_info("gemma3").example;
  const ShownFamily shown = show_family(family_by_name("gemma3"), example, true, {}, "modules");
  EXPECT_EQ(shown.scheme, "hf");
  EXPECT_EQ(shown.dialect, "modules");
  EXPECT_FALSE(shown.stacked);
  ASSERT_GE(shown.rules.size(), 2U);
  const ShownRule& rest = shown.rules.back();
  EXPECT_EQ(rest.source, "(every other tensor)");
  EXPECT_EQ(rest.target, "(as it is)");
  EXPECT_TRUE(rest.rule.ends_with("/schemes/modules/rest")) << rest.rule;
  const ShownRule& renamed = shown.rules[shown.rules.size() - 2];
  EXPECT_TRUE(renamed.source.ends_with("*")) << renamed.source;
  EXPECT_TRUE(renamed.target.ends_with("*")) << renamed.target;
  EXPECT_TRUE(renamed.rule.ends_with("/schemes/modules/rename")) << renamed.rule;
  EXPECT_EQ(show_family(family_by_name("gemma3"), example, false, {}, "").dialect, "");
}

TEST(ShowFamily, ValuesAreShownWithTheirFormulaAndDtype) {
  const std::string text = tiny_family_with(
      R"("norm.scale [D]")",
      R"x("norm.scale [D]", {"value": {"mul": {"expr": "1 / sqrt(D + 2)", "const_dtype": "f32"},
                                       "add": {"expr": 1, "const_dtype": "bf16"}}})x");
  const FamilyFile tiny = tiny_file(text);
  const auto rules = show_family(tiny, load_table(tiny).example, true).rules;
  ASSERT_FALSE(rules.empty());
  EXPECT_EQ(rules[0].value, "* 0.333333333 (1 / sqrt(D + 2) in f32) + 1 (1 in bf16)");
  EXPECT_EQ(rules[0].axes, "norm");
  EXPECT_EQ(rules[0].source_pattern, "[D]");
  EXPECT_EQ(rules[0].rule, "mappings/tiny.json#/schemes/maxtext/global/0");
  EXPECT_EQ(rules[1].value, "");
}

TEST(ShowFamily, ADropCountsItsTensors) {
  const std::string text =
      tiny_family_with(R"(["old.* [*]", {"why": "unused"}])",
                       R"(["layers.{m}.old [D]", {"why": "unused", "for": {"m": "L"}}])");
  const FamilyFile tiny = tiny_file(text);
  const auto rules = show_family(tiny, load_table(tiny).example, true).rules;
  EXPECT_EQ(rules.back().source, "layers.{m}.old");
  EXPECT_EQ(rules.back().count, 3U);
  EXPECT_EQ(rules.back().rule, "mappings/tiny.json#/drop/0");
}

TEST(FamilyInfo, HasTheSchemesDialectsOptionsAndLayoutsOfItsTable) {
  using Texts = std::vector<std::string>;
  const FamilyInfo info = family_info("qwen3");
  EXPECT_EQ(info.schemes, (Texts{"maxtext", "torchtitan"}));
  EXPECT_EQ(info.dialects, Texts{"modules"});
  EXPECT_EQ(info.options, Texts{"vocab"});
  EXPECT_EQ(info.model_types, Texts{"qwen3"});
  EXPECT_EQ(info.architectures, Texts{"Qwen3ForCausalLM"});
  EXPECT_TRUE(info.stacked);
  EXPECT_TRUE(info.separate);
  EXPECT_GT(info.proof.accounted, 0U);
  EXPECT_EQ(info_of_family(family_by_name("qwen3"), false).proof.accounted, 0U)
      << "the user's own file";
  const FamilyInfo apart = info_of_family(
      tiny_file(tiny_family_with("\"stacked\": [\"decoder.layers.\", \"l\"],", "")), false);
  EXPECT_FALSE(apart.stacked);
  EXPECT_TRUE(apart.separate);
}

TEST(LintFamily, SaysWhichDimsTheExampleConfuses) {
  const auto lint = [](std::string_view old_text, std::string_view new_text) {
    return lint_table(load_table(tiny_file(tiny_family_with(old_text, new_text))));
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(lint("\"num_experts\": 4", "\"num_experts\": 7"),
            Texts{"dims \"D\" and \"E\" are both 7 in the example"});
  EXPECT_EQ(lint("\"num_experts\": 4", "\"num_experts\": 21"),
            Texts{"dim \"E\" is 21 in the example, a product of others"});
  EXPECT_EQ(lint("\"num_experts\": 4", "\"num_experts\": 1"),
            Texts{"dim \"E\" is 1 in the example"});
  EXPECT_EQ(lint("\"use\": [\"mlp\"], \"source\": \"tiny/repo loader.py\"", "\"use\": [\"mlp\"]"),
            Texts{"mappings/tiny.json#/schemes/maxtext/layer cites no source"});
}

}  // namespace
}  // namespace hfshard
