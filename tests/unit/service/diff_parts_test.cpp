#include "service/diff_parts.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "service/diff_compile.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"
#include "unit/service/named_checkpoint.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

using Notes = std::vector<std::string>;

CompiledModel model_named(const std::vector<std::string>& names) {
  CompiledModel out;
  for (const std::string& name : names) out.leaves.emplace_back().name = name;
  return out;
}

// Returns the notes on tensors that are dropped by these rules. They are named a, b, c...
Notes notes_of_drops(const std::vector<std::string>& rules) {
  Catalog catalog = catalog_named({"a", "b", "c", "d"});
  catalog.wording.array = "tensor";
  catalog.wording.arrays = "tensors";
  CompiledModel model;
  model.rules = rules;
  for (std::uint32_t i = 0; i < rules.size(); ++i) {
    Drop& drop = model.drops.emplace_back();
    drop.source = i;
    drop.rule = i;
  }
  SidesTogether out;
  note_drops(model, catalog, "B", "tree", out);
  return out.notes;
}

TEST(NoteDrops, TensorsThatTheUserLeavesOutAreToldFromThoseWithoutAPlace) {
  EXPECT_EQ(notes_of_drops({}), Notes());
  EXPECT_EQ(notes_of_drops({"--exclude"}),
            Notes{"not compared, because the conversion or --exclude leaves it out: \"a\" of B"});
  EXPECT_EQ(notes_of_drops({"rule"}),
            Notes{"not compared in full, because the tree has no place for them: 1 tensor of B "
                  "(a)"});
  EXPECT_EQ(notes_of_drops({"--exclude", "rule", "--exclude", "--drop"}),
            (Notes{"not compared, because the conversion or --exclude leaves them out: \"a\", "
                   "\"c\" of B",
                   "not compared in full, because the tree has no place for them: 2 tensors of B "
                   "(b, ...)"}));
}

// Several regions of one tensor can be dropped.
TEST(NoteDrops, ATensorIsCountedOnce) {
  Catalog catalog = catalog_named({"a"});
  catalog.wording.array = "leaf";
  CompiledModel model;
  model.rules = {"rule"};
  model.drops.resize(2);
  SidesTogether out;
  note_drops(model, catalog, "A", "model", out);
  EXPECT_EQ(
      out.notes,
      Notes{"not compared in full, because the model has no place for them: 1 leaf of A (a)"});
}

// The step is hfshard's own, so it isn't counted.
TEST(LeaveOutOthers, LeavesBelowOtherKeysAreLeftOutAndCounted) {
  const std::vector<Leaf> parameters = model_named({"params.a", "params.b"}).leaves;
  const auto left = [&](const std::vector<std::string>& names) {
    CompiledModel tree = model_named(names);
    SidesTogether out;
    leave_out_others(parameters, "B", tree, out);
    std::vector<std::string> kept;
    for (const Leaf& leaf : tree.leaves) kept.push_back(leaf.name);
    return std::pair(kept, out.notes);
  };
  const std::string note = "not compared, because they aren't parameters of the model: ";
  EXPECT_EQ(left({"params.c", "step"}), (std::pair<Notes, Notes>{{"params.c"}, {}}));
  EXPECT_EQ(left({"opt.a", "params.a", "step"}),
            (std::pair<Notes, Notes>{{"params.a"}, {note + "1 array of B"}}));
  EXPECT_EQ(left({"opt.a", "opt.b", "params.a"}),
            (std::pair<Notes, Notes>{{"params.a"}, {note + "2 arrays of B"}}));
}

TEST(SharedLeaves, EachModelMustLackSomeLeafOfTheOther) {
  const CompiledModel ab = model_named({"a", "b"});
  const CompiledModel abc = model_named({"a", "b", "c"});
  const CompiledModel bd = model_named({"b", "d"});
  EXPECT_EQ(shared_leaves(ab, abc), 2U);
  EXPECT_EQ(shared_leaves(abc, bd), 1U);
  EXPECT_FALSE(each_has_own(ab, abc));
  EXPECT_FALSE(each_has_own(abc, ab));
  EXPECT_TRUE(each_has_own(abc, bd));
  EXPECT_EQ(shared_names(catalog_named({"a", "b"}), catalog_named({"b", "c"})), 1U);
  EXPECT_EQ(shared_names(abc.leaves, catalog_named({"a", "c", "d"})), 2U);
}

TEST(TreeOptionsOfDiff, TheConfigOfTheCommandLineComesFirst) {
  DiffOptions options;
  EXPECT_FALSE(tree_options(options, "").config_text);
  const TreeOptions own = tree_options(options, "{}");
  EXPECT_EQ(own.config_text, "{}");
  EXPECT_EQ(own.config_name, "config.json");
  options.config_text = "[]";
  options.config_name = "dir/config.json";
  const TreeOptions given = tree_options(options, "{}");
  EXPECT_EQ(given.config_text, "[]");
  EXPECT_EQ(given.config_name, "dir/config.json");
}

// Options that choose dtypes or tensors make real differences.
TEST(KnownMapping, OnlyOptionsThatNameArraysAreKept) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  DiffSide side;
  side.place = StorePath(source);
  EXPECT_FALSE(known_mapping(side)) << "no record";
  PlanOptions options;
  options.target = "dcp";
  options.mapping.stacked = false;
  options.mapping.dtype = DType::f32;
  options.mapping.casts = {{"*norm*", DType::f16}};
  options.mapping.include = {"model.*"};
  options.mapping.exclude = {"model.norm.weight"};
  convert(source, options, to_output(dir / "tree"), quiet);
  side.place = StorePath(dir / "tree");
  const auto known = known_mapping(side);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->scheme, "maxtext");
  EXPECT_FALSE(known->stacked);
  EXPECT_TRUE(known->flat_names);
  EXPECT_FALSE(known->dtype);
  EXPECT_TRUE(known->casts.empty());
  EXPECT_TRUE(known->include.empty());
  EXPECT_TRUE(known->exclude.empty());
  options.mapping = {};
  options.mapping.scheme = "hf";
  convert(source, options, to_output(dir / "names"), quiet);
  side.place = StorePath(dir / "names");
  EXPECT_FALSE(known_mapping(side)) << "the names of the files";
  options.mapping.prefix = "model.";
  options.mapping.keep_dtype = true;
  convert(source, options, to_output(dir / "below"), quiet);
  side.place = StorePath(dir / "below");
  const auto below = known_mapping(side);
  ASSERT_TRUE(below);
  EXPECT_EQ(below->prefix, "model.");
  EXPECT_FALSE(below->keep_dtype);
}

TEST(ConfigOfCodes, TheCommandLineComesBeforeTheCheckpointAndItsRecord) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions made;
  made.target = "dcp";
  convert(source, made, to_output(dir / "tree"), quiet);
  DiffSide side;
  side.place = StorePath(dir / "tree");
  Catalog catalog;
  side.checkpoint = checkpoint_of(catalog);
  EXPECT_EQ(config_of_codes(side, {}), read_file(source + "/config.json"));
  catalog.config_text = "{}";
  side.checkpoint = checkpoint_of(catalog);
  EXPECT_EQ(config_of_codes(side, {}), "{}");
  DiffOptions options;
  options.config_text = "[]";
  EXPECT_EQ(config_of_codes(side, options), "[]");
  side.checkpoint = checkpoint_of({});
  write_text(dir / "tree/config.json", "{}");
  EXPECT_EQ(config_of_codes(side, {}), "") << "another config than the recorded one";
}

}  // namespace
}  // namespace hfshard
