// Wrong tables with right shapes: gate and up exchanged, a square kernel transposed, a missing
// rotary interleave, another scale. Proofs of shapes can't detect them, so the oracle must.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "mapping/resolve/family_info.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/expand.h"
#include "plan/compile/compile_model.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/test_data.h"
#include "unit/plan/compile/compile_reference.h"

namespace hfshard {
namespace {

using Leaves = std::map<std::string, std::vector<std::byte>>;

struct Edit {
  std::string from;
  std::string to;
};

// Returns JSON in the form of dump_json.
std::string compact(std::string text) {
  for (const std::string_view end : {"\",", "\":"}) {
    for (std::size_t at = text.find(end); at != std::string::npos; at = text.find(end, at + 1)) {
      if (text[at + 2] == ' ') text.erase(at + 2, 1);
    }
  }
  return text;
}

// Returns the expanded family with one scheme. Makes every edit exactly once.
std::string edited(const std::string& family, const std::vector<Edit>& edits,
                   const std::string& scheme = "maxtext") {
  Json json = expand_family(family_by_name(family)).json;
  std::erase_if(json["schemes"].object(), [&](const auto& one) { return one.first != scheme; });
  std::string text = dump_json(json);
  for (const Edit& edit : edits) {
    const std::string from = compact(edit.from);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << edit.from;
    EXPECT_EQ(text.find(from, at + 1), std::string::npos) << edit.from;
    if (at != std::string::npos) text.replace(at, from.size(), compact(edit.to));
  }
  return text;
}

Leaves compiled(const std::string& directory, const std::string& text, bool stacked) {
  const Catalog catalog = open_catalog(directory);
  MappingOptions options;
  options.stacked = stacked;
  return reference::execute(
      catalog, compile_model(catalog, options, load_table({"test", "test.json", text})));
}

// Returns the leaves whose bytes differ from expected.json.
std::vector<std::string> wrong_leaves(const std::string& fixture, const std::string& text,
                                      bool stacked) {
  const std::string directory = test_data("oracle/") + fixture;
  const Leaves leaves = compiled(directory, text, stacked);
  const Json expected = parse_json(read_file(directory + "/expected.json"), "expected.json");
  std::vector<std::string> wrong;
  for (const auto& [path, facts] : expected.at(stacked ? "scanned" : "unscanned").as_object()) {
    std::string dotted = "params.params." + path;
    std::ranges::replace(dotted, '/', '.');
    Sha256 sha;
    sha.update(leaves.at(dotted));
    if (to_hex(sha.finish()) != facts.at("sha256").as_string()) wrong.push_back(path);
  }
  return wrong;
}

struct Trap {
  std::string name;
  std::string fixture;
  std::string family;
  std::vector<Edit> edits;
  std::vector<std::string> wrong;  // leaves of one layer that the oracle must refuse
};

class Traps : public testing::TestWithParam<Trap> {};

TEST_P(Traps, TheOracleRefusesTheWrongTable) {
  const Trap& trap = GetParam();
  for (const bool stacked : {true, false}) {
    SCOPED_TRACE(stacked ? "stacked" : "separate");
    EXPECT_TRUE(wrong_leaves(trap.fixture, edited(trap.family, {}), stacked).empty());
    std::vector<std::string> wanted;
    for (const std::string& leaf : trap.wrong) {
      if (stacked) wanted.push_back("decoder/layers/" + leaf);
      for (int layer = 0; layer < 3 && !stacked; ++layer)
        wanted.push_back("decoder/layers_" + std::to_string(layer) + "/" + leaf);
    }
    std::ranges::sort(wanted);
    EXPECT_EQ(wrong_leaves(trap.fixture, edited(trap.family, trap.edits), stacked), wanted);
  }
}

std::vector<Trap> traps() {
  const std::string query = R"("self_attention.query.kernel [D H (c t)]", {"value")";
  const std::string scale = R"("self_attention.query.kernel [D H h]", {"value":{"mul":)";
  return {
      {"qwen3_gate_and_up_swapped",
       "qwen3",
       "qwen3",
       {{"mlp.gate_proj.weight [F D]", "mlp.x.weight [F D]"},
        {"mlp.up_proj.weight [F D]", "mlp.gate_proj.weight [F D]"},
        {"mlp.x.weight [F D]", "mlp.up_proj.weight [F D]"}},
       {"mlp/wi_0/kernel", "mlp/wi_1/kernel"}},
      {"qwen3_key_and_value_swapped",
       "qwen3",
       "qwen3",
       {{"self_attention.key.kernel", "self_attention.x.kernel"},
        {"self_attention.value.kernel", "self_attention.key.kernel"},
        {"self_attention.x.kernel", "self_attention.value.kernel"}},
       {"self_attention/key/kernel", "self_attention/value/kernel"}},
      {"qwen3_heads_inside_out",
       "qwen3",
       "qwen3",
       {{"self_attn.q_proj.weight [(H h) D]", "self_attn.q_proj.weight [(h H) D]"}},
       {"self_attention/query/kernel"}},
      {"qwen3_norms_swapped",
       "qwen3",
       "qwen3",
       {{"q_norm.weight", "x_norm.weight"},
        {"k_norm.weight", "q_norm.weight"},
        {"x_norm.weight", "k_norm.weight"}},
       {"self_attention/query_norm/scale", "self_attention/key_norm/scale"}},
      {"llama_interleave_left_out",
       "llama3.1",
       "llama",
       {{query, R"("self_attention.query.kernel [D H (t c)]", {"value")"},
        {"self_attention.key.kernel [D K (c t)]", "self_attention.key.kernel [D K (t c)]"}},
       {"self_attention/query/kernel", "self_attention/key/kernel"}},
      {"llama_scale_of_another_head_size",
       "llama3.1",
       "llama",
       {{query + R"x(:{"mul":{"const_dtype":"f32","expr":"1 / sqrt(h)")x",
         query + R"x(:{"mul":{"const_dtype":"f32","expr":"1 / sqrt(h + 1)")x"}},
       {"self_attention/query/kernel"}},
      {"mixtral_scale_left_out",
       "mixtral",
       "mixtral",
       {{scale + R"x({"const_dtype":"f32","expr":"1 / sqrt(h)"}}}])x",
         R"("self_attention.query.kernel [D H h]"])"}},
       {"self_attention/query/kernel"}},
      {"mixtral_w1_and_w3_swapped",
       "mixtral",
       "mixtral",
       {{"MoeBlock_0.wi_0 [", "MoeBlock_0.x ["},
        {"MoeBlock_0.wi_1 [", "MoeBlock_0.wi_0 ["},
        {"MoeBlock_0.x [", "MoeBlock_0.wi_1 ["}},
       {"MoeBlock_0/wi_0", "MoeBlock_0/wi_1"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Tables, Traps, testing::ValuesIn(traps()),
                         [](const auto& one) { return one.param.name; });

// The same with torchtitan's names. Its own adapter has other bytes for the named leaves.
std::vector<std::string> wrong_in_torchtitan(const std::string& fixture, const std::string& text) {
  const std::string directory = test_data("torchtitan/") + fixture;
  const Catalog catalog = open_catalog(directory);
  MappingOptions options;
  options.scheme = "torchtitan";
  const Leaves leaves = reference::execute(
      catalog, compile_model(catalog, options, load_table({"test", "test.json", text})));
  const Json expected = parse_json(read_file(directory + "/expected.json"), "expected.json");
  EXPECT_EQ(leaves.size(), expected.as_object().size());
  std::vector<std::string> wrong;
  for (const auto& [path, facts] : expected.as_object()) {
    Sha256 sha;
    sha.update(leaves.at(path));
    if (to_hex(sha.finish()) != facts.at("sha256").as_string()) wrong.push_back(path);
  }
  return wrong;
}

TEST(TorchtitanTraps, TheOracleRefusesTheWrongTable) {
  const auto of_layers = [](int layers, std::vector<std::string> names) {
    std::vector<std::string> out;
    for (int layer = 0; layer < layers; ++layer) {
      for (const std::string& name : names)
        out.push_back("layers." + std::to_string(layer) + "." + name);
    }
    std::ranges::sort(out);
    return out;
  };
  const std::string experts = "moe.routed_experts.inner_experts.";
  const std::vector<Trap> all = {
      {"gate and up",
       "qwen3_moe",
       "qwen3_moe",
       {{experts + "w1_EFD", "x"},
        {experts + "w3_EFD", experts + "w1_EFD"},
        {"\"x [", "\"" + experts + "w3_EFD ["}},
       of_layers(2, {experts + "w1_EFD", experts + "w3_EFD"})},
      {"no pairs",
       "llama3",
       "llama",
       {{"wq.weight [(H c t) D]", "wq.weight [(H t c) D]"}},
       of_layers(2, {"attention.qkv_linear.wq.weight"})},
      {"keys in pairs",
       "llama3",
       "llama",
       {{"wk.weight [(K c t) D]", "wk.weight [(K t c) D]"}},
       of_layers(2, {"attention.qkv_linear.wk.weight"})},
      {"down for up",
       "llama3_tied",
       "llama",
       {{"mlp.up_proj.weight [F D]", "mlp.x"},
        {"mlp.gate_proj.weight [F D]", "mlp.up_proj.weight [F D]"},
        {"mlp.x", "mlp.gate_proj.weight [F D]"}},
       of_layers(2, {"feed_forward.w1.weight", "feed_forward.w3.weight"})},
      {"halves",
       "flux",
       "flux",
       {{"adaLN_modulation.1.bias [D@D:2*D]", "adaLN_modulation.1.bias [D@x]"},
        {"adaLN_modulation.1.bias [D@0:2*D]", "adaLN_modulation.1.bias [D@D:2*D]"},
        {"adaLN_modulation.1.bias [D@x]", "adaLN_modulation.1.bias [D@0:2*D]"}},
       {"final_layer.adaLN_modulation.1.bias"}}};
  for (const Trap& trap : all) {
    SCOPED_TRACE(trap.name);
    EXPECT_TRUE(wrong_in_torchtitan(trap.fixture, edited(trap.family, {}, "torchtitan")).empty());
    const std::string text = edited(trap.family, trap.edits, "torchtitan");
    EXPECT_EQ(wrong_in_torchtitan(trap.fixture, text), trap.wrong);
  }
}

// A checkpoint where every kernel is square, D = H * h = K * h = F, so a transposed table has right
// shapes everywhere. Element (i, j) of tensor t is a number made of t, i and j.
constexpr std::uint64_t kHeads = 4;
constexpr std::uint64_t kHeadSize = 3;
constexpr std::uint64_t kSide = kHeads * kHeadSize;
constexpr std::uint64_t kLayers = 2;

float element(std::uint64_t tensor, std::uint64_t i, std::uint64_t j) {
  return static_cast<float>(tensor * 1000 + i * kSide + j);
}

class SquareKernels : public testing::Test {
 protected:
  SquareKernels() {
    Json config = parse_json(R"({"model_type": "qwen3", "tie_word_embeddings": true})", "config");
    config["hidden_size"] = config["intermediate_size"] = config["vocab_size"] = kSide;
    config["num_attention_heads"] = config["num_key_value_heads"] = kHeads;
    config["head_dim"] = kHeadSize;
    config["num_hidden_layers"] = kLayers;
    SafetensorsBuilder builder;
    const auto tensors = expected_tensors(family_by_name("qwen3"), config);
    for (std::uint64_t t = 0; t < tensors.size(); ++t) {
      names_.push_back(tensors[t].name);
      const bool matrix = tensors[t].shape.rank() == 2;
      if (matrix) {
        EXPECT_EQ(tensors[t].shape, (Shape{kSide, kSide}));
      }
      std::string bytes(tensors[t].shape.numel() * sizeof(float), '\0');
      const std::uint64_t columns = matrix ? kSide : bytes.size() / sizeof(float);
      for (std::uint64_t n = 0; n < bytes.size() / sizeof(float); ++n) {
        const float value = element(t, n / columns, n % columns);
        std::memcpy(bytes.data() + n * sizeof(float), &value, sizeof value);
      }
      builder.tensor(tensors[t].name, DType::f32, tensors[t].shape, bytes);
    }
    builder.write(dir_ / "model.safetensors");
    write_text(dir_ / "config.json", dump_json(config));
  }

  // `wo[f, l, d] = down_proj of layer l [d, f]`, `out[a, l, b, d] = o_proj of layer l [d, a * h +
  // b]`, `query[d, l, a, b] = q_proj of layer l [a * h + b, d]`.
  std::vector<std::string> wrong(const std::string& text) const {
    const Leaves leaves = compiled(dir_.path(), text, true);
    std::vector<std::string> out;
    for (const std::string kernel : {"wo", "out", "query"}) {
      bool right = true;
      for (std::uint64_t l = 0; l < kLayers; ++l) {
        for (std::uint64_t x = 0; x < kSide; ++x) {
          for (std::uint64_t d = 0; d < kSide; ++d)
            right = right && value_at(leaves, kernel, l, x, d) == wanted_at(kernel, l, x, d);
        }
      }
      if (!right) out.push_back(kernel);
    }
    return out;
  }

 private:
  static float value_at(const Leaves& leaves, const std::string& kernel, std::uint64_t l,
                        std::uint64_t x, std::uint64_t d) {
    const std::string folder = kernel == "wo" ? "mlp." : "self_attention.";
    const auto& bytes = leaves.at("params.params.decoder.layers." + folder + kernel + ".kernel");
    std::uint64_t at = (x * kLayers + l) * kSide + d;
    if (kernel == "out")
      at = ((x / kHeadSize * kLayers + l) * kHeadSize + x % kHeadSize) * kSide + d;
    if (kernel == "query") at = (d * kLayers + l) * kSide + x;
    return load_le<float>(bytes.data() + at * sizeof(float));
  }
  float wanted_at(const std::string& kernel, std::uint64_t l, std::uint64_t x,
                  std::uint64_t d) const {
    const std::string layer = "model.layers." + std::to_string(l);
    if (kernel == "wo") return element(tensor(layer + ".mlp.down_proj.weight"), d, x);
    if (kernel == "out") return element(tensor(layer + ".self_attn.o_proj.weight"), d, x);
    return element(tensor(layer + ".self_attn.q_proj.weight"), x, d);
  }
  std::uint64_t tensor(const std::string& name) const {
    return static_cast<std::uint64_t>(std::ranges::find(names_, name) - names_.begin());
  }

  TempDir dir_;
  std::vector<std::string> names_;
};

TEST_F(SquareKernels, TheTableTransposesThem) {
  EXPECT_EQ(wrong(edited("qwen3", {})), std::vector<std::string>{});
}

TEST_F(SquareKernels, ATableThatDoesNotIsSeen) {
  EXPECT_EQ(wrong(edited("qwen3", {{"mlp.down_proj.weight [D F]", "mlp.down_proj.weight [F D]"}})),
            std::vector<std::string>{"wo"});
  EXPECT_EQ(wrong(edited("qwen3", {{"self_attn.o_proj.weight [D (H h)]",
                                    "self_attn.o_proj.weight [(H h) D]"}})),
            std::vector<std::string>{"out"});
  EXPECT_EQ(wrong(edited("qwen3", {{"self_attn.q_proj.weight [(H h) D]",
                                    "self_attn.q_proj.weight [D (H h)]"}})),
            std::vector<std::string>{"query"});
}

}  // namespace
}  // namespace hfshard
