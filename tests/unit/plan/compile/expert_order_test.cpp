#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {
namespace {

// A family with experts stored in either order, and the leaf of its first layer's down_proj.
struct EitherOrder {
  std::string family;
  std::string scheme;
  std::string leaf;
  bool leaf_is_in_out;  // as [expert, in, out]
};

// 3 to 8 layers of 31 experts; width: moe_intermediate_size.
CompiledModel with_experts(const EitherOrder& one, std::uint64_t width, bool in_out) {
  Json config = example_config(one.family);
  Json& text = config["text_config"];
  text["hidden_size"] = 36;
  text["num_experts"] = 31;
  text["moe_intermediate_size"] = width;
  text["shared_expert_intermediate_size"] = width;
  config["vision_config"] = nullptr;
  FakeCatalog catalog = FakeCatalog::of(one.family, config, one.scheme);
  for (int layer = 0; layer < text.at("num_hidden_layers").as_int(); ++layer) {
    const std::string at = "model.language_model.layers." + std::to_string(layer) + ".mlp.experts.";
    catalog.get(at + "gate_up_proj").shape =
        in_out ? Shape{31, 36, 2 * width} : Shape{31, 2 * width, 36};
    catalog.get(at + "down_proj").shape = in_out ? Shape{31, width, 36} : Shape{31, 36, width};
  }
  MappingOptions options;
  options.scheme = one.scheme;
  options.stacked = false;
  return compile_model(catalog, options);
}

TEST(ExpertOrder, IsToldByTheShapesOfTheTensors) {
  const std::vector<EitherOrder> all{
      {"qwen3_5", "torchtitan", "layers.0.moe.routed_experts.inner_experts.w2_EDF", false},
      {"qwen3_vl", "maxtext", "params.params.decoder.layers_0.moe_block.wo", true}};
  for (const EitherOrder& one : all) {
    SCOPED_TRACE(one.family);
    // In the second one 2 F equals hidden_size, so down_proj decides.
    for (const std::uint64_t width : {41U, 18U}) {
      for (const bool in_out : {false, true}) {
        const CompiledModel model = with_experts(one, width, in_out);
        const auto down = std::ranges::find(model.leaves, one.leaf, &Leaf::name);
        ASSERT_NE(down, model.leaves.end());
        EXPECT_EQ(down->shape, (one.leaf_is_in_out ? Shape{31, width, 36} : Shape{31, 36, width}));
        const auto transfer = std::ranges::find_if(model.transfers, [&](const Transfer& each) {
          return model.leaves[each.target].name == down->name;
        });
        // A transposed source has different steps than its leaf.
        EXPECT_EQ(std::ranges::any_of(transfer->map.digits,
                                      [](const Digit& d) { return d.src_step != d.dst_step; }),
                  in_out != one.leaf_is_in_out);
      }
    }
  }
}

}  // namespace
}  // namespace hfshard
