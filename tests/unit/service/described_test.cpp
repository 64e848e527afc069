#include "service/described.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "format/formats.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/test_data.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

TEST(DescribeModel, TensorsHaveTheDtypeOfTheConfig) {
  Json config = parse_json(read_text(test_data("oracle/qwen3/config.json")), "config.json");
  for (const char* key : {"dtype", "torch_dtype"}) config.object().erase(key);
  for (const char* key : {"dtype", "torch_dtype"}) {
    for (const auto& [text, dtype] :
         {std::pair{"float32", DType::f32}, {"float16", DType::f16}, {"bfloat16", DType::bf16}}) {
      Json stated = config;
      stated[key] = text;
      const Described found = describe_model({}, dump_json(stated), "config.json", {});
      EXPECT_GT(found.catalog.tensors.size(), 10U);
      for (const TensorInfo& tensor : found.catalog.tensors)
        EXPECT_EQ(tensor.dtype, dtype) << key << " " << text << " " << tensor.name;
    }
  }
}

// The codes were decoded, so the config of the output no longer describes any.
TEST(CompileFromDialect, OnlyAConfigOfCodesIsChanged) {
  const Catalog files = files_of("qwen3_moe");
  const Catalog tree = modules_of(files);
  Json config = parse_json(files.config_text, "config.json");
  const auto compiled = [&] {
    return compile_from_dialect(tree, dump_json(config), "config.json", {}).value();
  };
  EXPECT_EQ(compiled().config_text, "");
  const Json plain = config;
  config["quantization_config"]["quant_method"] = "fp8";
  EXPECT_EQ(parse_json(compiled().config_text, "config.json"), plain);
}

Catalog leaves_of(const CompiledModel& model, const Catalog& files) {
  return tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
}

TEST(DescribeModel, ATreeThatLacksALeafHasTheLayoutOfTheOthers) {
  const Catalog files = files_of("qwen3");
  for (const bool stacked : {true, false}) {
    MappingOptions made;
    made.stacked = stacked;
    const CompiledModel model = compile_model(files, made);
    Catalog tree = leaves_of(model, files);
    tree.tensors.erase(tree.tensors.begin() + 1);
    for (const bool asked : {true, false}) {
      MappingOptions options;
      options.stacked = asked;
      const Described found = describe_model(tree, files.config_text, "config.json", options);
      EXPECT_EQ(found.model.scheme, made.scheme);
      EXPECT_EQ(found.model.stacked, stacked);
      EXPECT_EQ(found.model.leaves.size(), model.leaves.size());
    }
  }
}

// The config describes the codes of the files that the tree was made from.
TEST(DescribeNumbers, QuantizationIsLeftOutOfTheConfigOnlyIfTheModelHadCodes) {
  const Catalog files = files_of("qwen3_moe");
  const Catalog tree = leaves_of(compile_model(files, {}), files);
  Json config = parse_json(files.config_text, "config.json");
  const auto described = [&](std::string& text) {
    const Described found = describe_numbers(tree, text, "config.json", {});
    EXPECT_EQ(found.model.leaves.size(), tree.tensors.size());
    for (const Transfer& transfer : found.model.transfers) EXPECT_FALSE(transfer.decode);
    for (const TensorInfo& tensor : found.catalog.tensors)
      EXPECT_EQ(tensor.dtype, DType::bf16) << tensor.name;
  };
  std::string plain = files.config_text + " ";
  described(plain);
  EXPECT_EQ(plain, files.config_text + " ");
  config["quantization_config"] =
      parse_json(R"({"quant_method": "fp8", "weight_block_size": [4, 4]})", "quantization");
  std::string coded = dump_json(config);
  described(coded);
  EXPECT_EQ(parse_json(coded, "config.json"), parse_json(files.config_text, "config.json"));
}

// A model is described as a whole, whatever is then taken from its tree.
TEST(DescribeModel, SelectionsAndCastsDontChangeTheModel) {
  const Catalog files = files_of("qwen3");
  const Catalog tree = leaves_of(compile_model(files, {}), files);
  const auto same = [&](const MappingOptions& mapping) {
    const Described found = describe_model(tree, files.config_text, "config.json", mapping);
    if (found.model.leaves.size() != tree.tensors.size()) return false;
    return std::ranges::all_of(found.model.leaves, [&](const Leaf& leaf) {
      const auto array = tree.find(leaf.name);
      return array && tree.tensors[*array].dtype == leaf.dtype;
    });
  };
  EXPECT_TRUE(same({}));
  const std::vector<std::pair<const char*, std::function<void(MappingOptions&)>>> changes{
      {"prefix", [](MappingOptions& mapping) { mapping.prefix = "model."; }},
      {"dtype", [](MappingOptions& mapping) { mapping.dtype = DType::f32; }},
      {"cast",
       [](MappingOptions& mapping) {
         mapping.casts = {{"*", DType::f32}};
       }},
      {"include", [](MappingOptions& mapping) { mapping.include = {"model.norm.weight"}; }},
      {"exclude", [](MappingOptions& mapping) { mapping.exclude = {"model.norm.weight"}; }},
      {"drop", [](MappingOptions& mapping) { mapping.drop = {"model.norm.weight"}; }},
      {"dialect", [](MappingOptions& mapping) { mapping.dialect = "modules"; }},
  };
  for (const auto& [name, change] : changes) {
    MappingOptions mapping;
    change(mapping);
    EXPECT_TRUE(same(mapping)) << name;
  }
}

// A cast tree goes back to the model's dtypes.
TEST(DescribeModel, ATreesDtypesAreTakenOnlyIfTheConfigStatesNone) {
  const Catalog files = files_of("qwen3");  // bf16
  const Catalog tree = leaves_of(compile_model(files, {}), files);
  Json config = parse_json(files.config_text, "config.json");
  const auto dtype_of = [&] {
    return describe_model(tree, dump_json(config), "config.json", {}).catalog.tensors[0].dtype;
  };
  config["torch_dtype"] = "float32";
  EXPECT_EQ(dtype_of(), DType::f32);
  config.object().erase("torch_dtype");
  EXPECT_EQ(dtype_of(), DType::bf16);
  Catalog wide = tree;
  for (TensorInfo& info : wide.tensors) info.dtype = DType::f32;
  const Described found = describe_model(wide, dump_json(config), "config.json", {});
  for (const TensorInfo& tensor : found.catalog.tensors)
    EXPECT_EQ(tensor.dtype, DType::f32) << tensor.name;
  config["torch_dtype"] = "bfloat16";
  EXPECT_EQ(describe_model(wide, dump_json(config), "config.json", {}).catalog.tensors[0].dtype,
            DType::bf16);
}

// The record has them, and neither the config nor a cast tree does.
TEST(DescribeModel, TheModelThatATreeWasMadeFromKnowsItsDtypes) {
  Catalog files = files_of("qwen3");
  const std::string norm = "model.norm.weight";
  files.tensors[files.find(norm).value()].dtype = DType::f32;
  const CompiledModel model = compile_model(files, {});
  const auto was = make_model(files, model);
  Catalog tree = leaves_of(model, files);
  for (TensorInfo& info : tree.tensors) info.dtype = DType::f16;
  const Described found = describe_model(tree, files.config_text, "config.json", {}, was.get());
  EXPECT_EQ(found.catalog.tensors.size(), files.tensors.size());
  for (const TensorInfo& tensor : found.catalog.tensors)
    EXPECT_EQ(tensor.dtype, tensor.name == norm ? DType::f32 : DType::bf16) << tensor.name;
}

// Both layouts have these names, and the stacked one lacks fewer.
TEST(DescribeModel, OfTwoLayoutsTheSmallerOneIsTaken) {
  const Catalog files = files_of("qwen3");
  Catalog tree = leaves_of(compile_model(files, {}), files);
  std::erase_if(tree.tensors, [](const TensorInfo& info) {
    return info.name.find(".layers") != std::string::npos;
  });
  for (const bool asked : {true, false}) {
    MappingOptions options;
    options.stacked = asked;
    EXPECT_TRUE(describe_model(tree, files.config_text, "config.json", options).model.stacked);
  }
}

// A tree with all scales is one of codes. One that lacks a leaf is read as the plain model.
TEST(DescribeModel, CodesAreKeptOnlyInATreeThatHasAllOfTheirLeaves) {
  const std::string config = read_text(test_data("oracle/qwen3.5-fp8/config.json"));
  const Catalog files = open_catalog(test_data("oracle/qwen3.5-fp8"));
  MappingOptions keep;
  keep.keep_dtype = true;
  const CompiledModel coded = compile_model(files, keep);
  ASSERT_TRUE(coded.keeps_codes);
  Catalog tree = leaves_of(coded, files);
  EXPECT_TRUE(describe_model(tree, config, "config.json", {}).model.keeps_codes);
  std::erase_if(tree.tensors, [](const TensorInfo& info) {
    return info.name == "params.params.decoder.decoder_norm.scale";
  });
  ASSERT_EQ(tree.tensors.size() + 1, coded.leaves.size());
  EXPECT_FALSE(describe_model(tree, config, "config.json", {}).model.keeps_codes);
}

// DeepSeek V4 keeps the biases of its routers and its tables of tokens in collections of their own.
TEST(NamingsOf, CollectionsNextToTheHeadAreNamed) {
  const auto collections_of = [](const std::string& family) {
    std::set<std::string> out;
    for (const Naming& naming : namings_of(files_of(family).config_text, "config.json", {})) {
      EXPECT_TRUE(naming.collections.empty() || naming.head == "params.params.");
      out.insert(naming.collections.begin(), naming.collections.end());
    }
    return out;
  };
  EXPECT_EQ(collections_of("deepseek_v4"),
            (std::set<std::string>{"params.MoEBiasVar.", "params.Tid2EidVar."}));
  EXPECT_EQ(collections_of("qwen3"), std::set<std::string>());
}

TEST(DescribeModel, ADtypeOfAPartIsTakenIfTheWholeStatesNone) {
  Json config = parse_json(read_text(test_data("oracle/qwen3/config.json")), "config.json");
  for (const char* key : {"dtype", "torch_dtype"}) config.object().erase(key);
  const auto dtype_of = [](const Json& stated) {
    return describe_model({}, dump_json(stated), "config.json", {}).catalog.tensors.front().dtype;
  };
  for (const char* part : {"text_config", "thinker_config"}) {
    Json stated = config;
    stated[part] = "none";
    EXPECT_EQ(dtype_of(stated), DType::bf16) << part;
    stated[part] = Json::Object();
    stated[part]["dtype"] = "float32";
    EXPECT_EQ(dtype_of(stated), DType::f32) << part;
    stated["dtype"] = "float16";
    EXPECT_EQ(dtype_of(stated), DType::f16) << part;
    stated["dtype"] = 1;  // ignored
    EXPECT_EQ(dtype_of(stated), DType::f32) << part;
  }
}

// The output layer can have another dtype than the embedding that it is tied to.
TEST(CompileFromDialect, ATiedOutputLayerDoesntChangeTheEmbedding) {
  const Catalog files = files_of(
      "qwen3_moe", {{"tie_word_embeddings", true}, {"num_hidden_layers", 1}, {"num_experts", 1}});
  Catalog tree = modules_of(files);
  tree.tensors[tree.find("lm_head.weight").value()].dtype = DType::f32;
  const auto made = compile_from_dialect(tree, files.config_text, "config.json", {});
  ASSERT_TRUE(made);
  for (const Leaf& leaf : made->leaves) EXPECT_EQ(leaf.dtype, DType::bf16) << leaf.name;
}

// Files have these experts in either order, but not with other sizes.
TEST(CompileFromDialect, AnArrayWithAnotherShapeIsAnError) {
  Json config = parse_json(read_text(test_data("oracle/qwen3-vl-moe/config.json")), "config.json");
  const Catalog files = files_of("qwen3_vl", config.object());
  Catalog tree = modules_of(files);
  const std::string experts = "model.language_model.layers.0.mlp.experts.gate_up_proj";
  EXPECT_TRUE(compile_from_dialect(tree, files.config_text, "config.json", {}));
  tree.tensors[tree.find(experts).value()].shape[2] += 1;
  const Error error =
      catch_error([&] { compile_from_dialect(tree, files.config_text, "config.json", {}); });
  EXPECT_EQ(error.tensor(), experts);
}

TEST(DescribeModel, APartThatATreeLacksIsNotTaken) {
  const Catalog files = files_of("deepseek", {{"num_nextn_predict_layers", 1}});
  Catalog tree = leaves_of(compile_model(files, {}), files);
  const std::size_t count = tree.tensors.size();
  const auto leaves_for = [&] {
    return describe_model(tree, files.config_text, "config.json", {}).model.leaves.size();
  };
  EXPECT_EQ(leaves_for(), count);
  tree.tensors.emplace_back().name = "params.params.zzz";
  EXPECT_EQ(leaves_for(), count);
}

// These options choose what is written, but the tree has what was written before.
TEST(DescribeModel, OptionsOfTheOutputDontChangeTheTreesModel) {
  const Catalog files = files_of("qwen3");
  const Catalog tree = leaves_of(compile_model(files, {}), files);
  MappingOptions options;
  options.dialect = "modules";
  options.prefix = "net.";
  options.dtype = DType::f32;
  options.casts = {{"*norm*", DType::f16}};
  options.include = {"model.norm.weight"};
  options.exclude = {"lm_head.weight"};
  options.drop = {"model.layers.*"};
  const Described plain = describe_model(tree, files.config_text, "config.json", {});
  const Described found = describe_model(tree, files.config_text, "config.json", options);
  ASSERT_EQ(found.model.leaves.size(), plain.model.leaves.size());
  for (std::size_t i = 0; i < plain.model.leaves.size(); ++i) {
    EXPECT_EQ(found.model.leaves[i].name, plain.model.leaves[i].name);
    EXPECT_EQ(found.model.leaves[i].dtype, DType::bf16);
  }
}

// No option says it, but the tree shows it.
TEST(DescribeModel, APartThatATreeHasIsTaken) {
  Json config = family_info("deepseek").example;
  config["num_nextn_predict_layers"] = Json(1);
  MappingOptions with_part;
  with_part.options = {{"mtp", "true"}};
  Catalog files =
      example_catalog(family_by_name("deepseek"), config, DType::bf16, with_part.options);
  files.config_text = dump_json(config);
  const CompiledModel model = compile_model(files, with_part);
  Catalog tree = leaves_of(model, files);
  const std::size_t without = compile_model(files, {}).leaves.size();
  ASSERT_LT(without, model.leaves.size());
  const auto leaves_for = [&](const Model* was) {
    return describe_model(tree, files.config_text, "config.json", {}, was).model.leaves.size();
  };
  EXPECT_EQ(leaves_for(nullptr), model.leaves.size());
  EXPECT_EQ(tree.tensors.size(), model.leaves.size());
}

TEST(DescribeModel, ATensorThatTheFamilyKeepsWideHasTheTreesDtype) {
  const Catalog files = files_of("deepseek_v4");
  Catalog tree = leaves_of(compile_model(files, {}), files);
  const auto wide_for = [&](DType dtype) {
    for (TensorInfo& info : tree.tensors) {
      if (is_float(info.dtype)) info.dtype = dtype;
    }
    const Described found = describe_model(tree, files.config_text, "config.json", {});
    std::size_t wide = 0;
    for (const TensorInfo& info : found.catalog.tensors) {
      if (info.dtype == DType::f32) ++wide;
    }
    return std::pair{wide, found.catalog.tensors.size()};
  };
  const auto [wide, all] = wide_for(DType::f32);
  EXPECT_GT(wide, wide_for(DType::bf16).first);
  EXPECT_LT(wide, all);
}

TEST(NamingsOf, NamesOfADialectAndOfAnEarlierReleaseSaySo) {
  const auto abouts = [](const std::string& config) {
    std::set<std::string> out;
    for (const Naming& naming : namings_of(config, "config.json", {})) {
      out.insert(naming.about);
      EXPECT_EQ(naming.files,
                naming.about.empty() || naming.about.starts_with("the names of --dialect"))
          << naming.about;
      EXPECT_TRUE(std::ranges::is_sorted(naming.names)) << naming.about;
      EXPECT_EQ(naming.present.empty(), !naming.about.ends_with(" from an earlier release"));
      EXPECT_TRUE(naming.present.empty() || naming.present.size() == naming.names.size());
    }
    return out;
  };
  EXPECT_TRUE(abouts(files_of("qwen3_moe").config_text).contains("the names of --dialect modules"));
  EXPECT_TRUE(abouts(dump_json(family_info("llama").example))
                  .contains("torchtitan's from an earlier release"));
  EXPECT_TRUE(abouts(R"({"model_type": "nobody"})").empty());
}

// The forms belong to MaxText's scheme. The names of modules don't depend on them.
TEST(NamingsOf, AModelWhoseTreesHaveFormsHasTheNamesOfModulesToo) {
  const Catalog files = files_of("deepseek_v4");
  const std::vector<Naming> found = namings_of(files.config_text, "config.json", {});
  const auto modules = std::ranges::find(found, "the names of --dialect modules", &Naming::about);
  ASSERT_NE(modules, found.end());
  EXPECT_EQ(modules + 2, found.end()) << "before the files' own";
  EXPECT_TRUE(modules->files);
  EXPECT_EQ(modules->names.size(), modules_of(files).tensors.size());
}

TEST(NamingsOf, TheNamesOfTheFilesComeLast) {
  const Catalog files = files_of("qwen3");
  const std::vector<Naming> found = namings_of(files.config_text, "config.json", {});
  ASSERT_GT(found.size(), 2U);
  const Naming& last = found.back();
  EXPECT_TRUE(last.files);
  EXPECT_EQ(last.about, "");
  EXPECT_EQ(last.head, "model.");
  ASSERT_EQ(last.names.size(), files.tensors.size());
  for (std::size_t i = 0; i < last.names.size(); ++i) {
    EXPECT_EQ(last.names[i], files.tensors[i].name);
    EXPECT_EQ(last.present_name(i), last.names[i]);
  }
  std::set<std::string> nnx;
  for (const Naming& naming : found) {
    if (naming.nnx) nnx.insert(naming.about + " " + naming.head);
  }
  EXPECT_EQ(nnx, std::set<std::string>{"MaxText's params.params."});
}

// MaxText's layers can't compute it.
Json partly_rotated_config() {
  Json out = family_info("phi3").example;
  out["partial_rotary_factor"] = parse_json("0.5", "");
  return out;
}

TEST(NamingsOf, AModelThatNoSchemeComputesHasTheNamesOfItsFamily) {
  const std::vector<Naming> found =
      namings_of(dump_json(partly_rotated_config()), "config.json", {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].files);
  EXPECT_FALSE(found[0].nnx);
  EXPECT_EQ(found[0].about, "");
  EXPECT_EQ(found[0].head, "model.");
  EXPECT_TRUE(std::ranges::is_sorted(found[0].names));
  EXPECT_TRUE(std::ranges::binary_search(found[0].names, "lm_head.weight"));
  EXPECT_TRUE(std::ranges::binary_search(found[0].names, "model.layers.0.mlp.down_proj.weight"));
}

TEST(DescribeModel, AModelThatNoSchemeComputesIsTheErrorOfItsMainScheme) {
  const Error error = catch_error(
      [] { describe_model({}, dump_json(partly_rotated_config()), "config.json", {}); });
  EXPECT_EQ(error.sentence(),
            "MaxText's llama layers rotate whole heads, but config.json says "
            "partial_rotary_factor");
}

TEST(DescribeNumbers, AConfigOfCodesLosesThemOnlyIfTheModelHasThem) {
  const Catalog files = files_of("qwen3");
  const Catalog tree = leaves_of(compile_model(files, {}), files);
  std::string plain = files.config_text;
  EXPECT_EQ(describe_numbers(tree, plain, "config.json", {}).model.leaves.size(),
            tree.tensors.size());
  EXPECT_EQ(plain, files.config_text);
  Json config = parse_json(read_text(test_data("oracle/qwen3-moe-fp8/config.json")), "config.json");
  std::string text = dump_json(config);
  describe_numbers({}, text, "config.json", {});
  config.object().erase("quantization_config");
  EXPECT_EQ(parse_json(text, "config.json"), config);
}

}  // namespace
}  // namespace hfshard
