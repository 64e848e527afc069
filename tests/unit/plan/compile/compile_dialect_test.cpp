#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

MappingOptions modules() {
  MappingOptions options;
  options.scheme = "hf";
  options.dialect = "modules";
  return options;
}

std::vector<std::string> names_of(const CompiledModel& model) {
  std::vector<std::string> out;
  for (const Leaf& leaf : model.leaves) out.push_back(leaf.name);
  return out;
}

const Leaf* leaf_named(const CompiledModel& model, const std::string& name) {
  const auto found = std::ranges::find(model.leaves, name, &Leaf::name);
  return found == model.leaves.end() ? nullptr : &*found;
}

const std::string kExpert = "model.layers.1.mlp.experts.4.up_proj.weight";

TEST(CompileDialect, RulesTakeTheirTensorsAndTheRestStays) {
  FakeCatalog catalog = FakeCatalog::of("qwen3_moe", example_config("qwen3_moe"));
  catalog.add("model.rotary_emb.inv_freq", {5}, DType::f32).add("something.else", {2, 3});
  const CompiledModel model = compile_model(catalog, modules());
  EXPECT_EQ(model.family, "qwen3_moe");
  EXPECT_EQ(model.scheme, "hf");
  EXPECT_TRUE(model.axis_rules.empty());
  EXPECT_TRUE(model.drops.empty()) << "those of the family are for loaders that lack something";
  const Leaf* fused = leaf_named(model, "model.layers.1.mlp.experts.gate_up_proj");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->shape, (Shape{9, 28, 26}));
  EXPECT_TRUE(fused->axes.empty()) << "as of all others";
  EXPECT_EQ(leaf_named(model, kExpert), nullptr);
  for (const char* name : {"model.rotary_emb.inv_freq", "something.else", "lm_head.weight"})
    EXPECT_NE(leaf_named(model, name), nullptr) << name;
  MappingOptions options = modules();
  options.prefix = "app.";
  EXPECT_NE(leaf_named(compile_model(catalog, options), "app.something.else"), nullptr);
  EXPECT_NE(leaf_named(compile_model(catalog, options), "app.model.layers.1.mlp.experts.down_proj"),
            nullptr);
}

// A layer without experts has no rule. A layer with one missing expert is damaged.
TEST(CompileDialect, ARuleOfWhoseTensorsNoneIsThereIsNone) {
  FakeCatalog catalog = FakeCatalog::of("qwen3_moe", example_config("qwen3_moe"));
  catalog.remove(kExpert);
  const Error error = catch_error([&] { compile_model(catalog, modules()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), kExpert);
  std::erase_if(catalog.tensors, [](const TensorInfo& info) {
    return info.name.starts_with("model.layers.1.mlp.experts.");
  });
  const CompiledModel model = compile_model(catalog, modules());
  EXPECT_EQ(leaf_named(model, "model.layers.1.mlp.experts.gate_up_proj"), nullptr);
  EXPECT_NE(leaf_named(model, "model.layers.2.mlp.experts.gate_up_proj"), nullptr);
}

TEST(CompileDialect, ATiedHeadIsACopyUnlessItIsStored) {
  FakeCatalog catalog =
      FakeCatalog::of("qwen3", example_config("qwen3", {{"tie_word_embeddings", true}}));
  const CompiledModel model = compile_model(catalog, modules());
  ASSERT_NE(leaf_named(model, "lm_head.weight"), nullptr);
  EXPECT_EQ(std::ranges::count_if(model.transfers, &Transfer::copy), 1);
  catalog.add("lm_head.weight", {22, 26});
  const CompiledModel stored = compile_model(catalog, modules());
  EXPECT_EQ(names_of(stored), names_of(model));
  EXPECT_EQ(std::ranges::count_if(stored.transfers, &Transfer::copy), 0);
}

TEST(CompileDialect, NamesAreChangedByTheFirstThatFits) {
  FakeCatalog catalog;
  catalog.config_text = dump_json(example_config("gemma3"));
  const std::string old = "language_model.model.";
  catalog.add(old + "embed_tokens.weight", {22, 26}).add(old + "norm.weight", {26});
  catalog.add("vision_tower.vision_model.post_layernorm.weight", {45});
  catalog.add("vision_tower.other", {1}).add("language_modelling", {1});
  EXPECT_EQ(names_of(compile_model(catalog, modules())),
            (std::vector<std::string>{
                "language_modelling", "lm_head.weight", "model.language_model.embed_tokens.weight",
                "model.language_model.norm.weight", "model.vision_tower.other",
                "model.vision_tower.post_layernorm.weight"}));
  MappingOptions options = modules();
  options.flat_names = true;
  catalog.add("model.vision_tower.other", {1});
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "model.vision_tower.other");
}

// Names after the prefix of each layer.
TEST(CompileDialect, LayersHaveRenamingsOfTheirOwn) {
  FakeCatalog catalog;
  catalog.config_text = dump_json(example_config("deepseek_v4"));
  catalog.add("layers.6.attn.wq_a.weight", {29, 19}).add("layers.6.attn.kv_norm.weight", {23});
  catalog.add("layers.6.attn.indexer.compressor.ape", {4, 34}).add("layers.6.ffn.gate.bias", {11});
  catalog.add("layers.7.attn.wq_a.weight", {29, 19}).add("mtp.0.e_proj.weight", {1});
  EXPECT_EQ(names_of(compile_model(catalog, modules())),
            (std::vector<std::string>{
                "layers.7.attn.wq_a.weight", "model.layers.6.mlp.gate.e_score_correction_bias",
                "model.layers.6.self_attn.compressor.indexer.position_bias",
                "model.layers.6.self_attn.kv_norm.weight",
                "model.layers.6.self_attn.q_a_proj.weight", "mtp.0.e_proj.weight"}));
}

TEST(CompileDialect, CodesAreDecodedAndNotKept) {
  FakeCatalog catalog;
  catalog.config_text = dump_json(example_config(
      "qwen3", {{"quantization_config",
                 parse_json(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", "")}}));
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  catalog.add(name, {26, 14}, DType::f8_e4m3).add(name + "_scale_inv", {1, 1}, DType::f32);
  MappingOptions options = modules();
  const CompiledModel model = compile_model(catalog, options);
  ASSERT_EQ(model.leaves.size(), 1U);
  EXPECT_EQ(model.leaves[0].dtype, DType::bf16);
  EXPECT_EQ(model.config_text.find("quantization_config"), std::string::npos);
  options.keep_dtype = true;
  EXPECT_EQ(catch_error([&] { compile_model(catalog, options); }).code(), ErrorCode::unsupported);
}

// Packed integers, which rules fuse, leave only values.
TEST(CompileDialect, PackedExpertsAreFusedAndTheirShapesDropped) {
  const Json packing =
      parse_json(R"({"format": "pack-quantized", "quant_method": "compressed-tensors"})", "");
  FakeCatalog catalog;
  catalog.config_text = dump_json(example_config("deepseek", {{"quantization_config", packing},
                                                              {"n_routed_experts", 2},
                                                              {"hidden_size", 64},
                                                              {"moe_intermediate_size", 32}}));
  for (const char* expert : {"0", "1"}) {
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string name = fmt::format("model.layers.2.mlp.experts.{}.{}.weight", expert, part);
      const bool down = std::string_view(part) == "down_proj";
      const std::uint64_t rows = down ? 64 : 32;
      const std::uint64_t columns = down ? 32 : 64;
      catalog.add(name + "_packed", {rows, columns / 8}, DType::i32);
      catalog.add(name + "_scale", {rows, columns / 32}).add(name + "_shape", {2}, DType::i64);
    }
  }
  const CompiledModel model = compile_model(catalog, modules());
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"model.layers.2.mlp.experts.down_proj",
                                                       "model.layers.2.mlp.experts.gate_up_proj"}));
  EXPECT_EQ(model.drops.size(), 6U);
}

// Only the end of their name tells that of their values.
TEST(CompileDialect, PackedIntegersWithAnUnknownNameStayAsStored) {
  const auto compiled = [](const std::string& name) {
    std::string text =
        tiny_family_with(R"("maxtext": {)", R"("modules": {"source": "tiny.py"}, "maxtext": {)");
    text.replace(text.find(R"("dims")"), 6,
                 R"("decode": [{"kind": "int4", "name": ")" + name +
                     R"(", "dtype": "I32", "scale": "own.scale"}], "dims")");
    FakeCatalog catalog;
    catalog.config_text = R"({"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 0})";
    catalog.add(name, {4, 2}, DType::i32).add("own.scale", {4, 1});
    const CompiledModel model = compile_model(catalog, modules(), load_table(tiny_file(text)));
    std::vector<std::string> out;
    for (const Leaf& leaf : model.leaves)
      out.push_back(
          fmt::format("{} {} {}", leaf.name, to_string(leaf.dtype), to_string(leaf.shape)));
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(compiled("own.codes_packed"), Texts{"own.codes bf16 4x16"});
  EXPECT_EQ(compiled("own.codes"), (Texts{"own.codes i32 4x2", "own.scale bf16 4x1"}));
}

TEST(CompileDialect, FirstLayersAreThoseOfTheGroup) {
  const FakeCatalog catalog = FakeCatalog::of("llama", example_config("llama"));
  MappingOptions options = modules();
  options.num_layers = 1;
  for (const std::string& name : names_of(compile_model(catalog, options)))
    EXPECT_EQ(name.find("layers.1."), std::string::npos) << name;
}

TEST(CompileDialect, WhatIsNotKnownIsToldWithTheNextStep) {
  const auto refused = [](const char* config, const MappingOptions& options) {
    FakeCatalog catalog;
    catalog.add("a", {2});
    catalog.config_text = config;
    return catch_error([&] { compile_model(catalog, options); });
  };
  for (const char* config : {"", R"({"model_type": "unheard"})", R"({"model_type": "flux"})"})
    EXPECT_NE(refused(config, modules()).hint_text().find("--dialect files"), std::string::npos)
        << config;
  EXPECT_NE(refused(R"({"model_type": "kimi_vl", "text_config": {"hidden_size": 2}})", modules())
                .sentence()
                .find("--dialect files"),
            std::string::npos);
  MappingOptions options = modules();
  options.options["vision"] = "true";
  EXPECT_EQ(refused(R"({"model_type": "qwen3"})", options).code(), ErrorCode::usage);
  options = modules();
  options.dialect = "other";
  EXPECT_EQ(refused(R"({"model_type": "qwen3"})", options).code(), ErrorCode::unsupported);
  options = modules();
  options.scheme = "torchtitan";
  EXPECT_EQ(refused(R"({"model_type": "qwen3"})", options).code(), ErrorCode::usage);
}

// Names alone tell how many tensors there will be.
TEST(CompileDialect, TensorsAreCountedByTheirNames) {
  FakeCatalog catalog = FakeCatalog::of("qwen3_moe", example_config("qwen3_moe"));
  const auto counted = [&] {
    const NameCheck found = check_names(catalog, modules());
    EXPECT_TRUE(found.findings.empty());
    return found.leaves;
  };
  EXPECT_EQ(counted(), compile_model(catalog, modules()).leaves.size());
  catalog.add("something.else", {2, 3});
  EXPECT_EQ(counted(), compile_model(catalog, modules()).leaves.size());
  std::erase_if(catalog.tensors, [](const TensorInfo& info) {
    return info.name.starts_with("model.layers.1.mlp.experts.");
  });
  EXPECT_EQ(counted(), compile_model(catalog, modules()).leaves.size());
}

TEST(CompileDialect, CopiesAreCountedAndLayersThatAreLeftOutAreNot) {
  const FakeCatalog tied =
      FakeCatalog::of("qwen3", example_config("qwen3", {{"tie_word_embeddings", true}}));
  EXPECT_EQ(check_names(tied, modules()).leaves, compile_model(tied, modules()).leaves.size());
  const FakeCatalog catalog = FakeCatalog::of("llama", example_config("llama"));
  MappingOptions options = modules();
  options.num_layers = 2;
  EXPECT_EQ(check_names(catalog, options).leaves, compile_model(catalog, options).leaves.size());
  EXPECT_LT(check_names(catalog, options).leaves, check_names(catalog, modules()).leaves);
}

}  // namespace
}  // namespace hfshard
