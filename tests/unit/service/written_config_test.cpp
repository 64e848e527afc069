#include "service/written_config.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace hfshard {
namespace {

Leaf leaf_with(const std::string& name, DType dtype, const Shape& shape) {
  Leaf leaf;
  leaf.name = name;
  leaf.dtype = dtype;
  leaf.shape = shape;
  return leaf;
}

// One large tensor counts more than many small ones.
TEST(WriteDtype, ItIsTheOneOfMostElements) {
  Catalog source;
  source.config_text = R"({"dtype": "float16", "vision_config": {"dtype": "float16"}})";
  CompiledModel model;
  model.leaves = {leaf_with("a", DType::bf16, {3}),       leaf_with("b", DType::bf16, {3}),
                  leaf_with("c", DType::f32, {5, 4}),     leaf_with("visual.a", DType::f32, {2}),
                  leaf_with("visual.b", DType::f32, {2}), leaf_with("visual.c", DType::bf16, {5})};
  write_dtype(source, {}, model);
  EXPECT_EQ(parse_json(model.config_text, "config.json"),
            parse_json(R"({"dtype": "float32", "vision_config": {"dtype": "bfloat16"}})", ""));
}

// transformers reads the flag of text_config, whose default can be true.
TEST(WriteUntied, AConfigOfTextIsUntiedWithoutAFlagToo) {
  Catalog source;
  source.config_text = R"({"text_config": {"a": 1}, "vision_config": {"b": 2}})";
  MappingOptions mapping;
  mapping.untie = true;
  CompiledModel model;
  write_untied(mapping, source, model);
  const Json written = parse_json(model.config_text, "config.json");
  EXPECT_EQ(written.at("text_config").at("tie_word_embeddings"), Json(false));
  EXPECT_EQ(written.at("vision_config"), parse_json(R"({"b": 2})", ""));
}

}  // namespace
}  // namespace hfshard
