#include "mapping/tables/scheme_defaults.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(SchemeDefaults, FormerNamesOfTorchtitanChangeWholeComponents) {
  const auto former = [](const char* name) { return former_name("torchtitan", name); };
  EXPECT_EQ(former("layers.3.attention.qkv_linear.wq.weight"), "layers.3.attention.wq.weight");
  EXPECT_EQ(former("lm_head.weight"), "output.weight");
  EXPECT_EQ(former("layers.1.moe.routed_experts.inner_experts.w2_EDF"), "layers.1.moe.experts.w2");
  EXPECT_EQ(former("layers.1.moe.expert_bias_E"), "layers.1.moe.expert_bias");
  EXPECT_EQ(former("layers.1.attention.wo.weight"), "layers.1.attention.wo.weight");
  EXPECT_EQ(former("other_lm_head.weight"), "other_lm_head.weight");
  EXPECT_EQ(former_name("maxtext", "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(former_name("no such scheme", "lm_head.weight"), "lm_head.weight");
}

TEST(SchemeDefaults, BuffersAreKnownByTheEndOfTheirNames) {
  for (const char* name : {"freqs_cis", "model.freqs_cis", "layers.0.attention.rope.cache",
                           "model.layers.2.self_attn.rotary_emb.inv_freq", "h.0.attn.bias",
                           "vision.embeddings.position_ids"})
    EXPECT_TRUE(is_computed_buffer(name)) << name;
  for (const char* name : {"layers.0.attention.wq.bias", "h.0.attn.c_attn.bias", "not_inv_freq",
                           "freqs_cis.weight", "lm_head.weight"})
    EXPECT_FALSE(is_computed_buffer(name)) << name;
}

TEST(SchemeDefaults, ALoaderIsNamedWithItsRelease) {
  EXPECT_EQ(loader_name("maxtext", {{"maxtext", "0.2.4"}}), "MaxText 0.2.4");
  EXPECT_EQ(loader_name("maxtext", {}), "MaxText " + releases_of("maxtext").front());
  EXPECT_EQ(loader_name("torchtitan", {}), "torchtitan");
}

}  // namespace
}  // namespace hfshard
