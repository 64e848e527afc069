#include "service/complete.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

TEST(Complete, AnArrayThatTheModelLacksIsNamedAndCanBeLeftOut) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  EXPECT_EQ(check_complete_tree(tree, config, {}).unchecked, "");
  for (const char* name : {"zebra.a", "zebra.b"}) {
    tree.tensors.push_back(tree.tensors.back());
    tree.tensors.back().name = name;
  }
  MappingOptions options;
  const Error error = catch_error([&] { check_complete_tree(tree, config, options); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "zebra.a");
  options.exclude = {"zebra.*"};
  EXPECT_EQ(check_complete_tree(tree, config, options).left_out_others,
            (Names{"zebra.a", "zebra.b"}));
}

// Such codes have other names and shapes than the model's tensors.
TEST(Complete, ATreeOfCodesThatCantBeDecodedIsNotChecked) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  const std::string weight = "model.layers.0.self_attn.q_proj.weight";
  const auto codes = std::ranges::find(tree.tensors, weight, &TensorInfo::name);
  ASSERT_NE(codes, tree.tensors.end());
  codes->name = "model.layers.0.self_attn.q_proj.qweight";
  std::ranges::sort(tree.tensors, {}, &TensorInfo::name);
  const Completeness found = check_complete_tree(tree, config, {});
  EXPECT_EQ(found.unchecked, "it is quantized with GPTQ or AWQ");
  EXPECT_EQ(found.others, Names{});
}

TEST(Complete, LackingTensorsAreCountedAndWithIncludeADoubt) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  EXPECT_EQ(count_lacking(tree, config, {}), 0U);
  erase_below(tree, "model.layers.0.mlp.");
  EXPECT_EQ(count_lacking(tree, config, {}), 3U);
  Catalog other = tree;
  other.tensors[*other.find("model.norm.weight")].shape = {3};
  EXPECT_EQ(count_lacking(other, config, {}), std::nullopt);

  MappingOptions options;
  EXPECT_EQ(catch_error([&] { check_complete_tree(tree, config, options); }).code(),
            ErrorCode::not_found);
  options.include = {"*"};
  EXPECT_NE(
      check_complete_tree(tree, config, options)
          .doubt.find("3 tensors of the model, such as \"model.layers.0.mlp.gate_proj.weight"),
      std::string::npos);
  EXPECT_NE(check_complete_tree(other, config, options).doubt.find("\"model.norm.weight\": "),
            std::string::npos);
  options.include.clear();
  options.num_layers = 1;
  EXPECT_EQ(check_complete_tree(tree, config, options).doubt, "");
}

// Such a model isn't quite the family's, so only its names and shapes are compared.
TEST(Complete, ABiasIsKnownIfTheConfigSaysThatTheModelHasBiases) {
  const std::string bias = "model.layers.0.self_attn.qkv_proj.bias";
  const auto checked = [&](const char* key, const Json& value) {
    Catalog tree = files_of("phi3");
    Json config = parse_json(std::exchange(tree.config_text, {}), "config.json");
    config["partial_rotary_factor"] = parse_json("0.5", "");
    config.object().erase("attention_bias");
    config[key] = value;
    tree.tensors.push_back(tree.tensors.front());
    tree.tensors.back().name = bias;
    std::ranges::sort(tree.tensors, {}, &TensorInfo::name);
    return check_complete_tree(tree, dump_json(config), {});
  };
  EXPECT_EQ(checked("mlp_bias", Json(true)).compared,
            "names and shapes are those of phi3 models; hfshard checked nothing else: MaxText's "
            "llama layers rotate whole heads, but config.json says partial_rotary_factor");
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    for (const char* value : {"false", "null", "5"}) {
      EXPECT_EQ(checked(key, parse_json(value, "")).doubt,
                "the output may not be a whole model: of the names in phi3 models, none are "
                "missing; unknown names: \"" +
                    bias + "\"")
          << key << value;
    }
  }
}

// Each scheme without such biases has its own words.
TEST(Complete, TheReasonIsThatOfTheFirstScheme) {
  Catalog tree = files_of("qwen3");
  Json config = parse_json(std::exchange(tree.config_text, {}), "config.json");
  config["attention_bias"] = true;
  EXPECT_EQ(check_complete_tree(tree, dump_json(config), {}).compared,
            "names and shapes are those of qwen3 models; hfshard checked nothing else: MaxText's "
            "qwen3 layers have no projection biases, but config.json says attention_bias");
}

// The rules drop the only tensor of layer 1, so nothing of the layer is there.
TEST(Complete, ALayerWithOnlyADroppedTensorIsMissing) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  erase_below(tree, "model.layers.1.");
  tree.tensors.push_back(tree.tensors.front());
  tree.tensors.back().name = "model.layers.1.self_attn.rotary_emb.inv_freq";
  std::ranges::sort(tree.tensors, {}, &TensorInfo::name);
  const Error error = catch_error([&] { check_complete_tree(tree, config, {}); });
  EXPECT_EQ(
      error.hint_text(),
      "config.json expects them; config.json asks for 3 layers, and the checkpoint has nothing "
      "of layer 1; to convert the arrays as they are, pass --include '*'");
}

// A model can have codes in only some layers. Only those have scales of activations.
TEST(Complete, ScalesBesideCodesOfOnlySomeLayersAreNotADoubt) {
  Catalog tree = files_of("qwen3", {{"num_hidden_layers", 4}});
  Json config = parse_json(std::exchange(tree.config_text, {}), "config.json");
  config["quantization_config"]["quant_method"] = "compressed-tensors";
  std::vector<TensorInfo> scales;
  for (TensorInfo& tensor : tree.tensors) {
    if (!tensor.name.ends_with("_proj.weight") || tensor.name.starts_with("model.layers.1."))
      continue;
    tensor.dtype = DType::f8_e4m3;
    TensorInfo scale;
    scale.dtype = DType::f32;
    scale.shape = {1};
    scale.name = tensor.name + "_scale";
    scales.push_back(scale);
    scale.name.replace(scale.name.rfind("weight"), std::string::npos, "input_scale");
    scales.push_back(scale);
  }
  EXPECT_EQ(scales.size(), 42U);
  tree.tensors.insert(tree.tensors.end(), scales.begin(), scales.end());
  std::ranges::sort(tree.tensors, {}, &TensorInfo::name);
  const Completeness found = check_complete_tree(tree, dump_json(config), {});
  EXPECT_EQ(found.doubt, "");
  EXPECT_EQ(found.unchecked, "");
  EXPECT_EQ(found.family, "qwen3");
}

// The rules drop the vision tower, so they don't know its tensors.
TEST(Complete, ABlockOfADroppedTowerThatLacksTensorsIsADoubt) {
  Catalog tree = files_of("gemma3");
  const std::string config = std::exchange(tree.config_text, {});
  const std::string stem = "vision_tower.vision_model.encoder.layers.";
  for (const char* block : {"0", "1", "2", "3"}) {
    for (const char* inner : {".k.weight", ".o.weight", ".q.weight", ".v.weight"})
      tree.tensors.emplace_back().name = stem + block + inner;
  }
  std::ranges::sort(tree.tensors, {}, &TensorInfo::name);
  EXPECT_EQ(check_complete_tree(tree, config, {}).doubt, "");
  erase_below(tree, stem + "2.q.");
  EXPECT_EQ(check_complete_tree(tree, config, {}).doubt,
            "the output may not be a whole model: \"" + stem +
                "2\" lacks a tensor that the others beside it have, such as \"" + stem +
                "2.q.weight\"");
}

TEST(Complete, AHeadThatIsMissingIsNamed) {
  Catalog tree = files_of("qwen3");  // its embeddings aren't tied
  const std::string config = std::exchange(tree.config_text, {});
  erase_below(tree, "lm_head.");
  const Error error = catch_error([&] { check_complete_tree(tree, config, {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), "lm_head.weight");
}

// Only a class without a head explains that the head is missing.
TEST(Complete, AHeadIsWantedUnlessTheConfigNamesAClassWithoutOne) {
  const auto code = [](Json classes) {
    Catalog tree = files_of("qwen3", {{"architectures", std::move(classes)}});
    const std::string config = std::exchange(tree.config_text, {});
    erase_below(tree, "lm_head.");
    return catch_error([&] {
             check_complete_tree(tree, config, {});
             throw Error(ErrorCode::usage, "nothing is missing");
           })
        .code();
  };
  for (const char* classes :
       {"5", "[]", "[5]", R"(["Qwen3ForCausalLM"])", R"(["GPT2LMHeadModel"])"})
    EXPECT_EQ(code(parse_json(classes, "")), ErrorCode::not_found) << classes;
  for (const char* end :
       {"Model", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"})
    EXPECT_EQ(code(Json(Json::Array{Json(std::string("Qwen3") + end)})), ErrorCode::usage) << end;
  EXPECT_EQ(code(parse_json(R"(["Qwen3ForCausalLM", "Qwen3Model"])", "")), ErrorCode::not_found)
      << "the first class counts";
}

TEST(Complete, AClassWithoutAHeadWantsEverythingElse) {
  Catalog tree = files_of("qwen3", {{"architectures", parse_json(R"(["Qwen3Model"])", "")}});
  const std::string config = std::exchange(tree.config_text, {});
  erase_below(tree, "lm_head.");
  erase_below(tree, "model.norm.");
  const Error error = catch_error([&] { check_complete_tree(tree, config, {}); });
  EXPECT_EQ(error.sentence(), "the source lacks a tensor of the model");
  EXPECT_EQ(error.tensor(), "model.norm.weight");
  EXPECT_TRUE(error.rule().starts_with("mappings/qwen3.json#/")) << error.rule();
}

TEST(Complete, TheFirstNamesThatNoRuleHasAreShown) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  for (const char* name : {"zebra.a", "zebra.b", "zebra.c", "zebra.d", "zebra.e"}) {
    tree.tensors.push_back(tree.tensors.back());
    tree.tensors.back().name = name;
  }
  MappingOptions options;
  options.exclude = {"zebra.a"};
  EXPECT_EQ(catch_error([&] { check_complete_tree(tree, config, options); }).sentence(),
            "4 arrays match no rule of family \"qwen3\": \"zebra.b\", \"zebra.c\", "
            "\"zebra.d\" and 1 more");
  tree.config_text = config;
  options.include = {"*"};
  const Completeness included = check_complete(tree, options);
  EXPECT_EQ(included.family, "");
  EXPECT_EQ(included.others, Names());
  EXPECT_EQ(included.left_out_others, Names());
  options.include.clear();
  const Completeness found = check_complete(tree, options);
  EXPECT_EQ(found.family, "qwen3");
  EXPECT_EQ(found.others, (Names{"zebra.b", "zebra.c", "zebra.d", "zebra.e"}));
  EXPECT_EQ(found.left_out_others, Names{"zebra.a"});
}

// Trainers save the model below such a key.
TEST(Complete, AllNamesOfAModelBelowOneKeyAreADoubt) {
  const auto doubt_of = [](const Names& names) {
    Catalog tree;
    for (const std::string& name : names) tree.tensors.emplace_back().name = name;
    return check_complete_tree(tree, R"({"model_type": "nobody"})", {}).doubt;
  };
  for (const char* inner : {"model.norm", "lm_head.weight"}) {
    const std::string doubt = doubt_of({std::string("app.") + inner, "app.z"});
    EXPECT_NE(doubt.find("--root app "), std::string::npos) << doubt;
  }
  for (const char* root : {"model", "module", "state_dict"}) {
    EXPECT_EQ(
        doubt_of({std::string(root) + ".model.norm"}),
        fmt::format("all tensors are below \"{0}\"; pass --root {0} to read the names below it",
                    root));
  }
  EXPECT_EQ(doubt_of({"app.a", "app.z"}), "");
  EXPECT_EQ(doubt_of({"app.model.norm", "other"}), "");
  EXPECT_EQ(doubt_of({"app_model.norm"}), "");
  EXPECT_EQ(doubt_of({"zoo.model.norm"}), "");
  EXPECT_EQ(doubt_of({}), "");
  const auto unchecked = [](const char* config) {
    return check_complete_tree({}, config, {}).unchecked;
  };
  EXPECT_NE(unchecked(R"({"model_type": "nobody"})").find("\"nobody\""), std::string::npos);
  for (const char* config : {"{}", R"({"model_type": 5})"})
    EXPECT_NE(unchecked(config).find("has no model_type"), std::string::npos) << config;
}

TEST(Complete, OneTensorAndSeveralAreNamedWithOthersThatNoRuleHas) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  tree.location = "tree";
  const auto failure = [&](const MappingOptions& options) {
    const Error error = catch_error([&] { check_complete_tree(tree, config, options); });
    EXPECT_EQ(error.file(), "tree");
    return error.sentence() + " / " + error.tensor() + " / " + error.hint_text();
  };
  const std::string all = "to convert the arrays as they are, pass --include '*'";
  erase_below(tree, "model.layers.0.mlp.up_proj.");
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  EXPECT_EQ(failure({}),
            "the source lacks a tensor of the model / " + up + " / config.json expects it; " + all);
  tree.tensors.push_back(tree.tensors.back());
  tree.tensors.back().name = "zebra.a";
  EXPECT_EQ(failure({}), "the source lacks a tensor of the model / " + up +
                             " / config.json expects it; no rule has \"zebra.a\"; " + all);
  MappingOptions options;
  options.exclude = {up};
  EXPECT_EQ(failure(options),
            "an array matches no rule of family \"qwen3\": \"zebra.a\" / zebra.a / pass --exclude "
            "GLOB to leave arrays out, or --root KEY to read a subtree; " +
                all);
  tree.tensors.push_back(tree.tensors.back());
  tree.tensors.back().name = "zebra.b";
  EXPECT_EQ(failure(options),
            "2 arrays match no rule of family \"qwen3\": \"zebra.a\", \"zebra.b\" / zebra.a / pass "
            "--exclude GLOB to leave arrays out, or --root KEY to read a subtree; " +
                all);
  options.exclude.push_back("zebra.*");
  EXPECT_EQ(check_complete_tree(tree, config, options).family, "qwen3");
}

TEST(Complete, ATreeOfAnUnknownFamilyKeepsItsNamesAndOneWithoutAConfigIsNotCompared) {
  const Completeness unknown = check_complete_tree({}, R"({"model_type": "nobody"})", {});
  EXPECT_TRUE(unknown.is_unknown);
  EXPECT_EQ(unknown.unchecked,
            "no family has model_type \"nobody\", so the arrays keep their names");
  EXPECT_EQ(check_complete_tree({}, "{}", {}).unchecked,
            "config.json has no model_type, so the arrays keep their names");
  Catalog files = files_of("qwen3");
  files.config_text.clear();
  const Completeness without = check_complete(files, {});
  EXPECT_FALSE(without.is_unknown);
  EXPECT_EQ(without.unchecked,
            "without a config.json, hfshard can't tell which tensors the model has");
  Catalog tree;
  tree.tensors.emplace_back().name = "module.lm_head.weight";
  EXPECT_EQ(check_complete_tree(tree, R"({"model_type": "nobody"})", {}).doubt,
            "all tensors are below \"module\"; pass --root module to read the names below it");
}

TEST(Complete, NamesThatAModelLacksAndAddsAreOneDoubt) {
  Catalog tree = files_of("phi3");
  Json config = parse_json(std::exchange(tree.config_text, {}), "config.json");
  config["partial_rotary_factor"] = parse_json("0.5", "");
  const auto doubt = [&] { return check_complete_tree(tree, dump_json(config), {}).doubt; };
  const std::string head = "the output may not be a whole model: of the names in phi3 models, ";
  EXPECT_EQ(doubt(), "");
  erase_below(tree, "model.norm.");
  EXPECT_EQ(doubt(), head + "1 is missing, such as \"model.norm.weight\"");
  tree.tensors.push_back(tree.tensors.back());
  tree.tensors.back().name = "zebra";
  EXPECT_EQ(doubt(),
            head + "1 is missing, such as \"model.norm.weight\"; unknown names: \"zebra\"");
  erase_below(tree, "model.layers.0.mlp.down_proj.");
  EXPECT_EQ(doubt(), head +
                         "2 are missing, such as \"model.norm.weight\"; "
                         "unknown names: \"zebra\"");
}

}  // namespace
}  // namespace hfshard
