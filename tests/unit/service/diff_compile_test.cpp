#include "service/diff_compile.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "service/dialect.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"
#include "unit/service/named_checkpoint.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// No scheme has all leaves of such a tree, and each layout has some of them.
TEST(DiffCompile, ATreeThatLacksALeafIsComparedInItsOwnLayout) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  for (const bool stacked : {true, false}) {
    PlanOptions options;
    options.target = "dcp";
    options.mapping.stacked = stacked;
    options.mapping.exclude = {"model.norm.weight"};
    const std::string tree = dir / (stacked ? "stacked" : "separate");
    hfshard::convert(source, options, to_output(tree), quiet);
    for (const char* name : {"hfshard.json", "config.json"})
      std::filesystem::remove(join_path(tree, name));
    const DiffResult found = diff(source, tree, {}, to_output(""), quiet);
    EXPECT_EQ(found.differing_tensors, 1U) << stacked;
    EXPECT_EQ(found.compared_tensors + 1, found.tensors.size()) << stacked;
    ASSERT_FALSE(found.tensors.empty());
    EXPECT_EQ(found.tensors[0].kind, TensorDiff::Kind::only_a) << stacked;
    EXPECT_NE(found.tensors[0].name.find("decoder_norm"), std::string::npos)
        << found.tensors[0].name;
  }
}

// Each form has the names of the parameters, and some store the routers' in further collections.
TEST(DiffCompile, ATreeThatLacksALeafIsComparedInItsOwnForm) {
  const TempDir dir;
  const std::string source = copy_fixture("deepseek4", dir / "source");
  Reporter quiet;
  for (const char* form : {"both", "params", "collections"}) {
    SCOPED_TRACE(form);
    PlanOptions options;
    options.target = "dcp";
    options.mapping.options["routers"] = form;
    options.mapping.exclude = {"model.norm.weight"};
    const std::string tree = dir / form;
    hfshard::convert(source, options, to_output(tree), quiet);
    for (const char* name : {"hfshard.json", "config.json"})
      std::filesystem::remove(join_path(tree, name));
    const DiffResult found = diff(source, tree, {}, to_output(""), quiet);
    EXPECT_EQ(found.differing_tensors, 1U);
    const auto lacking =
        std::ranges::find(found.tensors, TensorDiff::Kind::only_a, &TensorDiff::kind);
    ASSERT_NE(lacking, found.tensors.end());
    EXPECT_EQ(lacking->name, "params.params.decoder.decoder_norm.scale");
  }
}

// The tree has no record, so each scheme is tried.
TEST(DiffCompile, AModelOfAnUnknownFamilySharesNoNameWithATree) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const std::string tree = dir / "tree";
  Reporter quiet;
  PlanOptions options;
  options.target = "dcp";
  hfshard::convert(source, options, to_output(tree), quiet);
  for (const char* name : {"hfshard.json", "config.json"})
    std::filesystem::remove(join_path(tree, name));
  write_text(source + "/config.json", R"({"model_type": "nobody"})");
  const DiffResult found = diff(source, tree, {}, to_output(""), quiet);
  EXPECT_EQ(found.compared_tensors, 0U);
  EXPECT_EQ(found.through, "A is converted to the layout of B");
  EXPECT_EQ(found.notes.at(0), "B has no name that A has in any scheme");
  const DiffResult swapped = diff(tree, source, {}, to_output(""), quiet);
  EXPECT_EQ(swapped.through, "B is converted to the layout of A");
  EXPECT_EQ(swapped.notes.at(0), "A has no name that B has in any scheme");
}

// A model with one leaf, which is its tensor multiplied by a constant.
CompiledModel multiplied(std::optional<float> constant) {
  CompiledModel out;
  Leaf leaf;
  leaf.name = "w";
  leaf.dtype = DType::f32;
  out.leaves.push_back(leaf);
  Transfer transfer;
  transfer.sources = {0};
  transfer.source_dtype = DType::bf16;
  transfer.value.mul = constant;
  out.transfers.push_back(transfer);
  return out;
}

SidesTogether sides_of(std::optional<float> a, std::optional<float> b) {
  return with_parts([&](const MappingOptions&) {
    SidesTogether out;
    out.a.model = multiplied(a);
    out.b.model = multiplied(b);
    return out;
  });
}

// Two values can become the same when they are multiplied and rounded.
TEST(WithParts, StoredValuesAreComparedWhereBothSidesComputeTheSame) {
  const SidesTogether alike = sides_of(1.4F, 1.4F);
  for (const CompiledModel* model : {&alike.a.model, &alike.b.model}) {
    EXPECT_TRUE(model->transfers[0].value.empty());
    EXPECT_EQ(model->leaves[0].dtype, DType::bf16);
  }
  EXPECT_EQ(alike.through, "both are converted to scheme maxtext");
}

TEST(WithParts, LeavesOfOneSideDontCount) {
  const SidesTogether found = with_parts([](const MappingOptions&) {
    SidesTogether out;
    out.a.model = multiplied(1.4F);
    out.b.model = multiplied(1.4F);
    out.a.model.leaves[0].name = "z";  // after all names of B
    return out;
  });
  EXPECT_TRUE(found.a.model.transfers[0].value.empty());
  EXPECT_EQ(found.b.model.leaves[0].dtype, DType::bf16);
}

// Codes aren't values.
TEST(WithParts, ComputedValuesStayIfOneSideDecodes) {
  for (const bool decodes_a : {true, false}) {
    const SidesTogether found = with_parts([&](const MappingOptions&) {
      SidesTogether out;
      out.a.model = multiplied(1.4F);
      out.b.model = multiplied(1.4F);
      Transfer& coded = (decodes_a ? out.a : out.b).model.transfers[0];
      coded.decode = std::make_shared<Decode>();
      return out;
    });
    for (const CompiledModel* model : {&found.a.model, &found.b.model})
      EXPECT_EQ(model->transfers[0].value.mul, 1.4F) << decodes_a;
  }
}

TEST(WithParts, APartIsTakenIfBothSidesHaveItsLeaves) {
  const auto count = [](bool more_in_a, bool more_in_b) {
    const SidesTogether found = with_parts([&](const MappingOptions& mapping) {
      SidesTogether out;
      out.a.model = multiplied(std::nullopt);
      out.b.model = multiplied(std::nullopt);
      for (const auto& [more, side] : {std::pair(more_in_a, &out.a), {more_in_b, &out.b}}) {
        if (!more || mapping.options.empty()) continue;
        side->model.leaves.push_back(side->model.leaves.front());
        side->model.leaves.back().name = "x";
      }
      return out;
    });
    return std::pair(found.a.model.leaves.size(), found.b.model.leaves.size());
  };
  EXPECT_EQ(count(true, true), (std::pair<std::size_t, std::size_t>(2, 2)));
  EXPECT_EQ(count(true, false), (std::pair<std::size_t, std::size_t>(1, 1)));
  EXPECT_EQ(count(false, true), (std::pair<std::size_t, std::size_t>(1, 1)));
}

TEST(WithParts, ComputedValuesStayIfOnlyOneSideComputesThem) {
  const SidesTogether unlike = sides_of(1.4F, std::nullopt);
  EXPECT_EQ(unlike.a.model.transfers[0].value.mul, 1.4F);
  EXPECT_EQ(unlike.a.model.leaves[0].dtype, DType::f32);
}

// Scales have a place in the newest layout, so they stay codes there.
TEST(DiffCompile, ATreeWithCodesIsFoundWithoutItsRecord) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3.5-fp8", dir / "source");
  Reporter quiet;
  for (const bool keep : {true, false}) {
    PlanOptions options;
    options.target = "dcp";
    options.mapping.keep_dtype = keep;
    const std::string tree = dir / (keep ? "kept" : "decoded");
    hfshard::convert(source, options, to_output(tree), quiet);
    for (const char* name : {"hfshard.json", "config.json"})
      std::filesystem::remove(join_path(tree, name));
    for (const bool swap : {false, true}) {
      const DiffResult found = swap ? diff(tree, source, {}, to_output(""), quiet)
                                    : diff(source, tree, {}, to_output(""), quiet);
      EXPECT_TRUE(found.equal()) << keep;
      EXPECT_GT(found.compared_tensors, 10U);
    }
  }
}

// Other schemes would name the tensors that they have no place for.
TEST(DiffCompile, IfEachSchemeRefusesAModelTheFirstOneSaysWhy) {
  const Catalog mixed = mixed_of(files_of("qwen3_moe"));
  ASSERT_TRUE(names_of(mixed, {}).half);
  DiffSide model;
  model.place = StorePath("nowhere");
  model.checkpoint = checkpoint_of(mixed);
  DiffSide tree = model;
  tree.checkpoint = checkpoint_of(catalog_named({"w"}));
  const Error error = catch_error([&] { compile_as(model, tree, {}, {}); });
  EXPECT_EQ(error.hint_text().find("--exclude"), std::string::npos) << error.format();
}

}  // namespace
}  // namespace hfshard
