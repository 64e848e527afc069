#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The place of qwen3's query rule: the family's use of a part, and the part's rule.
constexpr std::string_view kQueryRule =
    "mappings/qwen3.json#/schemes/maxtext/layer/use/2 -> "
    "mappings/common.json#/parts/attention/schemes/maxtext/rules/0";

const std::string kQuery = "model.layers.1.self_attn.q_proj.weight";

FakeCatalog qwen3(const Json::Object& replaced = {}) {
  return FakeCatalog::of("qwen3", example_config("qwen3", replaced));
}

FakeCatalog llama(const Json::Object& replaced = {}) {
  return FakeCatalog::of("llama", example_config("llama", replaced));
}

CompiledModel compile(const Catalog& catalog, const MappingOptions& options = {}) {
  return compile_model(catalog, options);
}

Error failure(const Catalog& catalog, const MappingOptions& options = {}) {
  return catch_error([&] { compile_model(catalog, options); });
}

MappingOptions with_option(const std::string& name, const std::string& value) {
  MappingOptions options;
  options.options[name] = value;
  return options;
}

// Returns the schemes of a family that have its example.
std::vector<std::string> schemes_with_example(const FamilyInfo& info) {
  std::vector<std::string> out;
  for (const std::string& scheme : info.schemes) {
    try {
      FakeCatalog::of(info.name, info.example, scheme);
      out.push_back(scheme);
    } catch (const Error& error) {  // V3.2's indexer exists only in MaxText
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_EQ(info.name, "deepseek");
    }
  }
  return out;
}

TEST(CompileModel, EveryFamilyCompilesItsExampleInEverySchemeAndLayout) {
  for (const FamilyInfo& info : families_to_walk()) {
    for (const std::string& scheme : schemes_with_example(info)) {
      for (const bool stacked : {true, false}) {
        if (!family_has_layout(family_by_name(info.name), info.example, {}, stacked, scheme))
          continue;
        SCOPED_TRACE(info.name + " " + scheme + (stacked ? " stacked" : " separate"));
        MappingOptions options;
        options.scheme = scheme;
        options.stacked = stacked;
        const FakeCatalog catalog = FakeCatalog::of(info.name, info.example, scheme);
        const CompiledModel model = compile(catalog, options);
        EXPECT_EQ(model.family, info.name);
        EXPECT_EQ(model.scheme, scheme);
        EXPECT_EQ(model.stacked, stacked);
        EXPECT_TRUE(std::ranges::is_sorted(model.leaves, {}, &Leaf::name));
        EXPECT_TRUE(prove(catalog, model).empty());
      }
    }
  }
}

TEST(CompileModel, ASchemeThatStacksNothingHasSeparateLayersUnasked) {
  MappingOptions options;
  options.scheme = "torchtitan";
  EXPECT_TRUE(options.stacked);
  const CompiledModel model = compile(qwen3(), options);
  EXPECT_FALSE(model.stacked);
  const auto leaf =
      std::ranges::find(model.leaves, "layers.2.attention.qkv_linear.wq.weight", &Leaf::name);
  ASSERT_NE(leaf, model.leaves.end());
  EXPECT_EQ(leaf->shape, (Shape{40, 26}));
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"", "dim_1"}));
  EXPECT_EQ(model.load_words, std::vector<std::string>{"--checkpoint.enable"});
}

// restrict_to requires this of every compiled map.
TEST(CompileModel, NoDigitSpansTwoAxesOfItsLeaf) {
  for (const FamilyInfo& info : families_to_walk()) {
    for (const std::string& scheme : schemes_with_example(info)) {
      MappingOptions options;
      options.scheme = scheme;
      const CompiledModel model =
          compile(FakeCatalog::of(info.name, info.example, scheme), options);
      for (const Transfer& transfer : model.transfers) {
        SCOPED_TRACE(model.rules[transfer.rule]);
        const Shape& shape = model.leaves[transfer.target].shape;
        EXPECT_EQ(split_by_axes(transfer.map, shape).digits.size(), transfer.map.digits.size());
      }
    }
  }
}

TEST(CompileModel, AStackIsAnAxisOfItsLeaf) {
  const CompiledModel model = compile(qwen3());
  const Leaf* leaf = find_leaf(model, "decoder.layers.self_attention.query.kernel");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->shape, (Shape{26, 3, 4, 10}));
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"embed", "layers", "q_heads", "kv"}));
  EXPECT_EQ(leaf->stacked, (std::vector<bool>{false, true, false, false}));
  const Leaf* norm = find_leaf(model, "decoder.layers.self_attention.query_norm.scale");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->axes, (std::vector<std::string>{"norm", "layers"}));
}

TEST(CompileModel, TheDtypeOfTheSourceIsKept) {
  FakeCatalog catalog = qwen3();
  catalog.get("model.norm.weight").dtype = DType::f32;
  const CompiledModel model = compile(catalog);
  EXPECT_EQ(find_leaf(model, "decoder.decoder_norm.scale")->dtype, DType::f32);
  EXPECT_EQ(find_leaf(model, "token_embedder.embedding")->dtype, DType::bf16);
}

TEST(CompileModel, NamesTheModelsThatFit) {
  const Json config = example_config("qwen3", {{"hidden_size", 1024},
                                               {"num_hidden_layers", 28},
                                               {"num_attention_heads", 16},
                                               {"num_key_value_heads", 8},
                                               {"head_dim", 128},
                                               {"intermediate_size", 3072},
                                               {"vocab_size", 151936},
                                               {"rope_theta", 1000000},
                                               {"tie_word_embeddings", true}});
  EXPECT_EQ(compile(FakeCatalog::of("qwen3", config)).model_names,
            (std::vector<std::string>{"qwen3-0.6b"}));
  // A missing value is 10000, as in transformers.
  Json::Object unsaid = config.as_object();
  unsaid.erase("rope_theta");
  EXPECT_TRUE(compile(FakeCatalog::of("qwen3", Json(unsaid))).model_names.empty());
  EXPECT_TRUE(compile(qwen3()).model_names.empty());
}

TEST(CompileModel, AShapeThatContradictsTheConfigNamesItsKey) {
  FakeCatalog catalog = qwen3();
  catalog.get(kQuery).shape = {44, 26};
  const Error error = failure(catalog);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.rule(), kQueryRule);
  EXPECT_EQ(error.tensor(), kQuery);
  EXPECT_EQ(error.file(), "model.safetensors");
  EXPECT_EQ(error.sentence(),
            "head_dim in config.json is 10, and the tensor has 11 (44x26), which is larger");
  catalog.get(kQuery).shape = {30, 26};
  EXPECT_EQ(failure(catalog).sentence(),
            "num_attention_heads in config.json is 4, and the tensor has 3 (30x26), which is "
            "smaller");
}

TEST(CompileModel, AShapeThatNoKeyOrSeveralExplainNamesAllKeys) {
  FakeCatalog catalog = qwen3();
  catalog.get(kQuery).shape = {80, 26};
  EXPECT_EQ(failure(catalog).sentence(),
            "config.json implies a size of 40 (num_attention_heads, head_dim), and the "
            "tensor has 80 (80x26), which is larger");
  catalog.get(kQuery).shape = {41, 26};
  EXPECT_EQ(failure(catalog).sentence(),
            "config.json implies a size of 40 (num_attention_heads, head_dim), and the "
            "tensor has 41 (41x26), which is larger");
  catalog.get(kQuery).shape = {40, 27};
  EXPECT_EQ(failure(catalog).sentence(),
            "hidden_size in config.json is 26, and the tensor has 27 (40x27), which is larger");
  catalog.get(kQuery).shape = {1040};
  EXPECT_EQ(failure(catalog).sentence(), "the tensor is 1040; config.json says 40x26");
}

TEST(CompileModel, AMissingTensorIsNamedWithItsRule) {
  const Error error = failure(qwen3().remove(kQuery));
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), kQuery);
  EXPECT_EQ(error.rule(), kQueryRule);
}

// Other tensors are missing too, so a shared embedding doesn't explain it.
TEST(CompileModel, AMissingHeadIsOneOfSeveralMissingTensors) {
  EXPECT_NE(failure(qwen3().remove("lm_head.weight")).hint_text().find("tie_word_embeddings"),
            std::string::npos);
  const Error error = failure(qwen3().remove("lm_head.weight").remove(kQuery));
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "the source lacks 2 tensors that rules need");
}

TEST(CompileModel, TensorsOfAnotherGenerationAreListedWithTheNearestRules) {
  FakeCatalog catalog = qwen3();
  for (int i = 0; i < 5; ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".mlp.gate_up_proj.weight";
    catalog.add(name, {28, 26});
  }
  catalog.remove("model.layers.0.mlp.gate_proj.weight");
  const Error error = failure(catalog);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_NE(error.sentence().find("5 tensors match no rule of family \"qwen3\""),
            std::string::npos);
  EXPECT_NE(error.sentence().find("model.layers.2.mlp.gate_up_proj.weight"), std::string::npos);
  EXPECT_EQ(error.sentence().find("model.layers.3.mlp"), std::string::npos);
  EXPECT_NE(error.hint_text().find("model.layers.*.mlp.gate_proj.weight"), std::string::npos);
}

// A number adds no distance to the rule's variable. With any more, the second one is too far.
TEST(CompileModel, TheNearestRulesAreThoseForAnyLayer) {
  for (const std::string layer : {"1", "12"}) {
    const Error error = failure(qwen3().add("model.layers." + layer + ".mlp.fc1.weight", {28, 26}));
    EXPECT_TRUE(error.hint_text().starts_with(
        R"(the nearest rules are for "model.layers.*.mlp.up_proj.weight" and )"
        R"("model.layers.*.mlp.down_proj.weight"; )"))
        << error.hint_text();
  }
}

TEST(CompileModel, ANumberInAWordIsPartOfTheWord) {
  FakeCatalog catalog = FakeCatalog::of("mixtral", example_config("mixtral"));
  catalog.add("model.layers.1.block_sparse_moe.experts.3.w2.weihgt", {1});
  EXPECT_TRUE(failure(catalog).hint_text().starts_with(
      R"(the nearest rules are for "model.layers.*.block_sparse_moe.experts.*.w2.weight" and )"
      R"("model.layers.*.block_sparse_moe.experts.*.w1.weight"; )"))
      << failure(catalog).hint_text();
}

TEST(CompileModel, ATensorIsNotNearestToItsOwnRule) {
  const Error error = failure(qwen3().add("model.layers.12.mlp.up_proj.weight", {28, 26}));
  EXPECT_TRUE(
      error.hint_text().starts_with("the rule for this name doesn't apply to this config.json; "))
      << error.hint_text();
}

TEST(CompileModel, TheConfigMustBeThereAndNameAFamily) {
  FakeCatalog catalog = qwen3();
  catalog.config_text = "";
  EXPECT_EQ(failure(catalog).code(), ErrorCode::not_found);
  catalog.config_text = R"({"model_type": "qwen33"})";
  const Error unknown = failure(catalog);
  EXPECT_EQ(unknown.code(), ErrorCode::unsupported);
  EXPECT_NE(unknown.hint_text().find("qwen3"), std::string::npos);
  EXPECT_NE(unknown.hint_text().find("--scheme hf"), std::string::npos);
  catalog.config_text = "{}";
  EXPECT_EQ(failure(catalog).code(), ErrorCode::unsupported);
  catalog.config_text = R"({"model_type": 7})";
  EXPECT_EQ(failure(catalog).sentence(), "config.json has no model_type");
  catalog.config_text = "{";
  EXPECT_EQ(failure(catalog).code(), ErrorCode::bad_input);
}

TEST(CompileModel, UnknownSchemesAndOptionsAreRefused) {
  MappingOptions options;
  options.scheme = "t5x";
  EXPECT_EQ(failure(qwen3(), options).code(), ErrorCode::unsupported);
  const Error error = failure(qwen3(), with_option("rope", "halves"));
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(error.hint_text().find("vocab"), std::string::npos);
}

TEST(CompileModel, AHeadThatIsStoredTwiceIsComparedAndDropped) {
  FakeCatalog catalog = qwen3({{"tie_word_embeddings", true}});
  EXPECT_TRUE(compile(catalog).drops.empty());
  catalog.add("lm_head.weight", {22, 26});
  const CompiledModel model = compile(catalog);
  EXPECT_EQ(find_leaf(model, "decoder.logits_dense.kernel"), nullptr);
  ASSERT_EQ(model.drops.size(), 1U);
  EXPECT_EQ(model.drops[0].same_as, catalog.find("model.embed_tokens.weight"));
  catalog.get("lm_head.weight").dtype = DType::f32;
  EXPECT_EQ(failure(catalog).code(), ErrorCode::bad_input);
}

TEST(CompileModel, AnExcludedLeafDisappearsAndIsANamedDrop) {
  MappingOptions options;
  options.exclude = {"lm_head.*", "*.q_norm.weight"};
  const CompiledModel model = compile(qwen3(), options);
  EXPECT_EQ(find_leaf(model, "decoder.logits_dense.kernel"), nullptr);
  EXPECT_EQ(find_leaf(model, "decoder.layers.self_attention.query_norm.scale"), nullptr);
  EXPECT_NE(find_leaf(model, "decoder.layers.self_attention.key_norm.scale"), nullptr);
  ASSERT_EQ(model.drops.size(), 4U);
  EXPECT_EQ(model.drops[0].why, "--exclude \"lm_head.*\"");
}

TEST(CompileModel, IncludeKeepsOnlyWhatItNames) {
  MappingOptions options;
  options.include = {"model.norm.weight"};
  const FakeCatalog catalog = qwen3();
  const CompiledModel model = compile(catalog, options);
  ASSERT_EQ(model.leaves.size(), 1U);
  EXPECT_EQ(model.drops.size(), catalog.tensors.size() - 1);
}

TEST(CompileModel, ALeafThatIsLeftPartlyCoveredIsAnError) {
  MappingOptions options;
  options.exclude = {kQuery};
  const Error error = failure(qwen3(), options);
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.tensor(), kQuery);
  EXPECT_EQ(error.sentence(),
            "the rules cover only part of leaf "
            "\"params.params.decoder.layers.self_attention.query.kernel\"");
  EXPECT_EQ(
      error.hint_text(),
      "--include and --exclude must keep all of its source tensors or none; for fewer layers, "
      "pass --num-layers");
  options.stacked = false;
  EXPECT_EQ(find_leaf(compile(qwen3(), options), "decoder.layers_1.self_attention.query.kernel"),
            nullptr);
}

TEST(CompileModel, ExcludeAcceptsTensorsThatNoRuleKnows) {
  MappingOptions options;
  options.exclude = {"extra.*"};
  EXPECT_EQ(compile(qwen3().add("extra.w", {3}), options).drops.size(), 1U);
}

TEST(CompileModel, VocabPadsWithZerosOrCutsRows) {
  const CompiledModel padded = compile(qwen3(), with_option("vocab", "32"));
  EXPECT_EQ(find_leaf(padded, "token_embedder.embedding")->shape, (Shape{32, 26}));
  EXPECT_EQ(find_leaf(padded, "decoder.logits_dense.kernel")->shape, (Shape{26, 32}));
  EXPECT_EQ(padded.fills.size(), 2U);
  const CompiledModel cut = compile(qwen3(), with_option("vocab", "20"));
  EXPECT_EQ(find_leaf(cut, "token_embedder.embedding")->shape, (Shape{20, 26}));
  EXPECT_EQ(find_leaf(cut, "decoder.logits_dense.kernel")->shape, (Shape{26, 20}));
  EXPECT_EQ(cut.drops.size(), 2U);
  EXPECT_EQ(failure(qwen3(), with_option("vocab", "-1")).code(), ErrorCode::usage);
  EXPECT_EQ(failure(qwen3(), with_option("vocab", "many")).code(), ErrorCode::usage);
}

TEST(CompileModel, AnExcludedLeafTakesItsFillWithIt) {
  MappingOptions options = with_option("vocab", "32");
  options.exclude = {"lm_head.weight"};
  EXPECT_EQ(compile(qwen3(), options).fills.size(), 1U);
}

TEST(CompileModel, AConditionOfTheFamilyIsUnsupportedWhereItFails) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    SCOPED_TRACE(key);
    FakeCatalog catalog = llama();
    catalog.config_text = dump_json(example_config("llama", {{key, true}}));
    EXPECT_EQ(failure(catalog).code(), ErrorCode::unsupported);
  }
}

const Transfer& transfer_to(const CompiledModel& model, std::string_view path) {
  const Leaf* leaf = find_leaf(model, path);
  const auto index = static_cast<std::uint32_t>(leaf - model.leaves.data());
  return *std::ranges::find(model.transfers, index, &Transfer::target);
}

TEST(CompileLlama, ScalesTheQueryByTheRootOfTheHeadWidth) {
  const CompiledModel model = compile(llama());
  const Value& value = transfer_to(model, "decoder.layers.self_attention.query.kernel").value;
  EXPECT_EQ(value.mul, static_cast<float>(1.0 / std::sqrt(14.0)));
  EXPECT_FALSE(value.add);
  EXPECT_TRUE(transfer_to(model, "decoder.layers.self_attention.key.kernel").value.empty());
}

TEST(CompileLlama, RefusesToComputeWithOtherDtypes) {
  FakeCatalog catalog = llama();
  for (TensorInfo& info : catalog.tensors) info.dtype = DType::i8;
  EXPECT_EQ(failure(catalog).code(), ErrorCode::unsupported);
}

// Element c of a head is at 2 c if interleaved, otherwise at c.
std::int64_t step_of_neighbors(const CompiledModel& model) {
  const Transfer& key = transfer_to(model, "decoder.layers.self_attention.key.kernel");
  for (const Digit& digit : key.map.digits) {
    if (digit.src_step == 26) return digit.dst_step;
  }
  return 0;
}

TEST(CompileLlama, InterleavesWhereMaxTextWantsPairs) {
  const Json null_scaling(nullptr);
  EXPECT_EQ(step_of_neighbors(compile(llama())), 2);
  EXPECT_EQ(step_of_neighbors(compile(llama({{"rope_scaling", null_scaling}}))), 1);
  EXPECT_EQ(step_of_neighbors(compile(llama(), with_option("rope", "halves"))), 1);
  Json parameters;
  parameters["rope_type"] = "llama3";
  EXPECT_EQ(step_of_neighbors(
                compile(llama({{"rope_scaling", null_scaling}, {"rope_parameters", parameters}}))),
            2);
  EXPECT_EQ(failure(llama(), with_option("rope", "thirds")).code(), ErrorCode::unsupported);
}

TEST(CompileLlama, SaysHowTheResultIsLoaded) {
  const Json::Object large = {
      {"hidden_size", 8192},      {"num_hidden_layers", 80},   {"num_attention_heads", 64},
      {"num_key_value_heads", 8}, {"head_dim", Json(nullptr)}, {"intermediate_size", 28672},
      {"vocab_size", 128256},     {"rope_theta", 500000.0},    {"rms_norm_eps", 1e-5}};
  const CompiledModel paired = compile(llama(large));
  EXPECT_EQ(paired.model_names,
            (std::vector<std::string>{"llama3.1-70b", "llama3.1-70b-Instruct"}));
  EXPECT_EQ(paired.notes.size(), 1U);
  EXPECT_TRUE(paired.warnings.empty());
  const CompiledModel halves = compile(llama(large), with_option("rope", "halves"));
  EXPECT_EQ(halves.model_names, (std::vector<std::string>{"llama3.3-70b"}));
  EXPECT_TRUE(halves.notes.empty());
  EXPECT_EQ(halves.warnings.size(), 1U);
}

TEST(CompileLlama, DropsTheRotaryFrequenciesOfOldFiles) {
  FakeCatalog catalog = llama();
  catalog.add("model.layers.0.self_attn.rotary_emb.inv_freq", {7}, DType::f32);
  const CompiledModel model = compile(catalog);
  ASSERT_EQ(model.drops.size(), 1U);
  EXPECT_FALSE(model.drops[0].why.empty());
}

TEST(CompileMixtral, ExpertsAreALoopInsideTheLayers) {
  const CompiledModel model = compile(FakeCatalog::of("mixtral", example_config("mixtral")));
  const Leaf* leaf = find_leaf(model, "decoder.layers.MoeBlock_0.wo");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->shape, (Shape{9, 3, 14, 26}));
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"exp", "layers", "mlp_moe", "embed_moe"}));
  const Transfer& transfer = transfer_to(model, "decoder.layers.MoeBlock_0.wo");
  ASSERT_EQ(transfer.loops.size(), 2U);
  EXPECT_EQ(transfer.loops[0].extent, 3U);
  EXPECT_EQ(transfer.loops[1].extent, 9U);
  EXPECT_EQ(transfer.loops[1].dst_step, 3 * 14 * 26);
  EXPECT_EQ(find_leaf(model, "decoder.layers.MoeBlock_0.gate.kernel")->axes,
            (std::vector<std::string>{"embed", "layers", ""}));
}

TEST(CompileModel, ATensorIsLeftOutOnce) {
  const FakeCatalog catalog = qwen3();
  MappingOptions options;
  options.num_layers = 1;
  const std::size_t layers = compile(catalog, options).drops.size();
  options.exclude = {"model.layers.2.*"};
  const CompiledModel both = compile(catalog, options);
  EXPECT_EQ(both.drops.size(), layers);
  const auto excluded = [](const Drop& drop) { return drop.why.starts_with("--exclude"); };
  EXPECT_EQ(std::ranges::count_if(both.drops, excluded), 11);
}

TEST(CompileModel, ADtypeThatIsKeptKeepsCodesIfThereAreAny) {
  FakeCatalog catalog = FakeCatalog::of("qwen3_5", example_config("qwen3_5"));
  MappingOptions options;
  options.keep_dtype = true;
  EXPECT_FALSE(compile(catalog, options).keeps_codes);
}

}  // namespace
}  // namespace hfshard
