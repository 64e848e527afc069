#include "mapping/resolve/find.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string family_in(const std::string& config, const std::vector<MappingFile>& own = {}) {
  const std::optional<FamilyFile> found = find_family(parse_json(config, "config.json"), own);
  return found ? std::string(found->name) : "none";
}

TEST(FindFamily, TheModelTypeCountsBeforeTheClass) {
  EXPECT_EQ(family_in(R"({"model_type": "llama", "architectures": ["Qwen3ForCausalLM"]})"),
            "llama");
  EXPECT_EQ(family_in(R"({"model_type": "none", "architectures": ["Qwen3ForCausalLM"]})"), "qwen3");
  EXPECT_EQ(family_in(R"({"model_type": 3, "architectures": "Qwen3ForCausalLM"})"), "qwen3");
  EXPECT_EQ(family_in(R"({"architectures": ["Other", "Qwen3ForCausalLM"]})"), "qwen3");
  EXPECT_EQ(family_in(R"({"_class_name": "FluxTransformer2DModel"})"), "flux");
  EXPECT_EQ(family_in(R"({"architectures": ["LlamaForCausalLM"],
                          "_class_name": "FluxTransformer2DModel"})"),
            "llama");
  EXPECT_EQ(family_in("{}"), "none");
}

TEST(FindFamily, OwnFilesComeFirstAndTheirModelTypesBeforeTheirClasses) {
  const std::vector<MappingFile> own{
      {"one", "one.json", R"({"match": {"architectures": ["A", "Qwen3ForCausalLM"]}})"},
      {"two", "two.json", R"({"match": {"model_type": ["b", "t"]}})"},
      {"three", "three.json", R"({"match": {"architectures": "D", "model_type": "e"}})"}};
  EXPECT_EQ(family_in(R"({"model_type": "t", "architectures": ["A"]})", own), "two");
  EXPECT_EQ(family_in(R"({"model_type": "x", "architectures": ["A"]})", own), "one");
  EXPECT_EQ(family_in(R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]})", own),
            "one");
  EXPECT_EQ(family_in(R"({"model_type": "e"})", own), "three");
  EXPECT_EQ(family_in(R"({"_class_name": "D"})", own), "three");
  EXPECT_EQ(family_in(R"({"model_type": "A", "architectures": ["t"]})", own), "none");
  EXPECT_EQ(family_in(R"({"model_type": "llama"})", own), "llama");
}

TEST(FindFamily, AFileOfTheUserIsKnownByItsPathAndItsFamily) {
  const MappingFile own = own_mapping("some/dir/tiny.json", std::string(kTinyFamily));
  EXPECT_EQ(own.name, "tiny.json");
  EXPECT_EQ(own.path, "some/dir/tiny.json");
  EXPECT_EQ(own.family, "tiny");
  EXPECT_EQ(own.text, kTinyFamily);
  EXPECT_EQ(own_mapping("tiny.json", std::string(kTinyFamily)).name, "tiny.json");
  EXPECT_EQ(family_by_name("tiny", {{own}}).path, "some/dir/tiny.json");
  const Error error = catch_error([] { own_mapping("dir/bad.json", "{}"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_TRUE(error.rule().starts_with("dir/bad.json#")) << error.rule();
}

TEST(FindFamily, ADoubtSaysWhichOneIsUsed) {
  const auto doubt = [](const std::string& config) {
    return config_doubt(parse_json(config, "config.json"));
  };
  EXPECT_EQ(doubt(R"({"model_type": "mistral", "architectures": ["MixtralForCausalLM"]})"),
            "config.json contradicts itself: its model_type \"mistral\" belongs to family "
            "mistral, which hfshard uses, and its architectures \"MixtralForCausalLM\" to mixtral");
  EXPECT_EQ(doubt(R"({"model_type": "unheard-of", "architectures": ["A", "LlamaForCausalLM"]})"),
            "no family has the model_type \"unheard-of\" of config.json, so \"A, "
            "LlamaForCausalLM\" was taken for llama");
  EXPECT_EQ(doubt(R"({"model_type": "mistral"})"), "");
  EXPECT_EQ(doubt(R"({"architectures": ["MixtralForCausalLM"]})"), "");
}

TEST(FindFamily, NamesOfModelsAndClassesLeadToTheirFamily) {
  const auto hint = [](const char* name) {
    const Error error = catch_error([&] { family_by_name(name); });
    EXPECT_EQ(error.sentence(), "hfshard has no family \"" + std::string(name) + "\"");
    return error.hint_text();
  };
  EXPECT_EQ(hint("kimi_k2"), "models of this name belong to family deepseek");
  EXPECT_EQ(hint("Qwen3ForCausalLM"), "models of this name belong to family qwen3");
  EXPECT_TRUE(hint("quen3").starts_with("did you mean qwen3")) << hint("quen3");
  EXPECT_TRUE(hint("zzzzzzzzzzzzz").starts_with("the families are ")) << hint("zzzzzzzzzzzzz");
}

TEST(FindFamily, KnownModelTypesAreSorted) {
  const std::vector<std::string> known = known_model_types();
  EXPECT_TRUE(std::ranges::is_sorted(known));
  for (const char* name : {"llama", "qwen3", "kimi_k2"})
    EXPECT_TRUE(std::ranges::binary_search(known, name)) << name;
}

}  // namespace
}  // namespace hfshard
