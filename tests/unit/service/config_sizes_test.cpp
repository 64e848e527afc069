#include "service/config_sizes.h"

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

}  // namespace
}  // namespace hfshard
