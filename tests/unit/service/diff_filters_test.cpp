// Runs can differ besides their arrays: in steps, metadata of the root, and other items.

#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_around_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST_F(DiffAroundTest, AFilterCanSelectObjectsOnly) {
  const std::string a = write_objects(dir_ / "a", {{"b", "one"}, {"only", "1"}});
  const std::string b = write_objects(dir_ / "b", {{"b", "one"}});
  DiffOptions options;
  options.include = {"b"};
  const DiffResult same = compare(a, b, options);
  EXPECT_TRUE(same.equal());
  EXPECT_EQ(same.compared_objects, 1U);
  EXPECT_EQ(same.compared_tensors, 0U);
  options.include = {"only"};
  EXPECT_TRUE(differs(compare(a, b, options), "only", StructureDiff::Kind::only_a));
}

TEST_F(DiffAroundTest, AFilterAlsoSelectsNodesAndKeys) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  add_none(a);
  DiffOptions options;
  EXPECT_TRUE(differs(compare(a, b), "note", StructureDiff::Kind::only_a));
  options.exclude = {"note"};
  EXPECT_TRUE(compare(a, b, options).equal());
  options.exclude.clear();
  options.include = {"note"};  // a node, and no array
  const DiffResult found = compare(a, b, options);
  EXPECT_EQ(found.compared_tensors, 0U);
  EXPECT_TRUE(differs(found, "note", StructureDiff::Kind::only_a));

  const std::string flat = write_torch(dir_ / "flat", {"n", "n.b", "opt.0.x", "opt.1.x"});
  const std::string tree = dir_ / "tree";
  hfshard::convert(flat, reshard_options("orbax"), run_to(tree), quiet_);
  make_list(tree, 2);
  options.include.clear();
  options.exclude = {"opt*"};
  EXPECT_TRUE(compare(flat, tree, options).equal());
  const std::string nested = dir_ / "nested";
  hfshard::convert(tree, reshard_options("dcp"), run_to(nested), quiet_);
  const DiffResult keys = compare(flat, nested);
  EXPECT_TRUE(differs(keys, "opt.0.x", StructureDiff::Kind::differs));
  EXPECT_TRUE(compare(flat, nested, options).equal());
}

TEST_F(DiffAroundTest, AFilterThatLeavesOutTheRootSkipsItsKind) {
  const std::string flat = write_torch(dir_ / "flat", {"0.x", "1.x"});
  const std::string tree = dir_ / "tree";
  hfshard::convert(flat, reshard_options("orbax"), run_to(tree), quiet_);
  make_list(tree, 1);
  DiffOptions options;
  options.include = {"0.x"};
  const DiffResult found = compare(flat, tree, options);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.compared_tensors, 1U);
}

TEST_F(DiffAroundTest, AFilterThatLeavesOutEverythingIsAnError) {
  DiffOptions options;
  options.exclude = {"*"};
  EXPECT_EQ(catch_error([&] { compare(source_, source_, options); }).code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace hfshard
