// Tensors that a comparison leaves out, and the trees that a model is compared with.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class DiffLeftOut : public DiffTest {
 protected:
  DiffLeftOut() { source_ = copy_fixture("qwen3-untied", dir_ / "untied"); }
  // Adds tensors that no rule takes.
  void add_others(int count) {
    for (int i = 0; i < count; ++i)
      add_zeros(source_ + "/model.safetensors", fmt::format("zeros.{}", i));
  }
};

TEST_F(DiffLeftOut, TensorsWithoutAPlaceAreNamedWithTheOptionsThatLeaveThemOut) {
  const std::string tree = convert_to("tree");
  const auto hint = [&](const DiffOptions& options) {
    const Error error = catch_error([&] { compare(source_, tree, options); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_TRUE(error.tensor().starts_with("zeros.")) << error.tensor();
    EXPECT_EQ(catch_error([&] { compare(tree, source_, options); }).hint_text(), error.hint_text());
    return error.hint_text();
  };
  add_others(2);
  DiffOptions options;
  EXPECT_EQ(hint(options), "pass --exclude zeros.0 --exclude zeros.1 to compare without them");
  options.exclude = {"zeros.0"};
  EXPECT_EQ(hint(options), "pass --exclude zeros.1 to compare without it");
  options.exclude = {"zeros.*"};
  for (const bool swap : {false, true}) {
    const DiffResult found =
        swap ? compare(tree, source_, options) : compare(source_, tree, options);
    EXPECT_TRUE(found.equal());
    EXPECT_GT(found.compared_tensors, 10U);
    EXPECT_EQ(found.notes, std::vector<std::string>{
                               std::string("not compared, because the conversion or --exclude "
                                           "leaves them out: \"zeros.0\", \"zeros.1\" of ") +
                               (swap ? "B" : "A")});
  }
}

TEST_F(DiffLeftOut, ManyTensorsWithoutAPlaceAreCounted) {
  const std::string tree = convert_to("tree");
  add_others(9);
  std::string flags;
  for (int i = 0; i < 8; ++i) flags += fmt::format(" --exclude zeros.{}", i);
  EXPECT_EQ(catch_error([&] { compare(source_, tree); }).hint_text(),
            "pass" + flags + " and 1 more to compare without them");
}

// The record of the tree has the options of its conversion.
TEST_F(DiffLeftOut, ATensorThatTheConversionLeftOutIsNotCompared) {
  add_others(1);
  PlanOptions options = small_options();
  options.mapping.exclude = {"zeros.*"};
  const std::string tree = convert_to("tree", options);
  for (const bool swap : {false, true}) {
    const DiffResult found = swap ? compare(tree, source_) : compare(source_, tree);
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.notes, std::vector<std::string>{
                               std::string("not compared, because the conversion or --exclude "
                                           "leaves it out: \"zeros.0\" of ") +
                               (swap ? "B" : "A")});
  }
}

// The model has a place for it, so leaving it out makes a difference.
TEST_F(DiffLeftOut, ATensorOfTheModelThatTheConversionLeftOutIsADifference) {
  PlanOptions options = small_options();
  options.mapping.exclude = {"model.norm.weight"};
  const std::string tree = convert_to("tree", options);
  const DiffResult found = compare(tree, source_);
  EXPECT_EQ(found.differing_tensors, 1U);
  const TensorDiff* norm = find(found, "params.params.decoder.decoder_norm.scale");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->kind, Kind::only_b);
  DiffOptions without;
  without.exclude = {"*.decoder_norm.*"};
  EXPECT_TRUE(compare(tree, source_, without).equal());
}

// Its rounding can't be undone.
TEST_F(DiffLeftOut, ATreeWithStoredValuesIsConvertedToTheLayoutOfAComputedOne) {
  source_ = copy_fixture("gemma2", dir_ / "gemma");
  const std::string computed = convert_to("computed");
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.mapping.prefix = "model.";
  const std::string stored = convert_to("stored", options);
  const DiffResult found = compare(computed, stored);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.through, "B is converted to the layout of A");
  const DiffResult swapped = compare(stored, computed);
  EXPECT_TRUE(swapped.equal());
  EXPECT_EQ(swapped.through, "A is converted to the layout of B");
}

TEST_F(DiffLeftOut, ALinkedFileThatWasCopiedIsNoted) {
  PlanOptions names;
  names.mapping.scheme = "hf";
  names.encoding.checksum = false;
  RunOptions run = run_to("linked");
  run.shards = ShardLinks::symbolic;
  link(source_, names, {}, run, quiet_);
  const std::string linked = dir_ / "linked";
  EXPECT_EQ(compare(linked, source_).notes, std::vector<std::string>());
  const std::string file = source_ + "/model.safetensors";
  std::filesystem::last_write_time(file,
                                   std::filesystem::last_write_time(file) + std::chrono::hours(1));
  for (const DiffResult& found : {compare(linked, source_), compare(source_, linked)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(
        std::ranges::count_if(found.notes,
                              [](const std::string& note) {
                                return note.starts_with(
                                    "files were written to, or copied, since they were linked (");
                              }),
        1);
  }
}

// Files of safetensors can hold a tree with the names of a loader.
TEST_F(DiffLeftOut, AModelsDirectoryWithALoadersNamesIsComparedAsATree) {
  const std::string tree = convert_to("tree");
  PlanOptions same;
  same.target = "safetensors";
  same.mapping.scheme = "hf";
  same.tree.same = true;
  hfshard::convert(tree, same, run_to("files"), quiet_);
  const std::string files = dir_ / "files";
  const DiffResult alike = compare(tree, files);
  EXPECT_TRUE(alike.equal());
  EXPECT_EQ(alike.through, "");
  EXPECT_EQ(alike.compared_tensors, alike.a.tensors);
  write_text(files + "/config.json", read_text(source_ + "/config.json"));
  const DiffResult model = compare(files, source_);
  EXPECT_TRUE(model.equal());
  EXPECT_EQ(model.through, "B is converted to the layout of A");
}

// A model can only be one of the step's trees.
TEST_F(DiffLeftOut, AModelIsComparedWithTheTreeThatIsSelected) {
  const std::string tree = convert_to("tree");
  std::filesystem::rename(tree + "/0/items", tree + "/0/one");
  std::filesystem::copy(tree + "/0/one", tree + "/0/two", std::filesystem::copy_options::recursive);
  const Error error = catch_error([&] { compare(tree, source_); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([&] { compare(source_, tree); }).sentence(), error.sentence());
  DiffOptions options;
  options.items = "two";
  EXPECT_TRUE(compare(tree, tree, options).equal());
}

}  // namespace
}  // namespace hfshard
