#include "mapping/tables/scheme_defaults.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

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

TEST(SchemeDefaults, EachFormerNameOfTorchtitanIsKnown) {
  const std::vector<std::pair<std::string, std::string>> experts = {
      {"w1_EFD", "w1"},
      {"w2_EDF", "w2"},
      {"w3_EFD", "w3"},
      {"mlp1_weight_EGD", "mlp1_weight"},
      {"mlp1_bias_EG", "mlp1_bias"},
      {"mlp2_weight_EDF", "mlp2_weight"},
      {"mlp2_bias_ED", "mlp2_bias"}};
  for (const auto& [now, before] : experts)
    EXPECT_EQ(former_name("torchtitan", "layers.0.moe.routed_experts.inner_experts." + now),
              "layers.0.moe.experts." + before);
}

TEST(SchemeDefaults, BuffersAreKnownByTheEndOfTheirNames) {
  for (const char* name :
       {"freqs_cis", "model.freqs_cis", "rope_cache", "layers.0.attention.rope.cache", "rope.freqs",
        "model.layers.2.self_attn.rotary_emb.inv_freq", "rotary_emb.original_inv_freq",
        "model.layers.0.self_attn.rotary_emb.cos_cached", "rotary_emb.sin_cached", "h.0.attn.bias",
        "h.0.attn.masked_bias", "layers.0.attention.masked_bias", "vision.embeddings.position_ids",
        "layers.1.moe.tokens_per_expert", "layers.1.moe.tokens_per_expert_E"})
    EXPECT_TRUE(is_computed_buffer(name)) << name;
  for (const char* name : {"layers.0.attention.wq.bias", "h.0.attn.c_attn.bias", "not_inv_freq",
                           "freqs_cis.weight", "lm_head.weight", "layers.0.attention.bias"})
    EXPECT_FALSE(is_computed_buffer(name)) << name;
}

TEST(SchemeDefaults, ArraysOfATrainingStateAreKnownByTheirFirstKey) {
  for (const char* name : {"optimizer.state.w.exp_avg", "optim", "opt_state.mu.w", "dataloader.x",
                           "loss_scaler", "lr_scheduler.last", "lr_schedulers.0", "rng", "rngs.k",
                           "rng_state.cpu", "scheduler.n", "step", "train_state.step"})
    EXPECT_TRUE(is_training_state(name)) << name;
  for (const char* name : {"params.step", "ema.w", "model.optim.w", "steps", "option.w", "rng2"})
    EXPECT_FALSE(is_training_state(name)) << name;
}

TEST(SchemeDefaults, ALoaderIsNamedWithItsRelease) {
  EXPECT_EQ(loader_name("maxtext", {{"maxtext", "0.2.4"}}), "MaxText 0.2.4");
  EXPECT_EQ(loader_name("maxtext", {}), "MaxText " + releases_of("maxtext").front());
  EXPECT_EQ(loader_name("torchtitan", {}), "torchtitan");
  EXPECT_EQ(releases_of("maxtext"), (std::vector<std::string>{"0.2.5", "0.2.4"}));
  EXPECT_EQ(known_release("maxtext", "e591f30cbbf217ed67ef71263ec0538239f9c3b8"), "0.2.4");
}

// Words of MaxText's src/maxtext/configs/base.yml.
TEST(SchemeDefaults, MaxTextIsToldWhereATreeLiesByItsOwnWords) {
  const LoaderOptions words = loader_options("maxtext");
  EXPECT_EQ(words.name, "MaxText");
  EXPECT_EQ(words.path, "load_parameters_path");
  EXPECT_EQ(words.state_path, "load_full_state_path");
  EXPECT_EQ(words.format, "orbax");
  EXPECT_EQ(words.stacked, "scan_layers");
  EXPECT_EQ(words.model, "model_name");
  EXPECT_EQ(words.override_model, "override_model_config");
  EXPECT_EQ(words.run,
            (std::vector<std::string>{"base_output_directory", "run_name", "checkpoints"}));
  EXPECT_EQ(words.fixed, (std::vector<std::string>{"decoder_block", "attention_type"}));
  EXPECT_EQ(words.free, (std::vector<std::string>{"attention", "deepstack_visual_indexes_for_vit",
                                                  "mtp_num_layers", "use_audio", "use_mrope",
                                                  "use_multimodal"}));
  for (const std::string& none : {words.with_state, words.always, words.assets, words.with_model})
    EXPECT_EQ(none, "");
  EXPECT_TRUE(words.computed.empty());
}

// Fields of torchtitan's torchtitan/components/checkpoint.py and of its models' configs.
TEST(SchemeDefaults, TorchtitanIsToldWhereACheckpointLiesByItsOwnWords) {
  const LoaderOptions words = loader_options("torchtitan");
  EXPECT_EQ(words.name, "torchtitan");
  EXPECT_EQ(words.path, "--checkpoint.initial_load_path");
  EXPECT_EQ(words.with_state, "--checkpoint.no-initial_load_model_only");
  EXPECT_EQ(words.always, "--checkpoint.enable");
  EXPECT_EQ(words.assets, "--hf_assets_path");
  EXPECT_EQ(words.format, "dcp");
  EXPECT_EQ(words.model, "--config");
  EXPECT_EQ(words.with_model, "--module");
  EXPECT_EQ(words.computed,
            (std::vector<std::string>{
                "norm_eps", "rope_theta", "rope_scaling", "scaling_factor", "low_freq_factor",
                "high_freq_factor", "original_max_position_embeddings", "rope_factor", "beta_fast",
                "beta_slow", "original_seq_len", "truncate", "mscale", "top_k", "score_func",
                "route_norm", "route_scale", "num_expert_groups", "num_limited_groups"}));
  for (const std::string& none : {words.state_path, words.stacked, words.override_model})
    EXPECT_EQ(none, "");
  EXPECT_EQ(loader_sign("torchtitan"), "tok_embeddings.*");
  EXPECT_EQ(loader_sign("maxtext"), "*decoder.decoder_norm.scale*");
}

TEST(SchemeDefaults, ADialectIsAskedForOnlyWithTheModelsOwnNames) {
  MappingOptions options;
  EXPECT_EQ(asked_dialect(options), "");
  EXPECT_TRUE(has_rules(options));
  options.dialect = "modules";
  EXPECT_EQ(asked_dialect(options), "") << "the scheme is a loader's";
  options.scheme = "hf";
  EXPECT_EQ(asked_dialect(options), "modules");
  EXPECT_TRUE(has_rules(options));
  options.dialect = MappingOptions().dialect;
  EXPECT_EQ(asked_dialect(options), "");
  EXPECT_FALSE(has_rules(options));
}

TEST(SchemeDefaults, AReleaseIsNamedByItsNumberOrTheStartOfItsCommit) {
  EXPECT_EQ(known_release("maxtext", "0.2.5"), "0.2.5");
  EXPECT_EQ(known_release("maxtext", "e591f30"), "0.2.4");
  for (const std::string wrong : {"e591f3", "591f30c", "0.2"}) {
    const Error error = catch_error([&] { known_release("maxtext", wrong); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.sentence(), "hfshard doesn't know the tree of MaxText \"" + wrong + "\"");
    EXPECT_EQ(error.hint_text(),
              "the releases are 0.2.5, 0.2.4, e591f30; 0.2.5 is the newest tested one");
  }
  EXPECT_TRUE(releases_of("torchtitan").empty());
  EXPECT_TRUE(releases_of("unknown").empty());
}

}  // namespace
}  // namespace hfshard
