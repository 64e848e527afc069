#include "plan/compile/model.h"

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "unit/plan/unread_arrays.h"

namespace hfshard {
namespace {

// A tree with many arrays of one element.
class ManyArrays final : public UnreadArrays {
 public:
  ManyArrays() {
    for (int i = 0; i < 1000; ++i) {
      TensorInfo& info = catalog_.tensors.emplace_back();
      info.name = fmt::format("params.params.decoder.layers.some.array.number.{:04}", i);
      info.shape = {1};
    }
  }
};

// Returns a model that writes or claims the first array from the second one.
CompiledModel compiled_one(const Catalog& catalog) {
  CompiledModel out;
  out.rules = {"rule"};
  Leaf& leaf = out.leaves.emplace_back();
  leaf.name = catalog.tensors[0].name;
  leaf.shape = {1};
  Transfer& transfer = out.transfers.emplace_back();
  transfer.sources = {1};
  transfer.source_shape = {1};
  transfer.map.digits = {{1, 1, 1}};
  return out;
}

TEST(Model, ItsClaimsAddNoCopyOfTheSource) {
  const auto source = std::make_shared<const ManyArrays>();
  const auto plain = make_model(source, compiled_one(source->catalog()));
  CompiledModel compiled = compiled_one(source->catalog());
  compiled.claims = std::make_shared<const CompiledModel>(compiled_one(source->catalog()));
  const auto claiming = make_model(source, std::move(compiled));
  ASSERT_NE(claiming->held(), nullptr);
  EXPECT_EQ(claiming->source_heap_bytes(), plain->source_heap_bytes());
  EXPECT_GT(claiming->heap_bytes(), plain->heap_bytes());
  EXPECT_LT(claiming->heap_bytes(), plain->heap_bytes() + plain->source_heap_bytes());
}

}  // namespace
}  // namespace hfshard
