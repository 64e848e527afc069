#include "mapping/tables/quantization.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mapping/resolve/bindings.h"

namespace hfshard {
namespace {

TEST(Quantization, PackedCodesAreFoundByTheNameOfTheWeight) {
  const std::set<std::string, std::less<>> stored{"a.weight_packed", "b.weight"};
  const auto has = [&](std::string_view name) { return stored.contains(name); };
  EXPECT_EQ(stored_as("a.weight", has), "a.weight_packed");
  EXPECT_EQ(stored_as("b.weight", has), "") << "it is called so itself";
  EXPECT_EQ(stored_as("a.bias", has), "");
  for (const DecodeRule& rule : quantization().decodes) {
    if (rule.as.empty()) continue;
    EXPECT_EQ(rule.value_name("a.weight_packed"), "a.weight");
    EXPECT_EQ(rule.stored_name("a.weight"), "a.weight_packed");
    EXPECT_EQ(rule.scale_name("a.weight_packed"), "a.weight_scale");
  }
}

TEST(Quantization, NamesWhatStandsBesideCodesAndWhatNothingDecodes) {
  EXPECT_NE(quantization().beside_codes("model.layers.0.self_attn.k_proj.k_scale"), nullptr);
  EXPECT_NE(quantization().beside_codes("a.input_global_scale"), nullptr);
  EXPECT_EQ(quantization().beside_codes("a.weight_scale"), nullptr);
  EXPECT_EQ(quantization().beside_codes("decoder_norm.scale"), nullptr);
  ASSERT_NE(quantization().undecoded_name("a.qweight"), nullptr);
  EXPECT_EQ(quantization().undecoded_name("a.weight"), nullptr);
  for (const UndecodedMethod& method : quantization().undecoded) {
    EXPECT_FALSE(method.what.empty());
    EXPECT_FALSE(method.way.empty()) << method.what;
    EXPECT_FALSE(method.methods.empty() && method.formats.empty() && method.names.empty())
        << method.what;
  }
}

TEST(Quantization, ScalesOfActivationsAndOfTheCacheStandBesideCodes) {
  const auto why = [](const std::string& name) {
    const BesideCodes* found = quantization().beside_codes("model.layers.0.mlp." + name);
    return found == nullptr ? std::string() : found->why;
  };
  for (const char* name :
       {"input_scale", "input_global_scale", "input_zero_point", "input_scale_ub",
        "activation_scale", "act_scale", "output_scale", "output_zero_point"})
    EXPECT_EQ(why(name), "scales of activations, for inference on codes") << name;
  for (const char* name : {"k_scale", "v_scale", "q_scale", "kv_scale", "k_zero_point",
                           "v_zero_point", "k_global_scale", "v_global_scale"})
    EXPECT_EQ(why(name), "scales of the key-value cache, for inference on codes") << name;
  EXPECT_EQ(why("weight_shape"), "the tensor that is decoded has its shape");
  for (const char* name : {"weight_scale", "weight_scale_inv", "weight_scale_2",
                           "weight_zero_point", "weight_global_scale", "weight"})
    EXPECT_EQ(why(name), "") << name;
}

TEST(Quantization, TheMethodsThatAreDecodedAreThese) {
  EXPECT_EQ(quantization().methods, (std::vector<std::string>{"fp8", "mxfp4", "compressed-tensors",
                                                              "modelopt", "fbgemm_fp8"}));
}

// The methods of transformers 5.23.0, src/transformers/quantizers/auto.py, and of vLLM's
// vllm/model_executor/layers/quantization, and the names that their tensors have.
TEST(Quantization, EachMethodThatIsNotDecodedHasAWayOfItsOwn) {
  constexpr const char* kOrigin = "convert the model that it was made from";
  const std::string python = " in Python with transformers";
  const std::string dequantize =
      "dequantize it first: "
      "AutoModelForCausalLM.from_pretrained(IN).dequantize().save_pretrained(OUT)" +
      python;
  const std::string awq =
      "convert the model that it was made from, or write it as pack-quantized first: "
      "compressed-tensors has convert_checkpoint with AutoAWQConverter";
  const std::string decompress =
      "decompress it first: AutoModelForCausalLM.from_pretrained(IN, "
      "quantization_config=CompressedTensorsConfig(run_compressed=False)).save_pretrained(OUT)" +
      python;
  const std::string sparse =
      "convert the model that it was made from; compressed-tensors 0.14 is the last one that "
      "reads it";
  const std::vector<UndecodedMethod> expected = {
      {"packed integers with an order of their own (g_idx)", kOrigin, {}, {}, {"*.weight_g_idx"}},
      {"AWQ", awq, {"awq", "auto-awq"}, {}, {}},
      {"GPTQ", kOrigin, {"gptq", "gptqmodel", "marlin"}, {}, {}},
      {"GPTQ or AWQ", kOrigin, {}, {}, {"*.qweight", "*.qzeros"}},
      {"bitsandbytes",
       dequantize,
       {"bitsandbytes"},
       {},
       {"*.absmax", "*.quant_map", "*.quant_state.*", "*.SCB"}},
      {"ModelOpt AWQ",
       "convert the model that it was made from: its input scales belong to the layer before",
       {},
       {},
       {"*.pre_quant_scale"}},
      {"a sparse format of compressed-tensors",
       sparse,
       {},
       {"sparse-bitmask", "sparse-24-bitmask", "marlin-24"},
       {"*.bitmask", "*.row_offsets"}},
      {"mxfp6-pack-quantized of compressed-tensors", decompress, {}, {"mxfp6-pack-quantized"}, {}},
      {"HQQ", kOrigin, {"hqq"}, {}, {"*.W_q"}},
      {"AQLM", kOrigin, {"aqlm"}, {}, {"*.codebooks"}},
      {"QuIP#", kOrigin, {"quip", "quip_sharp"}, {}, {"*.Qidxs"}},
      {"VPTQ", kOrigin, {"vptq"}, {}, {}},
      {"SpQR", kOrigin, {"spqr"}, {}, {}},
      {"HIGGS", dequantize, {"higgs"}, {}, {}},
      {"FP-Quant", kOrigin, {"fp_quant"}, {}, {}},
      {"EETQ", kOrigin, {"eetq"}, {}, {}},
      {"Quanto", kOrigin, {"quanto"}, {}, {}},
      {"TorchAO", kOrigin, {"torchao"}, {}, {}},
      {"AutoRound", kOrigin, {"auto-round", "intel/auto-round"}, {}, {}},
      {"BitNet", kOrigin, {"bitnet"}, {}, {}},
      {"Quark", kOrigin, {"quark"}, {}, {}},
      {"MLX",
       "dequantize it first: mlx_lm.convert --hf-path IN --mlx-path OUT --dequantize",
       {},
       {},
       {"*.scales", "*.biases"}}};
  const std::vector<UndecodedMethod>& found = quantization().undecoded;
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].what, expected[i].what);
    EXPECT_EQ(found[i].way, expected[i].way) << found[i].what;
    EXPECT_EQ(found[i].methods, expected[i].methods) << found[i].what;
    EXPECT_EQ(found[i].formats, expected[i].formats) << found[i].what;
    EXPECT_EQ(found[i].names, expected[i].names) << found[i].what;
  }
}

// The names of groups aren't known.
TEST(Quantization, AnyIsTheFirstMemberThatHasTheRest) {
  const Json config = parse_json(
      R"({"groups": {"a": {"weights": {"bits": 4}}, "b": {"weights": {"size": 7}}, "c": {"weights": {"size": 8}}},
          "any": {"x": 1}})",
      "config.json");
  const MappingTable& table = table_of_codes();
  const Bindings bindings(table, config, {}, {});
  const auto value = [&](const char* text) { return Expr(text, "#").integer(bindings); };
  EXPECT_EQ(value("groups.any.weights.size"), 7);
  EXPECT_EQ(value("groups.any.weights.other ?? 3"), 3);
  EXPECT_EQ(value("any.x"), 1) << "a key of that name";
}

}  // namespace
}  // namespace hfshard
