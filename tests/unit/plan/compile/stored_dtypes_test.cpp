#include "plan/compile/stored_dtypes.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

const std::string kMixedQuery = "model.layers.1.self_attn.q_proj.weight";

FakeCatalog plain_qwen3(const Json::Object& replaced = {}) {
  return FakeCatalog::of("qwen3", example_config("qwen3", replaced));
}

FakeCatalog mixed_qwen3() {
  FakeCatalog out = plain_qwen3();
  out.get(kMixedQuery).dtype = DType::f32;
  return out;
}

CompiledModel compile_mixed(const Catalog& catalog, const MappingOptions& options = {}) {
  return compile_model(catalog, options);
}

Error mixed_failure(const Catalog& catalog, const MappingOptions& options = {}) {
  return catch_error([&] { compile_model(catalog, options); });
}

MappingOptions separate_layers() {
  MappingOptions options;
  options.stacked = false;
  return options;
}

// Returns the dtypes and numbers of sources for the transfers of a leaf.
std::vector<std::pair<DType, std::size_t>> dtypes_of_sources(const CompiledModel& model,
                                                             std::string_view path) {
  std::vector<std::pair<DType, std::size_t>> out;
  for (const Transfer& transfer : model.transfers) {
    if (model.leaves[transfer.target].name.ends_with(path))
      out.emplace_back(transfer.source_dtype, transfer.sources.size());
  }
  return out;
}

TEST(StoredDTypes, LayersOfDifferentDtypesAreStackedInOneDtype) {
  FakeCatalog catalog = plain_qwen3();
  catalog.get(kMixedQuery).dtype = DType::f32;
  constexpr std::string_view kKernel = "decoder.layers.self_attention.query.kernel";
  const std::vector<std::pair<DType, std::size_t>> cut{
      {DType::bf16, 1}, {DType::f32, 1}, {DType::bf16, 1}};
  const CompiledModel by_config = compile_mixed(catalog);
  EXPECT_EQ(find_leaf(by_config, std::string(kKernel))->dtype, DType::bf16);
  EXPECT_EQ(dtypes_of_sources(by_config, kKernel), cut);
  EXPECT_EQ(by_config.notes,
            std::vector<std::string>{
                "1 stack of several dtypes is written in the dtype of config.json, that of "
                "\"model.layers.0.self_attn.q_proj.weight\" (bf16) and "
                "\"model.layers.1.self_attn.q_proj.weight\" (f32)"});
  FakeCatalog more = catalog;
  more.get("model.layers.2.self_attn.k_proj.weight").dtype = DType::f32;
  EXPECT_EQ(compile_mixed(more).notes,
            std::vector<std::string>{
                "2 stacks of several dtypes are written in the dtype of config.json, first that of "
                "\"model.layers.0.self_attn.k_proj.weight\" (bf16) and "
                "\"model.layers.2.self_attn.k_proj.weight\" (f32)"});
  MappingOptions options;
  options.dtype = DType::f32;
  const CompiledModel asked = compile_mixed(catalog, options);
  EXPECT_EQ(find_leaf(asked, std::string(kKernel))->dtype, DType::f32);
  EXPECT_EQ(dtypes_of_sources(asked, kKernel), cut);
  EXPECT_TRUE(asked.notes.empty());
  const CompiledModel model = compile_mixed(catalog, separate_layers());
  EXPECT_EQ(find_leaf(model, "decoder.layers_1.self_attention.query.kernel")->dtype, DType::f32);
}

TEST(StoredDTypes, TheConfigNamesTheDtypeOfAMixedStack) {
  const auto dtype = [](const Json::Object& stated) {
    FakeCatalog catalog = plain_qwen3(stated);
    catalog.get(kMixedQuery).dtype = DType::f32;
    return find_leaf(compile_mixed(catalog), "decoder.layers.self_attention.query.kernel")->dtype;
  };
  EXPECT_EQ(dtype({{"torch_dtype", "float16"}}), DType::f16);
  EXPECT_EQ(dtype({{"torch_dtype", "float32"}}), DType::f32);
  EXPECT_EQ(dtype({{"torch_dtype", "float32"}, {"dtype", "bfloat16"}}), DType::bf16);
  EXPECT_EQ(dtype({{"torch_dtype", "float32"}, {"dtype", "auto"}}), DType::f32);
}

TEST(StoredDTypes, LayersOfDifferentDtypesNeedADtypeThatSomethingNames) {
  FakeCatalog catalog = plain_qwen3({{"torch_dtype", Json()}});
  catalog.get(kMixedQuery).dtype = DType::f32;
  const Error error = mixed_failure(catalog);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), kMixedQuery);
  EXPECT_NE(error.hint_text().find("--dtype"), std::string::npos);
  MappingOptions keep;
  keep.keep_dtype = true;
  EXPECT_EQ(mixed_failure(mixed_qwen3(), keep).code(), ErrorCode::bad_input);
  keep.casts = {{"*.query.kernel", DType::f32}};
  const CompiledModel cast = compile_mixed(mixed_qwen3(), keep);
  EXPECT_EQ(find_leaf(cast, "decoder.layers.self_attention.query.kernel")->dtype, DType::f32);
  // FP8 becomes bf16 by default, like the other tensors.
  FakeCatalog coded = plain_qwen3({{"torch_dtype", Json()}});
  coded.get(kMixedQuery).dtype = DType::f8_e4m3;
  coded.add(kMixedQuery + "_scale", {1}, DType::f32);
  const CompiledModel model = compile_mixed(coded);
  EXPECT_EQ(dtypes_of_sources(model, "decoder.layers.self_attention.query.kernel"),
            (std::vector<std::pair<DType, std::size_t>>{
                {DType::bf16, 1}, {DType::f8_e4m3, 1}, {DType::bf16, 1}}));
}

}  // namespace
}  // namespace hfshard
