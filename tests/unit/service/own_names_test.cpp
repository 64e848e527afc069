#include "service/own_names.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/service/named_checkpoint.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

TEST(WithoutWrappers, AWrapperIsAWholeModule) {
  EXPECT_EQ(without_wrappers("a._orig_mod.b"), "a.b");
  EXPECT_EQ(without_wrappers("_orig_mod.b"), "b");
  EXPECT_EQ(without_wrappers("a.my_orig_mod.b"), "a.my_orig_mod.b");
  EXPECT_EQ(without_wrappers("my_orig_mod._orig_mod.b"), "my_orig_mod.b");
}

TEST(OwnNamesOfAModel, AModuleAroundTheModelCanHaveOneLetter) {
  const Catalog files = files_of("qwen3");
  for (const std::string outer : {"m.", "net."}) {
    std::vector<std::string> names;
    std::vector<std::string> stored;
    for (const TensorInfo& info : files.tensors) {
      names.push_back(info.name);
      stored.push_back(outer + info.name);
    }
    const OwnNames own = own_names(stored, files.config_text, "", {});
    EXPECT_EQ(own.names, names);
    EXPECT_EQ(own.notes, (std::vector<std::string>{"hfshard removed the wrapper \"" + outer +
                                                   "\" from every tensor name"}));
  }
}

Catalog named_by(const Catalog& stored, const std::string& config_text) {
  return with_names_by_config(checkpoint_of(stored), config_text, {})->catalog();
}

TEST(WithNamesByConfig, ATiedTensorIsReadTwiceOnlyIfNothingElseIsMissing) {
  Catalog files = files_of("qwen3", {{"tie_word_embeddings", Json(true)}});
  for (TensorInfo& info : files.tensors)
    if (info.name == "model.embed_tokens.weight") info.name = "lm_head.weight";
  std::ranges::sort(files.tensors, {}, &TensorInfo::name);
  const Catalog twice = named_by(files, files.config_text);
  EXPECT_TRUE(twice.find("model.embed_tokens.weight"));
  EXPECT_TRUE(twice.find("lm_head.weight"));
  EXPECT_EQ(twice.notes,
            std::vector<std::string>{
                "\"model.embed_tokens.weight\" shares its values with "
                "\"lm_head.weight\", which alone is stored; hfshard reads it as both"});
  erase_below(files, "model.norm.");
  EXPECT_FALSE(named_by(files, files.config_text).find("model.embed_tokens.weight"));
}

TEST(WithNamesByConfig, ASharedNameThatTheFileStatesIsAddedIfItCanBe) {
  Catalog files = files_of("qwen3");
  const std::size_t count = files.tensors.size();
  files.shared = {{"x", "gone"}, {"model.norm.weight", "lm_head.weight"}};
  EXPECT_EQ(named_by(files, files.config_text).tensors.size(), count);
  files.shared.push_back({"y", "model.norm.weight"});
  const Catalog found = named_by(files, files.config_text);
  EXPECT_EQ(found.tensors.size(), count + 1);
  EXPECT_TRUE(found.find("y"));
}

// Compiling reports what no rule has.
TEST(WithNamesByConfig, OnlyArraysThatTheModelComputesAreLeftOut) {
  Catalog files = files_of("qwen3");
  const std::vector<std::string> model = names_of_arrays(files);
  files.tensors.emplace_back().name = "model.embeddings.position_ids";
  files.tensors.emplace_back().name = "zebra.weight";
  std::ranges::sort(files.tensors, {}, &TensorInfo::name);
  std::vector<std::string> wanted = model;
  wanted.emplace_back("zebra.weight");
  EXPECT_EQ(names_of_arrays(named_by(files, files.config_text)), wanted);
}

// Compiling reports what the config lacks.
TEST(WithNamesByConfig, AConfigThatNoRuleTakesLeavesTheNames) {
  Catalog files = files_of("qwen3");
  files.tensors.emplace_back().name = "model.embeddings.position_ids";
  std::ranges::sort(files.tensors, {}, &TensorInfo::name);
  const std::size_t count = files.tensors.size();
  EXPECT_EQ(named_by(files, files.config_text).tensors.size(), count - 1);
  Json config = parse_json(files.config_text, "config.json");
  config.object().erase("num_hidden_layers");
  EXPECT_EQ(named_by(files, dump_json(config)).tensors.size(), count);
}

}  // namespace
}  // namespace hfshard
