#include "mapping/resolve/rope_facts.h"

#include <string>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

ExprValue rope_value(const std::string& config, const std::string& name) {
  const Json json = parse_json(config, "config.json");
  return rope_fact(
      [&json](const std::string& key) {
        const Json* found = json.find(key);
        return found == nullptr || found->is_null() ? nullptr : found;
      },
      name);
}

std::string rope_text(const std::string& config, const std::string& name) {
  return std::get<std::string>(rope_value(config, name));
}

double rope_real(const std::string& config, const std::string& name) {
  const ExprValue value = rope_value(config, name);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

bool no_rope_value(const std::string& config, const std::string& name) {
  return std::holds_alternative<Absent>(rope_value(config, name));
}

TEST(RopeFacts, BothSpellingsOfTheTypeAndBothNamesOfTheBlock) {
  EXPECT_EQ(rope_text("{}", "type"), "default");
  EXPECT_EQ(rope_text(R"({"rope_scaling": null})", "type"), "default");
  EXPECT_EQ(rope_text(R"({"rope_scaling": {}})", "type"), "default");
  for (const char* block : {"rope_scaling", "rope_parameters"}) {
    for (const char* key : {"type", "rope_type"}) {
      const std::string config = std::string("{\"") + block + "\": {\"" + key + "\": \"yarn\"}}";
      EXPECT_EQ(rope_text(config, "type"), "yarn") << config;
      EXPECT_TRUE(std::get<bool>(rope_value(config, "said"))) << config;
    }
  }
  EXPECT_EQ(rope_text(R"({"rope_scaling": {"type": "x", "rope_type": "linear"}})", "type"),
            "linear");
  EXPECT_FALSE(std::get<bool>(rope_value(R"({"rope_scaling": {"factor": 2}})", "said")));
}

TEST(RopeFacts, OldNamesOfATypeAreItsNew) {
  EXPECT_EQ(rope_text(R"({"rope_scaling": {"type": "su"}})", "type"), "longrope");
  EXPECT_EQ(rope_text(R"({"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}})", "type"),
            "default");
  EXPECT_EQ(
      rope_text(R"({"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}})", "mrope_section"),
      "[1,2]");
}

TEST(RopeFacts, TheBaseInRopeParametersCountsMoreThanAStaleOne) {
  EXPECT_EQ(rope_real(R"({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e6}})", "theta"),
            5e6);
  EXPECT_EQ(
      rope_real(R"({"rope_theta": 1e4, "rope_parameters": {"rope_type": "default"}})", "theta"),
      1e4);
  EXPECT_EQ(rope_real(R"({"rope_theta": 7})", "theta"), 7);
  EXPECT_TRUE(no_rope_value("{}", "theta"));
}

TEST(RopeFacts, RopeScalingTakesThePlaceOfRopeParameters) {
  const std::string both =
      R"({"rope_theta": 3, "rope_scaling": {"type": "linear", "factor": 2},
          "rope_parameters": {"rope_type": "yarn", "rope_theta": 5, "beta_fast": 9}})";
  EXPECT_EQ(rope_text(both, "type"), "linear");
  EXPECT_EQ(rope_real(both, "theta"), 3);
  EXPECT_EQ(rope_real(both, "beta_fast"), 32);
}

TEST(RopeFacts, OneSetForEachKindOfLayers) {
  const std::string nested =
      R"({"rope_theta": 1, "rope_parameters": {
          "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000},
          "sliding_attention": {"rope_type": "default", "rope_theta": 10000}}})";
  EXPECT_EQ(rope_text(nested, "type"), "linear");
  EXPECT_EQ(rope_real(nested, "theta"), 1e6);
  EXPECT_EQ(rope_text(nested, "full_attention.type"), "linear");
  EXPECT_EQ(rope_text(nested, "sliding_attention.type"), "default");
  EXPECT_EQ(rope_real(nested, "sliding_attention.theta"), 1e4);
  EXPECT_TRUE(no_rope_value(nested, "sliding_attention.factor"));
  const std::string v4 =
      R"({"rope_parameters": {"compress": {"rope_theta": 16}, "main": {"rope_theta": 4}}})";
  EXPECT_EQ(rope_real(v4, "theta"), 4);
  EXPECT_EQ(rope_real(v4, "compress.theta"), 16);
  EXPECT_TRUE(no_rope_value(v4, "no_such_layers.theta"));
}

// Other kinds than these have no main one, so the first by name counts.
TEST(RopeFacts, KindsOfLayersWithoutAMainOne) {
  const std::string config =
      R"({"rope_parameters": {"b": {"rope_theta": 2}, "a": {"rope_theta": 3, "rope_type": "yarn"},
                              "full_attention": null}})";
  EXPECT_EQ(rope_real(config, "theta"), 3);
  EXPECT_EQ(rope_text(config, "type"), "yarn");
  EXPECT_EQ(rope_real(config, "b.theta"), 2);
}

TEST(RopeFacts, WhatIsSaidOnceHoldsForFullAttention) {
  const std::string flat =
      R"({"rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 9}})";
  EXPECT_EQ(rope_text(flat, "sliding_attention.type"), "default");
  EXPECT_TRUE(no_rope_value(flat, "sliding_attention.theta"));
  EXPECT_EQ(rope_text(flat, "compress.type"), "yarn");
  EXPECT_TRUE(no_rope_value(flat, "compress.theta"));
}

TEST(RopeFacts, AnOldBaseOfLocalLayersIsNotScaled) {
  const std::string gemma =
      R"({"rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
          "rope_scaling": {"rope_type": "linear", "factor": 8.0}})";
  EXPECT_EQ(rope_text(gemma, "type"), "linear");
  EXPECT_EQ(rope_real(gemma, "factor"), 8);
  EXPECT_EQ(rope_text(gemma, "sliding_attention.type"), "default");
  EXPECT_EQ(rope_real(gemma, "sliding_attention.theta"), 1e4);
}

TEST(RopeFacts, AFlatRopeScalingBesideKindsOfLayersIsOfFullAttention) {
  const std::string config =
      R"({"rope_scaling": {"rope_type": "linear", "factor": 8.0},
          "rope_parameters": {"full_attention": {"rope_theta": 5}, "sliding_attention": {"rope_theta": 6}}})";
  EXPECT_EQ(rope_text(config, "type"), "linear");
  EXPECT_EQ(rope_real(config, "theta"), 5);
  EXPECT_EQ(rope_text(config, "sliding_attention.type"), "default");
  EXPECT_EQ(rope_real(config, "sliding_attention.theta"), 6);
}

TEST(RopeFacts, ANestedParameterThatAFlatRopeScalingLacksStillCounts) {
  const std::string config =
      R"({"partial_rotary_factor": 0.75, "rope_scaling": {"factor": 8.0},
          "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 9,
                               "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "partial_rotary_factor": 0.25}}})";
  for (const char* layers : {"", "full_attention."}) {
    SCOPED_TRACE(layers);
    const auto name = [&](const char* key) { return std::string(layers) + key; };
    EXPECT_EQ(rope_text(config, name("type")), "yarn");
    EXPECT_EQ(rope_real(config, name("factor")), 8);
    EXPECT_EQ(rope_real(config, name("beta_fast")), 9);
    EXPECT_EQ(rope_real(config, name("partial_rotary_factor")), 0.5);
    EXPECT_TRUE(std::get<bool>(rope_value(config, name("said"))));
  }
  EXPECT_EQ(rope_real(config, "sliding_attention.partial_rotary_factor"), 0.25);
  EXPECT_TRUE(no_rope_value(config, "sliding_attention.factor"));
}

TEST(RopeFacts, TheLengthBeforeScaling) {
  const std::string name = "original_max_position_embeddings";
  EXPECT_EQ(rope_real(R"({"max_position_embeddings": 64, "rope_scaling": {"type": "yarn"}})", name),
            64);
  EXPECT_EQ(rope_real(R"({"max_position_embeddings": 64,
                     "rope_scaling": {"original_max_position_embeddings": 16}})",
                      name),
            16);
  EXPECT_EQ(rope_real(R"({"original_max_position_embeddings": 8,
                     "rope_scaling": {"original_max_position_embeddings": 16}})",
                      name),
            8);
  EXPECT_EQ(rope_real(R"({"max_position_embeddings": 64, "original_max_position_embeddings": 16,
                     "rope_scaling": {"type": "longrope"}})",
                      "factor"),
            4);
  EXPECT_TRUE(no_rope_value(
      R"({"max_position_embeddings": 64, "original_max_position_embeddings": 0,
          "rope_scaling": {"type": "longrope"}})",
      "factor"));
}

TEST(RopeFacts, OnlyYarnCanHaveMorePositionsThanStated) {
  const auto longest = [](const std::string& stated, const std::string& scaling) {
    return rope_real("{" + stated + R"("rope_scaling": {)" + scaling + "}}", "longest");
  };
  const std::string eight = R"("factor": 8, "original_max_position_embeddings": 16)";
  for (const char* type : {"llama3", "linear", "dynamic", "longrope"}) {
    EXPECT_EQ(longest(R"("max_position_embeddings": 64, )",
                      R"("rope_type": ")" + std::string(type) + R"(", )" + eight),
              64)
        << type;
  }
  const std::string yarn = R"("rope_type": "yarn", )";
  EXPECT_EQ(longest(R"("max_position_embeddings": 64, )", yarn + eight), 128);
  EXPECT_EQ(longest(R"("max_position_embeddings": 256, )", yarn + eight), 256);
  EXPECT_EQ(longest(R"("max_position_embeddings": "256", )", yarn + eight), 128);
  EXPECT_EQ(longest("", yarn + R"("original_max_position_embeddings": 16)"), 16);
  EXPECT_EQ(longest("", yarn + R"("factor": 2.5, "original_max_position_embeddings": 15)"), 38);
  EXPECT_TRUE(no_rope_value(R"({"rope_scaling": {"rope_type": "yarn", "factor": 8}})", "longest"));
  EXPECT_TRUE(no_rope_value(R"({"max_position_embeddings": 0})", "longest"));
}

TEST(RopeFacts, AnEmptyRopeScalingIsIgnored) {
  EXPECT_EQ(rope_text(R"({"rope_scaling": {}, "rope_parameters": {"rope_type": "yarn"}})", "type"),
            "yarn");
}

TEST(RopeFacts, WhatIsNotSaidIsAsTransformersTakesIt) {
  const std::string yarn = R"({"rope_scaling": {"type": "yarn", "factor": 4, "beta_slow": 0}})";
  EXPECT_EQ(rope_real(yarn, "beta_fast"), 32);
  EXPECT_EQ(rope_real(yarn, "beta_slow"), 1);
  EXPECT_TRUE(std::get<bool>(rope_value(yarn, "truncate")));
  EXPECT_EQ(rope_real(R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor"), 0.5);
  EXPECT_EQ(
      rope_real(
          R"({"partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.25}})",
          "partial_rotary_factor"),
      0.25);
}

TEST(RopeFacts, HowAttentionIsScaled) {
  const auto attention = [](const std::string& more) {
    return rope_text("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8" + more + "}}",
                     "attention");
  };
  EXPECT_EQ(rope_text("{}", "attention"), "none");
  EXPECT_EQ(attention(""), "yarn");
  EXPECT_EQ(attention(R"(, "attention_factor": 1.2079441541679836)"), "yarn");
  EXPECT_EQ(attention(R"(, "attention_factor": 1.0)"), "none");
  EXPECT_EQ(attention(R"(, "attention_factor": 1.5)"), "other");
  EXPECT_EQ(attention(R"(, "mscale": 0.707, "mscale_all_dim": 0.707)"), "none");
  EXPECT_EQ(attention(R"(, "mscale": 1.0, "mscale_all_dim": 0.5)"), "other");
  EXPECT_EQ(rope_text(R"({"rope_scaling": {"type": "yarn", "factor": 1}})", "attention"), "none");
  EXPECT_EQ(rope_text(R"({"max_position_embeddings": 128, "original_max_position_embeddings": 32,
                     "rope_scaling": {"type": "longrope"}})",
                      "attention"),
            "other");
  EXPECT_EQ(rope_text(R"({"max_position_embeddings": 128, "original_max_position_embeddings": 1,
                     "rope_scaling": {"type": "longrope"}})",
                      "attention"),
            "none");
  // Fewer positions than before don't scale attention.
  EXPECT_EQ(rope_text(R"({"max_position_embeddings": 16, "original_max_position_embeddings": 32,
                     "rope_scaling": {"type": "longrope"}})",
                      "attention"),
            "none");
}

// Counted from transformers' slices: [1, 3 * height) and [2, 3 * width), every third.
TEST(RopeFacts, SectionsFitTheHead) {
  const auto sections = [](const std::string& config) {
    return rope_text(config, "mrope_section");
  };
  EXPECT_EQ(sections(R"({"rope_parameters": {"mrope_section": [24, 20, 20]}})"), "[24,20,20]");
  EXPECT_EQ(sections(R"({"head_dim": 128, "rope_parameters": {"mrope_section": [24, 20, 20]}})"),
            "[24,20,20]");
  EXPECT_TRUE(no_rope_value(R"({"head_dim": 128})", "mrope_section"));
  EXPECT_TRUE(no_rope_value(R"({"head_dim": 256, "model_type": "qwen3_5_text"})", "mrope_section"));
  EXPECT_EQ(sections(R"({"head_dim": 10})"), "[2,2,1]");
  EXPECT_EQ(sections(R"({"head_dim": 8, "rope_scaling": {"mrope_section": [24, 20, 20]}})"),
            "[2,1,1]");
  EXPECT_EQ(sections(R"({"head_dim": 2})"), "[1,0,0]");
  EXPECT_EQ(sections(R"({"head_dim": 256, "rope_scaling": {"mrope_section": [24, 20, 20]}})"),
            "[88,20,20]");
  EXPECT_EQ(sections(R"({"head_dim": 512, "model_type": "qwen3_5_moe_text"})"), "[43,11,10]");
  EXPECT_EQ(sections(R"({"head_dim": 64, "model_type": "qwen3_5_text",
                         "rope_parameters": {"partial_rotary_factor": 0.5}})"),
            "[6,5,5]");
  EXPECT_EQ(sections(R"({"head_dim": 64, "rope_scaling": {"mrope_section": ["x"]}})"), "[\"x\"]");
  // A size above 1048576 isn't taken for one.
  EXPECT_EQ(sections(R"({"head_dim": 1048576})"), "[524248,20,20]");
  EXPECT_TRUE(no_rope_value(R"({"head_dim": 1048577})", "mrope_section"));
  EXPECT_EQ(sections(R"({"head_dim": 64, "rope_scaling": {"mrope_section": [1048576, 2, 2]}})"),
            "[28,2,2]");
  EXPECT_EQ(sections(R"({"head_dim": 64, "rope_scaling": {"mrope_section": [1048577, 2, 2]}})"),
            "[1048577,2,2]");
}

// A text, a list or a number instead of what the key means counts as absent.
TEST(RopeFacts, ValuesOfOtherKindsAreIgnored) {
  for (const char* config : {R"({"rope_scaling": "yarn"})", R"({"rope_parameters": ["yarn"]})",
                             R"({"rope_scaling": {"type": 3}})"}) {
    EXPECT_EQ(rope_text(config, "type"), "default") << config;
  }
  EXPECT_EQ(rope_real(R"({"max_position_embeddings": 64,
                          "rope_scaling": {"type": "yarn", "factor": "8",
                                           "original_max_position_embeddings": 16}})",
                      "factor"),
            4);
  const std::string text_length =
      R"({"max_position_embeddings": "64", "rope_scaling": {"type": "longrope",
          "original_max_position_embeddings": 16}})";
  EXPECT_TRUE(no_rope_value(text_length, "factor"));
  EXPECT_EQ(rope_text(text_length, "attention"), "none");
  EXPECT_TRUE(no_rope_value(R"({"max_position_embeddings": 64, "rope_scaling": {
                                "type": "longrope", "original_max_position_embeddings": "16"}})",
                            "factor"));
}

TEST(RopeFacts, AScaleOfZeroDoesNotCount) {
  const auto attention = [](const std::string& more) {
    return rope_text("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8" + more + "}}",
                     "attention");
  };
  EXPECT_EQ(attention(R"(, "mscale": 0.707, "mscale_all_dim": 0)"), "yarn");
  EXPECT_EQ(attention(R"(, "mscale": 0, "mscale_all_dim": 0.707)"), "yarn");
}

TEST(RopeFacts, AWidthThatIsNoPositiveIntegerIsUnknown) {
  for (const char* config :
       {R"({"model_type": "qwen3_vl_moe"})", R"({"head_dim": "64"})", R"({"head_dim": 64.5})",
        R"({"model_type": "qwen3_vl_moe", "hidden_size": -64, "num_attention_heads": -2})"}) {
    EXPECT_TRUE(no_rope_value(config, "mrope_section")) << config;
  }
  EXPECT_EQ(rope_text(R"({"model_type": "qwen3_vl_moe", "hidden_size": 64,
                          "num_attention_heads": 2})",
                      "mrope_section"),
            "[6,5,5]");
}

TEST(RopeFacts, SectionsThatAreNotThreeSizesStayAsTheyAre) {
  for (const char* stated : {"5", "[1,2]", "[\"x\",1,2]", "[-1,2,3]"}) {
    const ExprValue value = rope_value(
        std::string(R"({"head_dim": 64, "rope_scaling": {"mrope_section": )") + stated + "}}",
        "mrope_section");
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      EXPECT_EQ(std::to_string(*whole), stated);
    } else {
      EXPECT_EQ(std::get<std::string>(value), stated);
    }
  }
}

TEST(RopeFacts, AnotherKeyOfTheBlockIsFoundByItsName) {
  EXPECT_EQ(rope_text(R"({"rope_scaling": {"type": "linear", "kind": "own"}})", "kind"), "own");
}

}  // namespace
}  // namespace hfshard
