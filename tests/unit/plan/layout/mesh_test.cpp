#include "plan/layout/mesh.h"

#include <string>

#include <gtest/gtest.h>

#include "mapping/tables/family.h"
#include "mapping/tables/scheme_defaults.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

AxisRules maxtext_rules() { return parse_axis_rules(default_axis_rules("maxtext"), "maxtext"); }

Leaf leaf_with_axes(Shape shape, std::vector<std::string> axes) {
  Leaf leaf;
  leaf.name = "params.params.x";
  leaf.shape = shape;
  leaf.axes = std::move(axes);
  leaf.stacked.assign(shape.rank(), false);
  return leaf;
}

TEST(Mesh, SplitsEmbedByFsdpAndExpertTogether) {
  const AxisRules rules = maxtext_rules();
  const Leaf leaf = leaf_with_axes({1024, 28, 3072}, {"embed", "layers", "mlp"});
  EXPECT_EQ(shard_counts(leaf, rules, parse_mesh("fsdp=16,expert=2", rules)), (Shape{32, 1, 1}));
  EXPECT_EQ(shard_counts(leaf, rules, parse_mesh("fsdp=8,tensor=2", rules)), (Shape{8, 1, 2}));
}

TEST(Mesh, ARuleIsTakenWholeOrNotAtAllAndSizeOneAxesAreInUse) {
  // mlp takes fsdp_transpose (size 1 here), so embed falls to its second rule.
  const auto spec = logical_to_mesh_axes({"embed", "mlp"}, maxtext_rules());
  EXPECT_EQ(spec[0],
            (std::vector<std::string>{"fsdp", "context", "context_usp_ulysses", "expert"}));
}

TEST(Mesh, RefusesADimensionThatDoesNotDivideAndNamesIt) {
  const AxisRules rules = maxtext_rules();
  const Error error = catch_error([&] {
    shard_counts(leaf_with_axes({50, 20}, {"vocab", "embed_vocab"}), rules,
                 parse_mesh("fsdp=16", rules));
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "params.params.x");
  EXPECT_NE(error.sentence().find("fsdp=16"), std::string::npos);
}

TEST(Mesh, SizesWhoseProductOverflowsDoNotDivide) {
  const AxisRules rules = maxtext_rules();
  const Mesh mesh = parse_mesh("fsdp=4294967296,expert=4294967296", rules);
  for (const bool uneven : {false, true}) {
    const Error error = catch_error([&] {
      shard_counts(leaf_with_axes({64, 20}, {"embed", ""}), rules, mesh, uneven);
    });
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << uneven;
  }
}

TEST(Mesh, NoAxisMakesUpForAProductThatOverflows) {
  const AxisRules rules = parse_axis_rules(R"([["embed", ["x", "y", "z"]]])", "test");
  const Mesh mesh = parse_mesh("x=1099511627776,y=1099511627776,z=2", rules);
  const Leaf leaf = leaf_with_axes({std::uint64_t{1} << 41}, {"embed"});
  for (const bool uneven : {false, true}) {
    const Error error = catch_error([&] { shard_counts(leaf, rules, mesh, uneven); });
    EXPECT_EQ(error.sentence(),
              "dimension 0 (embed) of 2199023255552 is 2199023255552, which "
              "x=1099511627776,y=1099511627776,z=2 doesn't divide");
  }
}

TEST(Mesh, AnAxisMayBeNamedByWhereItLies) {
  EXPECT_EQ(axis_on_mesh({"x", "y"}), "mesh:x+y");
  EXPECT_EQ(mesh_axes_of("mesh:x+y"), (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(mesh_axes_of("mesh:").empty());
  EXPECT_TRUE(mesh_axes_of("embed").empty());
  Leaf leaf;
  leaf.shape = {24, 10};
  leaf.axes = {"mesh:x+y", ""};
  AxisRules rules;
  add_mesh_rules({leaf, leaf}, rules);
  ASSERT_EQ(rules.rules.size(), 1U);
  const Mesh mesh = parse_mesh("x=2,y=3", rules);
  EXPECT_EQ(shard_counts(leaf, rules, mesh), (Shape{6, 1}));
}

TEST(Mesh, UnknownAndRepeatedAxesAreUsageErrors) {
  const AxisRules rules = maxtext_rules();
  const Error unknown = catch_error([&] { parse_mesh("fdsp=16", rules); });
  EXPECT_EQ(unknown.code(), ErrorCode::usage);
  EXPECT_EQ(unknown.sentence(), "unknown mesh axis \"fdsp\"");
  EXPECT_NE(unknown.hint_text().find("fsdp"), std::string::npos);
  EXPECT_EQ(catch_error([&] { parse_mesh("fsdp=2,fsdp=4", rules); }).code(), ErrorCode::usage);
  EXPECT_EQ(catch_error([&] { parse_mesh("fsdp=0", rules); }).code(), ErrorCode::usage);
  EXPECT_EQ(catch_error([&] { parse_mesh("fsdp=2x", rules); }).code(), ErrorCode::usage);
}

TEST(Mesh, RulesWithoutMeshAxesHaveNoMesh) {
  const AxisRules rules = parse_axis_rules(R"([["embed", []]])", "rules.json");
  const Error error = catch_error([&] { parse_mesh("fsdp=2", rules); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "the axis rules have no mesh axes, so \"fsdp=2\" is no mesh");
  EXPECT_EQ(error.hint_text(),
            R"(name mesh axes in the file of --rules, such as ["embed", ["fsdp"]])");
}

TEST(Mesh, AKnownAxisWithoutASizeOrWithTooLargeAOneIsNamed) {
  const AxisRules rules = maxtext_rules();
  for (const std::string part : {"fsdp", "fsdp=", "fsdp=18446744073709551616", "fsdp=-1"}) {
    const Error error = catch_error([&] { parse_mesh(part, rules); });
    EXPECT_EQ(error.code(), ErrorCode::usage) << part;
    EXPECT_EQ(error.sentence(), "mesh axis \"" + part + "\" needs a whole number of at least 1");
  }
}

// The axes of a stored mesh are known by name alone. No dimension of a leaf is on them.
TEST(Mesh, AxesOfAStoredMeshDoNotSplitADimensionWithoutAName) {
  AxisRules rules;
  add_mesh_axes({"x", "y"}, rules);
  add_mesh_rules({leaf_with_axes({6, 4}, {"mesh:y", ""})}, rules);
  const Mesh mesh = parse_mesh("x=2,y=3", rules);
  EXPECT_EQ(shard_counts(leaf_with_axes({6, 4}, {"", "mesh:y"}), rules, parse_mesh("y=2", rules)),
            (Shape{1, 2}));
  EXPECT_EQ(shard_counts(leaf_with_axes({6, 4}, {"mesh:y", ""}), rules, mesh), (Shape{3, 1}));
}

TEST(Mesh, AnUnevenMeshMayLeaveARest) {
  const AxisRules rules = maxtext_rules();
  const Leaf leaf = leaf_with_axes({10, 6}, {"embed", "mlp"});
  const Mesh mesh = parse_mesh("fsdp=4,tensor=3", rules);
  EXPECT_EQ(shard_counts(leaf, rules, mesh, true), (Shape{4, 3}));
  EXPECT_EQ(catch_error([&] { shard_counts(leaf, rules, mesh); }).code(), ErrorCode::bad_input);
}

TEST(Mesh, AnErrorInARuleHasItsIndex) {
  const Error error = catch_error([] { parse_axis_rules(R"([["a", ["x"]], ["b"]])", "r.json"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.rule(), "r.json#/1");
}

TEST(Mesh, OnlyAxesThatSplitAreNamedInARefusal) {
  const AxisRules rules = maxtext_rules();
  const Leaf leaf = leaf_with_axes({4, 50}, {"mlp", "embed"});
  const Error error = catch_error(
      [&] { shard_counts(leaf, rules, parse_mesh("fsdp=4,expert=1,tensor=2", rules)); });
  EXPECT_EQ(error.sentence(), "dimension 1 (embed) of 4x50 is 50, which fsdp=4 doesn't divide");
  EXPECT_EQ(error.hint_text(),
            "pass a mesh whose sizes divide every dimension; loaders also refuse this mesh");
}

TEST(Mesh, ALeafWithoutNamesForItsLastAxesIsNotSplitThere) {
  const AxisRules rules = maxtext_rules();
  const Mesh mesh = parse_mesh("fsdp=2", rules);
  EXPECT_EQ(shard_counts(leaf_with_axes({8, 3, 5}, {"embed"}), rules, mesh), (Shape{2, 1, 1}));
  EXPECT_EQ(shard_counts(leaf_with_axes({8, 3}, {}), rules, mesh), (Shape{1, 1}));
}

TEST(Mesh, HintsSayHowAMeshIsWritten) {
  const AxisRules rules = parse_axis_rules(R"([["embed", ["y", "x"]], ["mlp", ["x"]]])", "test");
  EXPECT_EQ(rules.mesh_axes(), (std::vector<std::string>{"x", "y"}));
  const Error word = catch_error([&] { parse_mesh("8", rules); });
  EXPECT_EQ(word.sentence(), "a mesh needs axes with sizes, not \"8\"");
  EXPECT_EQ(word.hint_text(), "pass axes such as fsdp=8,tensor=4; the axes are x, y");
  EXPECT_EQ(catch_error([&] { parse_mesh("x=two", rules); }).hint_text(),
            "pass x=16, not \"x=two\"");
  const Error twice = catch_error([&] { parse_mesh("x=2,y=1,x=2", rules); });
  EXPECT_EQ(twice.sentence(), "mesh axis \"x\" appears twice in \"x=2,y=1,x=2\"");
  EXPECT_EQ(twice.hint_text(), "name each axis once; for several meshes, repeat --mesh");
  EXPECT_EQ(to_string(parse_mesh("y=3,x=1", rules)), "y=3,x=1");
  EXPECT_EQ(parse_mesh("y=3", rules).size_of("x"), 1U);
}

TEST(Mesh, AnAxisRuleIsAPairOfANameAndAList) {
  for (const char* text : {R"([["a"]])", R"([["a", ["x"], ["y"]]])"}) {
    const Error error = catch_error([&] { parse_axis_rules(text, "r.json"); });
    EXPECT_EQ(error.sentence(), "an axis rule must be a pair");
    EXPECT_EQ(error.file(), "r.json");
    EXPECT_EQ(error.rule(), "r.json#/0");
  }
}

// A later leaf can only make it smaller.
TEST(Mesh, TheDefaultFollowsEveryLeafAndEveryAxis) {
  const AxisRules rules = maxtext_rules();
  EXPECT_EQ(to_string(default_mesh(
                {leaf_with_axes({8, 3}, {"embed", ""}), leaf_with_axes({3, 64}, {"", "embed"}),
                 leaf_with_axes({3, 4}, {"", "norm"})},
                rules)),
            "fsdp=8");
}

TEST(Mesh, TheDefaultIsTheLargestPowerOfTwoThatDividesEveryEmbedDim) {
  const AxisRules rules = maxtext_rules();
  EXPECT_EQ(to_string(default_mesh({leaf_with_axes({20, 3}, {"embed", ""})}, rules)), "fsdp=4");
  EXPECT_EQ(to_string(default_mesh({leaf_with_axes({1024, 3}, {"embed", ""})}, rules)), "fsdp=16");
  EXPECT_EQ(to_string(default_mesh({leaf_with_axes({21, 3}, {"", "norm"})}, rules)), "");
  EXPECT_EQ(to_string(default_mesh({leaf_with_axes({21, 3}, {"embed", ""})}, rules)), "");
}

}  // namespace
}  // namespace hfshard
