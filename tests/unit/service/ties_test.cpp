#include "service/ties.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

const std::string kTiedHead = "lm_head.weight";
const std::string kTiedTo = "model.embed_tokens.weight";

// Adds a tensor with the shape and dtype of another one.
void add_copy(Catalog& catalog, const std::string& name, const std::string& of) {
  TensorInfo stored = catalog.tensors[*catalog.find(of)];
  stored.name = name;
  catalog.tensors.push_back(stored);
  std::ranges::sort(catalog.tensors, {}, &TensorInfo::name);
}

// Returns a model with a tied embedding that also stores the head.
Catalog tied_files(DType head, DType embedding) {
  Catalog out = files_of("qwen3", {{"tie_word_embeddings", Json(true)}});
  add_copy(out, kTiedHead, kTiedTo);
  out.tensors[*out.find(kTiedHead)].dtype = head;
  out.tensors[*out.find(kTiedTo)].dtype = embedding;
  return out;
}

CompiledModel with_ties(const Catalog& tree) {
  MappingOptions names;
  names.scheme = "hf";
  names.flat_names = true;
  CompiledModel out = compile_model(tree, names);
  EXPECT_EQ(out.claims, nullptr);
  claim_ties(tree, tree.config_text, "config.json", names, out);
  return out;
}

TEST(ClaimTies, AStoredHeadIsClaimedEqualToTheEmbedding) {
  for (const auto& [head, embedding] :
       {std::pair{DType::bf16, DType::bf16}, {DType::f32, DType::f32}, {DType::bf16, DType::f32}}) {
    const Catalog tree = tied_files(head, embedding);
    const CompiledModel model = with_ties(tree);
    ASSERT_NE(model.claims, nullptr);
    ASSERT_EQ(model.claims->leaves.size(), 1U);
    EXPECT_EQ(model.claims->leaves[0].name, kTiedHead);
    EXPECT_EQ(model.claims->leaves[0].dtype, head);
    ASSERT_EQ(model.claims->transfers.size(), 1U);
    const Transfer& same = model.claims->transfers[0];
    EXPECT_EQ(tree.tensors[same.sources.front()].name, kTiedTo);
    EXPECT_EQ(same.source_dtype, embedding);
    EXPECT_EQ(same.source_shape, model.claims->leaves[0].shape);
  }
}

TEST(ClaimTies, AHeadThatCannotBeComparedIsNotClaimed) {
  EXPECT_EQ(with_ties(tied_files(DType::i32, DType::bf16)).claims, nullptr);
  EXPECT_EQ(with_ties(files_of("qwen3")).claims, nullptr);
}

TEST(ClaimTies, AHeadWithoutItsEmbeddingIsNotClaimed) {
  const Catalog tree = tied_files(DType::bf16, DType::bf16);
  MappingOptions names;
  names.scheme = "hf";
  names.flat_names = true;
  for (const char* include : {kTiedHead.c_str(), "*norm*", "model.*"}) {
    names.include = {include};
    CompiledModel model = compile_model(tree, names);
    claim_ties(tree, tree.config_text, "config.json", names, model);
    EXPECT_EQ(model.claims, nullptr) << include;
  }
}

TEST(ClaimTies, AModelWithoutTensorsHasNoClaims) {
  const Catalog tree = tied_files(DType::bf16, DType::bf16);
  CompiledModel model;
  claim_ties(tree, tree.config_text, "config.json", {}, model);
  EXPECT_EQ(model.claims, nullptr);
}

TEST(MissingTwins, OnlyATensorThatIsAbsentIsMissing) {
  const std::string config = files_of("qwen3", {{"tie_word_embeddings", Json(true)}}).config_text;
  const std::vector<SharedName> missing = missing_twins({kTiedHead}, config, {});
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].name, kTiedTo);
  EXPECT_EQ(missing[0].stored, kTiedHead);
  EXPECT_TRUE(missing_twins({kTiedHead, kTiedTo}, config, {}).empty());
  EXPECT_TRUE(missing_twins({kTiedTo}, config, {}).empty());
}

TEST(CheckHead, OnlyAModelThatLacksTheHeadAloneIsRefused) {
  Catalog source = files_of("qwen3", {{"tie_word_embeddings", Json(true)}});
  Catalog untied = source;
  untied.config_text = files_of("qwen3", {{"tie_word_embeddings", Json(false)}}).config_text;
  const Error error = catch_error([&] { check_head(source, untied, {}); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.tensor(), kTiedHead);
  for (Catalog* files : {&source, &untied}) erase_below(*files, "model.norm.");
  EXPECT_NO_THROW(check_head(source, untied, {})) << "compiling reports the norm";
}

TEST(CheckHead, AnotherShapeIsTheError) {
  Catalog source = files_of("qwen3", {{"tie_word_embeddings", Json(true)}});
  source.tensors[*source.find("model.norm.weight")].shape = {3};
  Catalog untied = source;
  untied.config_text = files_of("qwen3", {{"tie_word_embeddings", Json(false)}}).config_text;
  const Error error = catch_error([&] { check_head(source, untied, {}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "model.norm.weight");
}

// The rules of such a family never expect a head.
TEST(CheckHead, TheFirstTensorThatIsTiedToAStoredOneIsNamed) {
  const std::string family =
      tiny_family_with(R"("drop": [)",
                       R"("drop": [["ghost.weight [D]", {"same_as": "old.weight", "why": "tied"}],
                  ["head.weight [D]", {"same_as": "norm.weight", "why": "tied"}],
                  ["tail.weight [D]", {"same_as": "norm.weight", "why": "tied"}],)");
  const Json config = info_of_family(tiny_file(family), false).example;
  Catalog source = example_catalog(tiny_file(family), config, DType::bf16);
  source.config_text = dump_json(config);
  for (const char* tied : {"ghost.", "head.", "tail."}) erase_below(source, tied);
  MappingOptions mapping;
  mapping.files = {{"tiny", "tiny.json", family}};
  const Error error = catch_error([&] { check_head(source, source, mapping); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.tensor(), "head.weight");
  add_copy(source, "tail.weight", "norm.weight");
  EXPECT_NO_THROW(check_head(source, source, mapping)) << "it has a head";
}

// The model also stores another copy of its embedding.
TEST(CheckHead, AMissingHeadIsRefusedForFewerLayersToo) {
  std::string family = tiny_family_with(
      R"("cyc": 2},
  "drop": [)",
      R"("cyc": 2, "tied": "tie_word_embeddings ?? false"},
  "drop": [["copy.weight [D]", {"same_as": "norm.weight", "why": "stored twice"}],
           ["head.weight [D]", {"when": "tied", "same_as": "norm.weight", "why": "tied"}],)");
  const std::string rules = R"("global": [)";
  family.insert(family.find(rules) + rules.size(),
                R"(["head.weight [D]", "head.scale [D]", {"when": "!tied"}], )");
  Json config = info_of_family(tiny_file(family), false).example;
  config["tie_word_embeddings"] = true;
  Catalog source = example_catalog(tiny_file(family), config, DType::bf16);
  add_copy(source, "copy.weight", "norm.weight");
  source.config_text = dump_json(config);
  Catalog untied = source;
  config["tie_word_embeddings"] = false;
  untied.config_text = dump_json(config);
  MappingOptions mapping;
  mapping.files = {{"tiny", "tiny.json", family}};
  for (const auto layers : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(1)}) {
    mapping.num_layers = layers;
    const Error error = catch_error([&] { check_head(source, untied, mapping); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.tensor(), "head.weight");
  }
}

// Then config.json no longer says that they are equal.
TEST(ClaimTies, AnUntiedExportKeepsAHeadThatDiffers) {
  const TempDir dir;
  const std::string model = copy_fixture("qwen3-untied", dir / "model");
  Reporter quiet;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "torchtitan";
  hfshard::convert(model, options, to_output(dir / "tree"), quiet);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  Json tied = parse_json(read_file(model + "/config.json"), "config.json");
  tied["tie_word_embeddings"] = true;
  back.tree.config_text = dump_json(tied);
  back.tree.config_name = "config.json";
  const auto made = [&] {
    hfshard::convert(dir / "tree", back, to_output(dir / "back"), quiet);
    return open_catalog(dir / "back");
  };
  EXPECT_EQ(catch_error(made).code(), ErrorCode::bad_input);
  back.mapping.untie = true;
  EXPECT_TRUE(made().find(kTiedHead));
}

// The user accepts that the head's own values are lost.
TEST(ClaimTies, AHeadThatIsAllowedToBeLostIsNotClaimed) {
  const Catalog tree = tied_files(DType::bf16, DType::bf16);
  MappingOptions names;
  names.scheme = "hf";
  names.flat_names = true;
  CompiledModel model = compile_model(tree, names);
  names.drop = {"lm_head.*"};
  claim_ties(tree, tree.config_text, "config.json", names, model);
  EXPECT_EQ(model.claims, nullptr);
  names.drop = {"model.*"};
  claim_ties(tree, tree.config_text, "config.json", names, model);
  ASSERT_NE(model.claims, nullptr);
  const auto claims = model.claims;
  claim_ties(tree, tree.config_text, "config.json", names, model);
  EXPECT_EQ(model.claims, claims) << "they are made once";
}

TEST(ClaimTies, OnlyAKnownModelHasTies) {
  const Catalog tree = tied_files(DType::bf16, DType::bf16);
  CompiledModel model = with_ties(tree);
  model.claims = nullptr;
  for (const char* config : {"", R"({"model_type": "nobody"})"}) {
    claim_ties(tree, config, "config.json", {}, model);
    EXPECT_EQ(model.claims, nullptr) << config;
  }
  EXPECT_TRUE(missing_twins({kTiedHead}, "", {}).empty());
  EXPECT_TRUE(missing_twins({kTiedHead}, R"({"model_type": "nobody"})", {}).empty());
}

}  // namespace
}  // namespace hfshard
