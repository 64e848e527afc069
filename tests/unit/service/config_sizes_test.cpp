#include "service/config_sizes.h"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "service/described.h"
#include "support/catch_error.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

// More heads and wider heads both give the queries more rows, and only one fits the norms too.
// Returns the tree of a config, and the error for it when another config is given.
Error error_of_sizes(const Json::Object& stored, const Json::Object& given,
                     const std::string& array = {}, const Shape& shape = {}) {
  const Catalog files = files_of("qwen3", stored);
  const CompiledModel model = compile_model(files, {});
  Catalog tree = tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  if (!array.empty()) tree.tensors.at(tree.find(array).value()).shape = shape;
  const std::string config = files_of("qwen3", given).config_text;
  const Described described = describe_model(tree, config, "config.json", {});
  try {
    check_sizes(tree, described, config, "config.json", {});
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "no error was thrown"};
}

TEST(CheckSizes, AVocabularyOfAnotherSizeIsNamed) {
  const Error larger = error_of_sizes({{"vocab_size", Json(128)}}, {{"vocab_size", Json(96)}});
  EXPECT_EQ(larger.sentence(),
            "the checkpoint's vocabulary is larger: it has 128 rows, and vocab_size of config.json "
            "says 96");
  const Error smaller = error_of_sizes({{"vocab_size", Json(96)}}, {{"vocab_size", Json(128)}});
  EXPECT_EQ(smaller.sentence(),
            "the checkpoint's vocabulary is smaller: it has 96 rows, and vocab_size of config.json "
            "says 128");
  EXPECT_EQ(smaller.hint_text(), "set \"vocab_size\": 96 in config.json");
}

// The numbers of rows and columns can't be compared one by one.
TEST(CheckSizes, AnArrayOfAnotherRankNamesNoKey) {
  const std::string norm = "params.params.decoder.decoder_norm.scale";
  EXPECT_EQ(error_of_sizes({}, {}, norm, {3, 4}).sentence(), "no error was thrown");
  EXPECT_EQ(error_of_sizes({}, {}, norm, {}).sentence(), "no error was thrown");
}

// A key of 0 can't be scaled, and neither can an axis without elements.
TEST(CheckSizes, SizesOfZeroNameNoKey) {
  for (const char* key : {"head_dim", "hidden_size", "num_attention_heads", "num_key_value_heads"})
    EXPECT_EQ(error_of_sizes({}, {{key, Json(0)}}).sentence(), "no error was thrown") << key;
  EXPECT_EQ(error_of_sizes({}, {{"num_key_value_heads", Json(0)}, {"intermediate_size", Json(28)}})
                .sentence(),
            "no error was thrown");
}

TEST(CheckSizes, TwoOtherSizesNameNoKey) {
  EXPECT_EQ(error_of_sizes({{"vocab_size", Json(128)}, {"intermediate_size", Json(28)}},
                           {{"vocab_size", Json(96)}})
                .code(),
            ErrorCode::internal);
}

TEST(CheckSizes, AKeyThatAConfigLacksIsNotNamed) {
  const Catalog files = files_of("qwen3", {{"vocab_size", Json(128)}});
  const CompiledModel model = compile_model(files, {});
  const Catalog tree =
      tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  const Described described =
      describe_model(tree, files_of("qwen3").config_text, "config.json", {});
  EXPECT_NO_THROW(check_sizes(tree, described, "{}", "config.json", {}));
}

TEST(CheckSizes, TheKeyThatGivesAllSizesIsNamed) {
  const Catalog files = files_of("qwen3", {{"num_attention_heads", Json(8)}});
  const CompiledModel model = compile_model(files, {});
  const Catalog tree =
      tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  const std::string config = files_of("qwen3").config_text;  // 4 heads
  const Described described = describe_model(tree, config, "config.json", {});
  const Error error = catch_error([&] { check_sizes(tree, described, config, "config.json", {}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.hint_text(), "set \"num_attention_heads\": 8 in config.json");
}

// In torchtitan's names, a matrix of queries has the rows of all heads.
TEST(CheckSizes, AnAxisCanHaveAMultipleOfTheKeysNumber) {
  MappingOptions titan;
  titan.scheme = "torchtitan";
  for (const auto& [key, number] :
       {std::pair("num_attention_heads", 8), {"num_key_value_heads", 4}}) {
    const Catalog files = files_of("qwen3", {{key, Json(number)}});
    const CompiledModel model = compile_model(files, titan);
    const Catalog tree =
        tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
    const std::string config = files_of("qwen3").config_text;
    const Described described = describe_model(tree, config, "config.json", {});
    const Error error =
        catch_error([&] { check_sizes(tree, described, config, "config.json", {}); });
    EXPECT_EQ(error.hint_text(), fmt::format("set \"{}\": {} in config.json", key, number));
  }
}

// Returns the error for a qwen3 tree with this vocabulary, if the config and --vocab say others.
Error error_of_vocabulary(int stored, int stated, const std::string& option) {
  const Catalog files = files_of("qwen3", {{"vocab_size", Json(stored)}});
  const CompiledModel model = compile_model(files, {});
  const Catalog tree =
      tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  const std::string config = files_of("qwen3", {{"vocab_size", Json(stated)}}).config_text;
  MappingOptions mapping;
  if (!option.empty()) mapping.options["vocab"] = option;
  const Described described = describe_model(tree, config, "config.json", mapping);
  return catch_error([&] { check_sizes(tree, described, config, "config.json", mapping); });
}

TEST(CheckSizes, MoreRowsCanBePaddingOfAVocabulary) {
  const std::string edit = "set \"vocab_size\": 128 in config.json";
  const std::string hint =
      "if the last rows are padding, pass --vocab 128; if tokens were added, " + edit;
  const Error more = error_of_vocabulary(128, 96, "");
  EXPECT_EQ(more.code(), ErrorCode::bad_input);
  EXPECT_EQ(more.file(), "config.json");
  EXPECT_EQ(more.hint_text(), hint);
  const Error other = error_of_vocabulary(128, 96, "112");
  EXPECT_EQ(other.sentence(),
            "the checkpoint's vocabulary is larger: it has 128 rows, and --vocab says 112");
  EXPECT_EQ(other.hint_text(), hint);
  const Error fewer = error_of_vocabulary(100, 96, "112");
  EXPECT_EQ(fewer.sentence(),
            "the checkpoint's vocabulary is smaller: it has 100 rows, and --vocab says 112");
}

TEST(CheckSizes, BothSizesAreNamedWithTheFirstArrayThatHasAnother) {
  const Catalog files = files_of("qwen3", {{"intermediate_size", Json(28)}});
  const CompiledModel model = compile_model(files, {});
  Catalog tree = tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  tree.wording.array = "array";
  const std::string config = files_of("qwen3").config_text;
  const Described described = describe_model(tree, config, "c.json", {});
  const Error error = catch_error([&] { check_sizes(tree, described, config, "c.json", {}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.file(), "c.json");
  EXPECT_EQ(error.tensor(), "params.params.decoder.layers.mlp.wi_0.kernel");
  EXPECT_EQ(error.sentence(), "the array has 26x3x28, and the model of config.json has 26x3x14");
  EXPECT_EQ(error.hint_text(), "set \"intermediate_size\": 28 in config.json");
}

TEST(CheckSizes, AKeyOfTheTextPartIsFound) {
  const auto text_of = [](int rows, int width) {
    Json config = family_info("gemma3").example;
    Json& text = config.find("text_config") != nullptr ? config["text_config"] : config;
    text["vocab_size"] = Json(rows);
    text["intermediate_size"] = Json(width);
    return config;
  };
  Catalog files = files_of("gemma3", text_of(128, 32).object());
  const CompiledModel model = compile_model(files, {});
  const Catalog tree =
      tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
  const auto hint_for = [&](int rows, int width) {
    const std::string config = dump_json(text_of(rows, width));
    const Described described = describe_model(tree, config, "config.json", {});
    return catch_error([&] { check_sizes(tree, described, config, "config.json", {}); })
        .hint_text();
  };
  EXPECT_EQ(hint_for(160, 32), "set \"vocab_size\": 128 in config.json");
  EXPECT_EQ(hint_for(128, 48), "set \"intermediate_size\": 32 in config.json");
}

}  // namespace
}  // namespace hfshard
