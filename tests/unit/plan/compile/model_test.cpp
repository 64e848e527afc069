#include "plan/compile/model.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

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

TEST(Model, LeavesAndKeptObjectsHaveNames) {
  Catalog catalog;
  for (const char* name : {"a", "c", "e"}) {
    ObjectInfo& object = catalog.objects.emplace_back();
    object.name = name;
    object.range = {2, 10};
  }
  CompiledModel compiled;
  for (const char* name : {"b", "d"}) compiled.leaves.emplace_back().name = name;
  compiled.objects = {0, 2};
  const auto model = make_model(std::move(catalog), std::move(compiled));
  for (const char* name : {"a", "b", "d", "e"}) EXPECT_TRUE(model->has_name(name)) << name;
  for (const char* name : {"c", "", "f", "bb"}) EXPECT_FALSE(model->has_name(name)) << name;
  EXPECT_EQ(model->object_bytes(), 16U);
}

TEST(Model, ItemsAreListedByTheLeafThatTheyWrite) {
  CompiledModel compiled;
  compiled.leaves.resize(3);
  for (const std::uint32_t target : {2U, 0U, 2U}) {
    Transfer& transfer = compiled.transfers.emplace_back();
    transfer.target = target;
    transfer.sources.resize(target + 1);
  }
  for (const std::uint32_t target : {1U, 2U}) compiled.fills.emplace_back().target = target;
  const auto model = make_model(Catalog(), std::move(compiled));
  const auto list = [](std::span<const std::uint32_t> items) {
    return std::vector<std::uint32_t>(items.begin(), items.end());
  };
  EXPECT_EQ(list(model->transfers_of(0)), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(list(model->transfers_of(1)), std::vector<std::uint32_t>{});
  EXPECT_EQ(list(model->transfers_of(2)), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(list(model->fills_of(0)), std::vector<std::uint32_t>{});
  EXPECT_EQ(list(model->fills_of(1)), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(list(model->fills_of(2)), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(model->leading_to(2).size(), 2U);
  EXPECT_EQ(model->digest_slot(2, 1), 5U) << "after three and one sources";
  EXPECT_EQ(model->digest_slots(), 7U);
}

}  // namespace
}  // namespace hfshard
