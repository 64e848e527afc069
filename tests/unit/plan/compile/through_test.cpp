#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/plan/compile/compile_reference.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Per leaf, the origin of each element: tensor << 32 | offset. For fills, all ones and a scalar.
using Traces = std::vector<std::vector<std::uint64_t>>;
constexpr std::uint64_t kFill = std::uint64_t{0xffffffff} << 32;

Traces traces_of(const CompiledModel& model) {
  Traces out;
  for (const Leaf& leaf : model.leaves) out.emplace_back(leaf.shape.numel());
  for (const Transfer& transfer : model.transfers) {
    for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
      const std::uint64_t offset = reference::loop_offset(transfer, s);
      const std::uint64_t tensor = std::uint64_t{transfer.sources[s]} << 32;
      reference::for_each_element(transfer.map, [&](std::uint64_t src, std::uint64_t dst) {
        out[transfer.target].at(dst + offset) = tensor | src;
      });
    }
  }
  for (const Fill& fill : model.fills) {
    reference::for_each_element(fill.map, [&](std::uint64_t, std::uint64_t dst) {
      out[fill.target].at(dst) = kFill | static_cast<std::uint32_t>(fill.scalar * 1000);
    });
  }
  return out;
}

// Returns the first origins, through a tree whose own elements come from `before`.
Traces traced(Traces traces, const Traces& before) {
  for (auto& leaf : traces) {
    for (std::uint64_t& element : leaf) {
      if (element < kFill) element = before.at(element >> 32).at(element & 0xffffffffU);
    }
  }
  return traces;
}

Catalog tree_catalog(const CompiledModel& model) {
  return tensors_of({model.leaves.begin(), model.leaves.end()}, "", FakeCatalog());
}

MappingOptions names() {
  MappingOptions out;
  out.scheme = "hf";
  out.flat_names = true;
  return out;
}

struct Way {
  CompiledModel back;
  CompiledModel through;
};

// Compiles from the tree of `first` to that of `second`.
Way between(const FakeCatalog& model, const CompiledModel& first, const MappingOptions& second) {
  const Catalog tree = tree_catalog(first);
  Way out{compile_inverse(first, model, tree, names()), {}};
  const Catalog tensors =
      tensors_of({out.back.leaves.begin(), out.back.leaves.end()}, model.config_text, tree);
  out.through = compile_through(out.back, compile_model(tensors, second), tree);
  return out;
}

TEST(CompileThrough, EveryElementComesFromWhereItWouldComeOfTheModel) {
  int pairs = 0;
  int number = 0;
  for (const FamilyInfo& info : list_families()) {
    if (number++ % (cases(6) == 6 ? 1 : 6) != 0) continue;  // a sixth with a sanitizer
    const FakeCatalog model = FakeCatalog::of(info.name, info.example);
    std::vector<MappingOptions> all;
    for (const char* scheme : {"maxtext", "torchtitan"}) {
      for (const bool stacked : {false, true}) {
        MappingOptions options;
        options.scheme = scheme;
        options.stacked = stacked;
        try {
          compile_model(model, options);
          if (scheme == std::string("maxtext") || !stacked) all.push_back(options);
        } catch (const Error& error) {
          EXPECT_NE(error.code(), ErrorCode::internal);
        }
      }
    }
    for (const MappingOptions& from : all) {
      const CompiledModel first = compile_model(model, from);
      for (const MappingOptions& to : all) {
        SCOPED_TRACE(info.name + " " + from.scheme + (from.stacked ? " stacked" : "") + " to " +
                     to.scheme + (to.stacked ? " stacked" : ""));
        const CompiledModel direct = compile_model(model, to);
        const Way way = between(model, first, to);
        ++pairs;
        EXPECT_EQ(way.through.leaves.size(), direct.leaves.size());
        EXPECT_EQ(way.through.scheme, to.scheme);
        EXPECT_TRUE(traced(traces_of(way.through), traces_of(first)) == traces_of(direct));
      }
    }
  }
  EXPECT_GT(pairs, cases(70) / 4);
}

TEST(CompileThrough, OneTransferTakesAStackOrItsLayers) {
  const FakeCatalog model = FakeCatalog::of("qwen3", family_info("qwen3").example);
  MappingOptions stacked;
  MappingOptions separate;
  separate.stacked = false;
  for (const auto& [from, to] : {std::pair{stacked, stacked}, std::pair{separate, stacked}}) {
    const CompiledModel direct = compile_model(model, to);
    const Way way = between(model, compile_model(model, from), to);
    EXPECT_EQ(way.through.transfers.size(), direct.transfers.size());
  }
}

TEST(CompileThrough, AFactorAndItsInverseLeaveValuesAlone) {
  const FakeCatalog model = FakeCatalog::of("gemma2", family_info("gemma2").example);
  const CompiledModel first = compile_model(model, {});
  EXPECT_TRUE(std::ranges::any_of(
      first.transfers, [](const Transfer& transfer) { return !transfer.value.empty(); }));
  MappingOptions separate;
  separate.stacked = false;
  const Way way = between(model, first, separate);
  EXPECT_TRUE(std::ranges::all_of(way.through.transfers,
                                  [](const Transfer& transfer) { return transfer.value.empty(); }));
  const auto inexact = [](const std::string& note) { return note.starts_with("not exact"); };
  EXPECT_TRUE(std::ranges::any_of(way.back.notes, inexact));
  EXPECT_FALSE(std::ranges::any_of(way.through.notes, inexact));
}

TEST(CompileThrough, WhatIsComputedOnOneOfTheWaysIsComputedOnce) {
  const FakeCatalog model = FakeCatalog::of("llama", family_info("llama").example);
  MappingOptions titan;
  titan.scheme = "torchtitan";
  titan.stacked = false;
  const auto scaled = [](const CompiledModel& compiled) {
    std::set<float> out;
    for (const Transfer& transfer : compiled.transfers) {
      if (transfer.value.mul) out.insert(*transfer.value.mul);
      EXPECT_FALSE(transfer.value.add);
    }
    return out;
  };
  const CompiledModel first = compile_model(model, {});
  const std::set<float> forward = scaled(first);
  ASSERT_EQ(forward.size(), 1U);
  const Way to = between(model, first, titan);
  EXPECT_EQ(scaled(to.through), (std::set<float>{1.0F / *forward.begin()}));
  EXPECT_TRUE(std::ranges::any_of(
      to.through.notes, [](const std::string& note) { return note.starts_with("not exact"); }));
  const Way from = between(model, compile_model(model, titan), {});
  EXPECT_EQ(scaled(from.through), forward);
}

TEST(CompileThrough, WhatTheCheckpointWasMadeWithoutIsNamed) {
  FakeCatalog model = FakeCatalog::of("qwen3", family_info("qwen3").example);
  MappingOptions less;
  less.exclude = {"model.norm.weight"};
  const CompiledModel first = compile_model(model, less);
  const Error error = catch_error([&] { between(model, first, {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), "model.norm.weight");
  EXPECT_NE(error.hint_text().find("made without it"), std::string::npos) << error.hint_text();
}

TEST(CompileThrough, TheTensorsBetweenAreThoseOfTheConfig) {
  const FakeCatalog model = FakeCatalog::of("qwen3", family_info("qwen3").example);
  MappingOptions first_layer;
  first_layer.num_layers = 1;
  const Way way = between(model, compile_model(model, {}), first_layer);
  EXPECT_LT(way.through.through.size(), model.tensors.size());
  EXPECT_FALSE(way.through.config_text.empty());
  const Catalog tensors = tensors_of(way.through.through, way.through.config_text, FakeCatalog());
  EXPECT_EQ(compile_model(tensors, {}).leaves.size(), way.through.leaves.size());
}

TEST(CompileThrough, TheWordsAreThoseOfTheNewScheme) {
  const FamilyInfo info = family_info("qwen3");
  MappingOptions separate;
  separate.stacked = false;
  bool named = false;
  for (const auto& [size, config] : info.sizes) {
    SCOPED_TRACE(size);
    const FakeCatalog model = FakeCatalog::of("qwen3", config);
    const CompiledModel direct = compile_model(model, separate);
    const CompiledModel through = between(model, compile_model(model, {}), separate).through;
    EXPECT_EQ(through.family, direct.family);
    EXPECT_EQ(through.stacked, direct.stacked);
    EXPECT_EQ(through.model_names, direct.model_names);
    EXPECT_EQ(through.load_words, direct.load_words);
    EXPECT_EQ(through.load_note, direct.load_note);
    EXPECT_EQ(through.warnings, direct.warnings);
    named = named || !direct.model_names.empty();
  }
  EXPECT_TRUE(named);
}

// Such arrays are compared, since a checkpoint could hold two different ones.
TEST(CompileThrough, AHeadThatTheSchemeTakesFromTheEmbeddingIsClaimedEqual) {
  const auto config = [](bool tied) {
    return example_config("qwen3", {{"tie_word_embeddings", Json(tied)}});
  };
  FakeCatalog model = FakeCatalog::of("qwen3", config(false));
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"})
    model.get(name).dtype = DType::f32;
  const CompiledModel first = compile_model(model, {});
  ASSERT_NE(find_leaf(first, "decoder.logits_dense.kernel"), nullptr);
  model.config_text = dump_json(config(true));
  const CompiledModel through = between(model, first, {}).through;
  EXPECT_EQ(find_leaf(through, "decoder.logits_dense.kernel"), nullptr);
  ASSERT_NE(through.claims, nullptr);
  ASSERT_EQ(through.claims->leaves.size(), 1U);
  EXPECT_TRUE(through.claims->leaves[0].name.ends_with("logits_dense.kernel"));
  ASSERT_EQ(through.claims->transfers.size(), 1U);
  const Transfer& claim = through.claims->transfers[0];
  EXPECT_EQ(claim.target, 0U);
  EXPECT_EQ(claim.source_dtype, DType::f32);
  EXPECT_TRUE(first.leaves[claim.sources.front()].name.ends_with("token_embedder.embedding"));
}

// A run compares the arrays of both lists.
TEST(CompileThrough, TheClaimsOfTheExportAreKeptBesideAHeads) {
  const auto config = [](bool tied) {
    return example_config("deepseek_v4", {{"tie_word_embeddings", Json(tied)}});
  };
  FakeCatalog model = FakeCatalog::of("deepseek_v4", config(false));
  const CompiledModel first = compile_model(model, {});
  model.config_text = dump_json(config(true));
  const Way way = between(model, first, {});
  ASSERT_NE(way.back.claims, nullptr);
  const CompiledModel& exported = *way.back.claims;
  const CompiledModel& all = *way.through.claims;
  ASSERT_FALSE(exported.transfers.empty());
  ASSERT_FALSE(exported.fills.empty());
  ASSERT_EQ(all.leaves.size(), exported.leaves.size() + 1);
  ASSERT_EQ(all.transfers.size(), exported.transfers.size() + 1);
  ASSERT_EQ(all.fills.size(), exported.fills.size());
  for (std::size_t i = 0; i < exported.transfers.size(); ++i) {
    const Transfer& was = exported.transfers[i];
    const Transfer& is = all.transfers[i + 1];
    EXPECT_EQ(all.leaves[is.target].name, exported.leaves[was.target].name);
    EXPECT_EQ(all.rules[is.rule], exported.rules[was.rule]);
    EXPECT_EQ(is.sources, was.sources);
  }
  for (std::size_t i = 0; i < exported.fills.size(); ++i) {
    const Fill& was = exported.fills[i];
    const Fill& is = all.fills[i];
    EXPECT_EQ(all.leaves[is.target].name, exported.leaves[was.target].name);
    EXPECT_EQ(all.rules[is.rule], exported.rules[was.rule]);
  }
}

// A loop of one step would be a digit of one step.
TEST(CompileThrough, AStackOfOneLayerHasNoLoop) {
  const FakeCatalog model =
      FakeCatalog::of("qwen3", example_config("qwen3", {{"num_hidden_layers", Json(1)}}));
  MappingOptions separate;
  separate.stacked = false;
  for (const auto& [from, to] :
       {std::pair{MappingOptions(), separate}, {separate, MappingOptions()}}) {
    const CompiledModel through = between(model, compile_model(model, from), to).through;
    for (const Transfer& transfer : through.transfers) {
      EXPECT_TRUE(transfer.loops.empty());
      for (const Digit& digit : transfer.map.digits) EXPECT_NE(digit.extent, 1U);
    }
  }
}

}  // namespace
}  // namespace hfshard
