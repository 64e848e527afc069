#include "service/described.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/temp_dir.h"
#include "support/test_data.h"

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

}  // namespace
}  // namespace hfshard
