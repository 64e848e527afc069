#include <algorithm>
#include <cstdint>
#include <memory>
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
#include "unit/plan/compile/ways.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

MappingOptions names() {
  MappingOptions out = hf_names();
  out.flat_names = true;
  return out;
}

struct Way {
  CompiledModel back;
  CompiledModel through;
};

// Compiles from the tree of `first` to that of `second`.
Way between(const FakeCatalog& model, const CompiledModel& first, const MappingOptions& second) {
  const Catalog tree = tree_of(first);
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

TEST(CompileThrough, NotesOfBothWaysAreKept) {
  const FakeCatalog model = FakeCatalog::of("qwen3", family_info("qwen3").example);
  const CompiledModel first = compile_model(model, {});
  const Catalog tree = tree_of(first);
  CompiledModel back = compile_inverse(first, model, tree, names());
  const Catalog tensors =
      tensors_of({back.leaves.begin(), back.leaves.end()}, model.config_text, tree);
  CompiledModel forward = compile_model(tensors, {});
  back.notes = {"a note of the export"};
  forward.notes = {"a note of the conversion"};
  EXPECT_EQ(compile_through(back, std::move(forward), tree).notes,
            (std::vector<std::string>{"a note of the export", "a note of the conversion"}));
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

// Rows that the checkpoint was made without are zeros, wherever they come.
TEST(CompileThrough, WhatWasCutBeforeIsFilledWithZeros) {
  const FakeCatalog model = FakeCatalog::of("qwen3", family_info("qwen3").example);
  MappingOptions cut;
  cut.options = {{"vocab", "20"}};
  MappingOptions separate;
  separate.stacked = false;
  const CompiledModel direct = compile_model(model, separate);
  const Way way = between(model, compile_model(model, cut), separate);
  ASSERT_EQ(way.through.fills.size(), 2U);
  const Traces found = traced(traces_of(way.through), traces_of(compile_model(model, cut)));
  Traces wanted = traces_of(direct);
  for (std::size_t leaf = 0; leaf < direct.leaves.size(); ++leaf) {
    const std::string& name = direct.leaves[leaf].name;
    for (std::uint64_t i = 0; i < wanted[leaf].size(); ++i) {
      const bool lost = (name.ends_with("token_embedder.embedding") && i >= 20 * 26) ||
                        (name.ends_with("logits_dense.kernel") && i % 22 >= 20);
      if (lost) wanted[leaf][i] = kFill;
    }
  }
  EXPECT_TRUE(found == wanted);
}

TEST(CompileThrough, AFillOnTheWayIsComputedLikeTheValues) {
  HandMade made;
  made.tree.remove("y").remove("z");
  made.tensor("t", {4});
  made.part(0, 0, 0);
  Fill fill;
  fill.map = {0, 2, {{2, 0, 1}}};
  fill.scalar = 3;
  made.back.fills = {fill};
  Value value;
  value.mul = 2.0F;
  value.add = 1.0F;
  made.onward(1, 4, value);
  const CompiledModel through = made.through();
  ASSERT_EQ(through.fills.size(), 1U);
  EXPECT_EQ(through.fills[0].scalar, 7.0);
  EXPECT_EQ(through.fills[0].map.dst_base, 2U);
  EXPECT_EQ(through.fills[0].map.count(), 2U);
  EXPECT_EQ(through.rules.at(through.fills[0].rule), "forward");
  ASSERT_EQ(through.transfers.size(), 1U);
  EXPECT_EQ(through.transfers[0].value, value);
}

TEST(CompileThrough, TensorsInDifferentNumbersOfPartsAreTakenOneByOne) {
  HandMade made;
  made.tree.get("x").shape = {4};
  made.tensor("whole", {4});
  made.tensor("parts", {4});
  made.part(0, 0, 0);
  made.part(1, 1, 0);
  made.part(1, 2, 2);
  made.onward(2, 4);
  const CompiledModel through = made.through();
  EXPECT_EQ(through.transfers.size(), 3U);
  EXPECT_TRUE(made.is_right(through));
}

TEST(CompileThrough, TensorsWithDifferentValuesOrArraysAreTakenOneByOne) {
  HandMade made;
  Value twice;
  twice.mul = 2.0F;
  for (std::uint32_t i = 0; i < 3; ++i) {
    made.tensor("t", {2});
    made.part(i, i, 0, i == 1 ? twice : Value{});
  }
  made.onward(3, 2);
  const CompiledModel values = made.through();
  ASSERT_EQ(values.transfers.size(), 3U);
  EXPECT_TRUE(made.is_right(values));
  EXPECT_TRUE(values.transfers[0].value.empty());
  EXPECT_EQ(values.transfers[1].value, twice);
  made.back.transfers[1].value = {};
  EXPECT_EQ(made.through().transfers.size(), 1U);
  made.tree.get("y").dtype = DType::f32;
  const CompiledModel dtypes = made.through();
  ASSERT_EQ(dtypes.transfers.size(), 3U);
  EXPECT_TRUE(made.is_right(dtypes));
  EXPECT_EQ(dtypes.transfers[1].source_dtype, DType::f32);
  EXPECT_EQ(dtypes.transfers[2].source_dtype, DType::bf16);
}

TEST(CompileThrough, WhatItCannotComputeIsRefused) {
  HandMade made;
  made.tree.remove("z").get("x").dtype = DType::i64;
  for (const std::uint32_t i : {0U, 1U}) {
    made.tensor("t", {2});
    made.part(i, i, 0);
  }
  made.onward(2, 2);
  const Error cast = catch_error([&] { made.through(); });
  EXPECT_EQ(cast.code(), ErrorCode::unsupported);
  EXPECT_EQ(cast.sentence(), "hfshard can't cast i64 to bf16");
  EXPECT_EQ(cast.tensor(), "leaf");
  made.tree.get("x").dtype = DType::bf16;
  EXPECT_NO_THROW(made.through());
  made.back.transfers[1].decode = std::make_shared<const Decode>();
  const Error codes = catch_error([&] { made.through(); });
  EXPECT_EQ(codes.code(), ErrorCode::unsupported);
  EXPECT_TRUE(codes.sentence().starts_with("the checkpoint has codes in other shapes"));
  EXPECT_EQ(codes.tensor(), "t");
}

// A decoder reads whole arrays, as the model's files have them.
TEST(CompileThrough, CodesThatAreNotOneArrayAreRefused) {
  HandMade made;
  made.tree.remove("z").get("x").dtype = DType::f8_e4m3;
  made.tree.get("y").dtype = DType::f32;
  made.tensor("codes", {2});
  made.tensor("scales", {2});
  made.back.leaves[0].dtype = DType::f8_e4m3;
  made.back.leaves[1].dtype = DType::f32;
  made.part(0, 0, 0);
  made.part(1, 1, 0);
  made.onward(1, 2);
  Decode decode;
  decode.form = {Code::f8_e4m3, DType::f32, 2, 1, 1, 1};
  decode.scales = {1};
  made.forward.transfers[0].decode = std::make_shared<const Decode>(decode);
  made.forward.transfers[0].source_dtype = DType::f8_e4m3;
  const auto refused = [&] {
    const Error error = catch_error([&] { made.through(); });
    EXPECT_TRUE(error.sentence().starts_with("the checkpoint has codes in other shapes"));
    return error.tensor();
  };
  const CompiledModel through = made.through();
  ASSERT_EQ(through.transfers.size(), 1U);
  ASSERT_TRUE(through.transfers[0].decode);
  EXPECT_EQ(through.transfers[0].decode->scales, (std::vector<std::uint32_t>{1}));
  made.tree.get("y").dtype = DType::bf16;
  EXPECT_EQ(refused(), "scales");
  made.tree.get("x").shape = {1, 2};
  EXPECT_EQ(refused(), "codes");
  made.tree.get("x").shape = {2};
  made.back.transfers[0].map = {1, 0, {{2, -1, 1}}};
  EXPECT_EQ(refused(), "codes") << "in another order";
  Fill fill;
  fill.map.digits = {{2, 0, 1}};
  made.back.fills = {fill};
  made.back.transfers.erase(made.back.transfers.begin());
  EXPECT_EQ(refused(), "codes") << "filled in";
}

}  // namespace
}  // namespace hfshard
