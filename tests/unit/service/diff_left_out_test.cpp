// Tensors that a comparison leaves out, and computed values.

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
  EXPECT_EQ(catch_error([&] { compare(source_, tree, options); }).sentence(),
            "1 tensor matches no rule of family \"qwen3\": \"zeros.1\"");
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

TEST_F(DiffLeftOut, TheLayersThatACutTreeLacksAreNoted) {
  PlanOptions options = small_options();
  options.mapping.num_layers = 1;
  const std::string tree = convert_to("tree", options);
  for (const bool swap : {false, true}) {
    const DiffResult found = swap ? compare(tree, source_) : compare(source_, tree);
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.compared_tensors, 14U);
    EXPECT_EQ(found.notes,
              (std::vector<std::string>{
                  std::string("not compared in full, because the tree has no place for them: 22 "
                              "tensors of ") +
                      (swap ? "B" : "A") + " (model.layers.1.input_layernorm.weight, ...)",
                  "not an array, but different: config.json (\"num_hidden_layers\")"}));
  }
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

}  // namespace
}  // namespace hfshard
