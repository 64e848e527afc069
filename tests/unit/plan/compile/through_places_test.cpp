#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/plan/compile/ways.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(CompileThrough, TensorsFromDifferentPlacesOfTheirArraysAreTakenOneByOne) {
  struct Place {
    const char* what;
    IndexMap map;
    Shape array;
    IndexMap rest;
  };
  for (const Place& place :
       {Place{"every other element", {0, 0, {{2, 2, 1}}}, {4}, {1, 0, {{2, 2, 1}}}},
        Place{"the last elements", {2, 0, {{2, 1, 1}}}, {4}, {0, 0, {{2, 1, 1}}}},
        Place{"an array of another shape", {0, 0, {{2, 1, 1}}}, {5}, {2, 0, {{3, 1, 1}}}}}) {
    SCOPED_TRACE(place.what);
    HandMade made;
    made.tree.remove("z").get("x").shape = {4};
    made.tree.get("y").shape = place.array;
    for (const std::uint32_t i : {0U, 1U}) {
      made.tensor("t", {2});
      made.part(i, i, 0);
    }
    made.back.transfers[0].map = {0, 0, {{2, 1, 1}}};
    made.drop(0, {2, 0, {{2, 1, 1}}});
    made.back.transfers[1].map = place.map;
    made.drop(1, place.rest);
    made.onward(2, 2);
    const CompiledModel through = made.through();
    ASSERT_EQ(through.transfers.size(), 2U);
    EXPECT_TRUE(made.is_right(through));
    EXPECT_EQ(through.transfers[0].source_shape, (Shape{4}));
    EXPECT_EQ(through.transfers[1].source_shape, place.array);
  }
}

TEST(CompileThrough, PlacesAtUnevenDistancesInOneArrayAreNoLoop) {
  for (const std::uint64_t last : {4U, 6U}) {
    HandMade made;
    made.tree.remove("y").remove("z").get("x").shape = {8};
    for (const std::uint32_t i : {0U, 1U, 2U}) {
      made.tensor("t", {2});
      made.part(i, 0, 0);
      made.back.transfers[i].map = {i == 2 ? last : 2 * std::uint64_t{i}, 0, {{2, 1, 1}}};
    }
    made.drop(0, {10 - last, 0, {{2, 1, 1}}});
    made.onward(3, 2);
    const CompiledModel through = made.through();
    EXPECT_EQ(through.transfers.size(), last == 4 ? 1U : 3U);
    EXPECT_TRUE(made.is_right(through));
  }
}

TEST(CompileThrough, OnlyTheTensorThatIsACopyIsTakenAsOne) {
  HandMade made;
  made.tree.remove("z");
  for (const std::uint32_t i : {0U, 1U}) {
    made.tensor("t", {2});
    made.part(i, i, 0);
  }
  made.back.transfers[1].copy = true;
  made.drop(1, {0, 0, {{2, 1, 1}}});
  made.onward(2, 2);
  const CompiledModel through = made.through();
  ASSERT_EQ(through.transfers.size(), 2U);
  EXPECT_FALSE(through.transfers[0].copy);
  EXPECT_TRUE(through.transfers[1].copy);
}

// Leaves a tensor's elements out of the leaf.
void leave_out(HandMade& made, std::uint32_t tensor, std::optional<std::uint32_t> same_as = {}) {
  Drop drop;
  drop.source = tensor;
  drop.map = {0, 0, {{2, 1, 0}}};
  drop.why = "no place";
  drop.same_as = same_as;
  made.forward.drops.push_back(drop);
}

// Three tensors. The last two are halves of one array, and the leaf has only the first.
HandMade with_halves(std::optional<std::uint32_t> same_as = {}) {
  HandMade made;
  made.tree.remove("z").get("y").shape = {4};
  for (const std::uint32_t i : {0U, 1U, 2U}) {
    made.tensor("t", {2});
    made.part(i, i == 0 ? 0 : 1, 0);
    made.back.transfers[i].map = {i == 2 ? 2U : 0U, 0, {{2, 1, 1}}};
    if (i > 0) leave_out(made, i, same_as);
  }
  made.onward(1, 2);
  return made;
}

// The array has its elements once, and another rule reads them.
TEST(CompileThrough, ATensorThatWasMadeAsACopyIsLeftOutWithoutADrop) {
  HandMade made;
  made.tree.remove("y").remove("z");
  for (const std::uint32_t i : {0U, 1U}) {
    made.tensor("t", {2});
    made.part(i, 0, 0);
  }
  made.back.transfers[1].copy = true;
  leave_out(made, 1);
  made.onward(1, 2);
  const CompiledModel through = made.through();
  EXPECT_EQ(through.transfers.size(), 1U);
  EXPECT_TRUE(through.drops.empty());
  EXPECT_TRUE(made.is_right(through));
}

TEST(CompileThrough, TensorsOfOneArrayThatEqualAnotherOneAreOneClaim) {
  const CompiledModel through = with_halves(0).through();
  ASSERT_EQ(through.drops.size(), 2U);
  EXPECT_EQ(through.drops[0].why, "no place");
  EXPECT_EQ(through.drops[1].map.src_base, 2U);
  ASSERT_NE(through.claims, nullptr);
  ASSERT_EQ(through.claims->leaves.size(), 1U);
  EXPECT_EQ(through.claims->leaves[0].name, "y");
  ASSERT_EQ(through.claims->transfers.size(), 2U);
  EXPECT_EQ(through.claims->transfers[0].sources, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(through.claims->transfers[1].map.dst_base, 2U);
  EXPECT_EQ(with_halves().through().claims, nullptr);
}

// A user who accepts a loss doesn't want it compared.
TEST(CompileThrough, AnAcceptedLossIsNotClaimedEqual) {
  const HandMade made = with_halves(0);
  const CompiledModel through = compile_through(made.back, made.forward, made.tree, {"y"});
  EXPECT_EQ(through.claims, nullptr);
  ASSERT_EQ(through.drops.size(), 2U);
  for (const Drop& drop : through.drops) EXPECT_EQ(through.rules.at(drop.rule), "--drop");
  EXPECT_NE(through.drops[0].why, "no place");
}

// Returns what is dropped, from which place, why and by which rule.
std::vector<std::string> drops_of(const HandMade& made, const CompiledModel& model) {
  std::vector<std::string> out;
  for (const Drop& drop : model.drops) {
    out.push_back(fmt::format("{} from {}: {} by {}", made.tree.tensors.at(drop.source).name,
                              drop.map.src_base, drop.why, model.rules.at(drop.rule)));
  }
  return out;
}

TEST(CompileThrough, DropsOfEitherWayHaveTheirOwnRuleAndReason) {
  HandMade made;
  made.tree.get("z").shape = {4};
  for (const std::uint32_t i : {0U, 1U}) {
    made.tensor("t", {2});
    made.part(i, i == 0 ? 0 : 2, 0);
  }
  made.back.transfers[1].map = {2, 0, {{2, 1, 1}}};
  made.drop(1, {0, 0, {{2, 1, 0}}});
  made.back.drops.back().why = "in the export";
  made.drop(2, {0, 0, {{2, 1, 0}}});
  made.back.drops.back().why = "a half";
  leave_out(made, 1);
  made.onward(1, 2);
  made.back.left_out_leaves = 2;
  made.forward.left_out_leaves = 3;
  made.back.config_text = "{}";
  const CompiledModel through = made.through();
  EXPECT_EQ(drops_of(made, through),
            (std::vector<std::string>{"y from 0: in the export by back", "z from 0: a half by back",
                                      "z from 2: no place by forward"}));
  EXPECT_EQ(through.left_out_leaves, 5U);
  EXPECT_EQ(through.config_text, "{}") << "the second model adds none";
  made.forward.config_text = "[]";
  EXPECT_EQ(made.through().config_text, "[]");
}

// Only removed layers aren't in the config of the leaves.
TEST(CompileThrough, TensorsThatAreDroppedForAnotherReasonStayInTheModelBetween) {
  HandMade made;
  made.tree.remove("z");
  for (const std::uint32_t i : {0U, 1U}) {
    made.tensor(i == 0 ? "t0" : "t1", {2});
    made.part(i, i, 0);
  }
  leave_out(made, 1);
  made.onward(1, 2);
  EXPECT_EQ(made.through().through.size(), 2U);
  made.forward.rules.emplace_back("--num-layers");
  made.forward.drops.back().rule = 1;
  const CompiledModel cut = made.through();
  ASSERT_EQ(cut.through.size(), 1U);
  EXPECT_EQ(cut.through[0].name, "t0");
}

TEST(CompileThrough, ATwinIsClaimedThroughTheValuesOfBothTensors) {
  HandMade made;
  made.tree.remove("z");
  Value twice;
  twice.mul = 2.0F;
  Value more;
  more.add = 3.0F;
  made.tensor("t", {2});
  made.part(0, 0, 0, twice);
  made.tensor("u", {2});
  made.part(1, 1, 0, more);
  leave_out(made, 1, 0);
  made.onward(1, 2);
  const CompiledModel through = made.through();
  ASSERT_NE(through.claims, nullptr);
  ASSERT_EQ(through.claims->transfers.size(), 1U);
  EXPECT_EQ(through.claims->rules.at(through.claims->transfers[0].rule), "forward");
  const Value& value = through.claims->transfers[0].value;
  EXPECT_EQ(value.mul, 2.0F);
  EXPECT_EQ(value.add, -3.0F);
  EXPECT_EQ(through.transfers.at(0).value, twice);
}

TEST(CompileThrough, ALossIsAcceptedOnlyForArraysThatExist) {
  const HandMade made = with_halves();
  const Error error = catch_error([&] {
    compile_through(made.back, made.forward, made.tree, {"y", "nothing*"});
  });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--drop \"nothing*\" doesn't match any tensor");
}

TEST(CompileThrough, ClaimsOfTheExportKeepTheirOwnRules) {
  HandMade made = with_halves(0);
  CompiledModel claims;
  claims.rules = {"other", "export"};
  Leaf& leaf = claims.leaves.emplace_back();
  leaf.name = "x";
  leaf.shape = {2};
  Fill& fill = claims.fills.emplace_back();
  fill.rule = 1;
  fill.map = {0, 0, {{1, 0, 1}}};
  Transfer& transfer = claims.transfers.emplace_back();
  transfer.rule = 1;
  transfer.sources = {0};
  transfer.source_shape = {2};
  transfer.map = {1, 1, {}};
  made.back.claims = std::make_shared<const CompiledModel>(claims);
  const CompiledModel through = made.through();
  ASSERT_NE(through.claims, nullptr);
  const CompiledModel& all = *through.claims;
  ASSERT_EQ(all.leaves.size(), 2U);
  EXPECT_EQ(all.leaves[1].name, "x");
  ASSERT_EQ(all.fills.size(), 1U);
  EXPECT_EQ(all.fills[0].target, 1U);
  EXPECT_EQ(all.rules.at(all.fills[0].rule), "export");
  EXPECT_EQ(all.transfers.back().target, 1U);
  EXPECT_EQ(all.rules.at(all.transfers.back().rule), "export");
}

}  // namespace
}  // namespace hfshard
