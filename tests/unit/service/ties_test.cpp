#include "service/ties.h"

#include <string>

#include <gtest/gtest.h>

#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

const std::string kTiedHead = "lm_head.weight";
const std::string kTiedTo = "model.embed_tokens.weight";

// Returns a model with a tied embedding that also stores the head.
Catalog tied_files(DType head, DType embedding) {
  Catalog out = files_of("qwen3", {{"tie_word_embeddings", Json(true)}});
  TensorInfo stored = out.tensors[*out.find(kTiedTo)];
  stored.name = kTiedHead;
  stored.dtype = head;
  out.tensors[*out.find(kTiedTo)].dtype = embedding;
  out.tensors.push_back(stored);
  std::ranges::sort(out.tensors, {}, &TensorInfo::name);
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

}  // namespace
}  // namespace hfshard
