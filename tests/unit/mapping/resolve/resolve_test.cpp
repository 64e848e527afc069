#include "mapping/resolve/resolve.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mapping/resolve/find.h"
#include "support/catch_error.h"
#include "unit/mapping/resolve/resolved.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(Resolve, StackedLayersShareALeaf) {
  const Resolved resolved(kTinyFamily);
  const ResolvedRule* leaf = resolved.find("params.decoder.layers.wi.kernel");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->target_layout.shape, (Shape{7, 4, 5}));
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"embed", "layers", "mlp"}));
  EXPECT_EQ(leaf->stacked, (std::vector<bool>{false, true, false}));
  ASSERT_EQ(leaf->loops.size(), 1U);
  EXPECT_EQ(leaf->loops[0].extent, 4U);
  EXPECT_EQ(leaf->loops[0].target_step, 5U);
  EXPECT_EQ(leaf->sources.size(), 4U);
  EXPECT_EQ(leaf->sources[3], "layers.3.up.weight");
}

TEST(Resolve, AListOfTheConfigIsIndexed) {
  const std::string family =
      tiny_family_with(R"("E": "num_experts ?? 2")", R"("E": "experts.1 ?? 2")");
  const std::string with = R"({"hidden_size": 7, "num_hidden_layers": 4, "experts": [9, 3]})";
  const std::string without = R"({"hidden_size": 7, "num_hidden_layers": 4, "experts": [9]})";
  EXPECT_EQ(Resolved(family, true, {}, with).find("params.decoder.layers.experts")->loops[1].extent,
            3U);
  EXPECT_EQ(
      Resolved(family, true, {}, without).find("params.decoder.layers.experts")->loops[1].extent,
      2U);
  const auto experts = [](const std::string& step, const std::string& list) {
    const std::string other =
        tiny_family_with(R"("E": "num_experts ?? 2")", R"("E": "experts.)" + step + R"( ?? 2")");
    const Resolved resolved(
        other, true, {}, R"({"hidden_size": 7, "num_hidden_layers": 4, "experts": )" + list + "}");
    return resolved.find("params.decoder.layers.experts")->loops[1].extent;
  };
  EXPECT_EQ(experts("first", "[3]"), 2U);
  EXPECT_EQ(experts("99999999999999999999", "[3]"), 2U);
}

TEST(Resolve, AKeyThatIsAnyIsTheFirstMemberWithTheRestOfThePath) {
  const std::string family =
      tiny_family_with(R"("E": "num_experts ?? 2")", R"("E": "experts.any.count ?? 2")");
  const auto experts = [&](const std::string& value) {
    const Resolved resolved(
        family, true, {},
        R"({"hidden_size": 7, "num_hidden_layers": 4, "experts": )" + value + "}");
    return resolved.find("params.decoder.layers.experts")->loops[1].extent;
  };
  EXPECT_EQ(experts(R"({"a": {"size": 9}, "b": {"count": 3}, "c": {"count": 4}})"), 3U);
  EXPECT_EQ(experts(R"({"a": {"count": 3}, "any": {"count": 4}})"), 4U);
  for (const char* value : {"{}", "5", R"("count")", R"([{"count": 3}])", R"({"a": 3})"})
    EXPECT_EQ(experts(value), 2U) << value;
}

TEST(Resolve, ATextOfADimIsPartOfAName) {
  std::string family = tiny_family_with(R"("hf": "layers.{l}.")", R"("hf": "{pre}layers.{l}.")");
  family.replace(family.find(R"("cyc": 2)"), 8, R"("cyc": 2, "pre": "'model.'")");
  const Resolved resolved(family);
  EXPECT_EQ(resolved.find("params.decoder.layers.wi.kernel")->sources[3],
            "model.layers.3.up.weight");
}

TEST(Resolve, AGroupWithoutLayersNeedsNoForm) {
  const std::string family = tiny_family_with(R"("stacked": ["decoder.layers.", "l"],)", "");
  EXPECT_EQ(resolve_failure(family).code(), ErrorCode::unsupported);
  const Resolved none(family, true, {}, R"({"hidden_size": 7, "num_hidden_layers": 0})");
  EXPECT_EQ(none.model.rules.size(), 1U);
}

TEST(Resolve, SeparateLayersHaveALeafEach) {
  const Resolved resolved(kTinyFamily, false);
  const ResolvedRule* leaf = resolved.find("params.decoder.layers_3.wi.kernel");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->target_layout.shape, (Shape{7, 5}));
  EXPECT_EQ(leaf->sources, (std::vector<std::string>{"layers.3.up.weight"}));
}

TEST(Resolve, AnExpertLoopIsAnAxisAndRunsInsideTheLayers) {
  const Resolved resolved(kTinyFamily);
  const ResolvedRule* leaf = resolved.find("params.decoder.layers.experts");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->target_layout.shape, (Shape{2, 4, 7, 5}));
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"exp", "layers", "embed", "mlp"}));
  ASSERT_EQ(leaf->loops.size(), 2U);
  EXPECT_EQ(leaf->loops[0].target_step, 35U);
  EXPECT_EQ(leaf->loops[1].target_step, 140U);
  EXPECT_EQ(leaf->sources[1], "layers.0.experts.1.weight");
  EXPECT_EQ(leaf->sources[2], "layers.1.experts.0.weight");
}

TEST(Resolve, ANameLoopMakesALeafForEachCounter) {
  std::string text = tiny_family_with("experts [e D F]", "expert_{e} [D F]");
  const std::string axes = ", \"axes\": {\"e\": \"exp\"}";
  text.erase(text.find(axes), axes.size());
  const Resolved resolved(text);
  const ResolvedRule* leaf = resolved.find("params.decoder.layers.expert_1");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->target_layout.shape, (Shape{7, 4, 5}));
  EXPECT_EQ(leaf->sources[2], "layers.2.experts.1.weight");
}

TEST(Resolve, ACycleOfLayersMakesSeveralStacks) {
  const Resolved resolved(tiny_family_with("[\"decoder.layers.\", \"l\"]",
                                           "[\"decoder.layers_{l % cyc}.\", \"l // cyc\"]"));
  const ResolvedRule* leaf = resolved.find("params.decoder.layers_1.wi.kernel");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->target_layout.shape, (Shape{7, 2, 5}));
  EXPECT_EQ(leaf->sources, (std::vector<std::string>{"layers.1.up.weight", "layers.3.up.weight"}));
}

TEST(Resolve, TwoStackIndicesMakeTwoAxes) {
  const Resolved resolved(tiny_family_with("[\"decoder.layers.\", \"l\"]",
                                           "[\"decoder.layers.\", \"l // cyc\", \"l % cyc\"]"));
  const ResolvedRule* leaf = resolved.find("params.decoder.layers.wi.kernel");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->target_layout.shape, (Shape{7, 2, 2, 5}));
  ASSERT_EQ(leaf->loops.size(), 2U);
  EXPECT_EQ(leaf->loops[0].target_step, 10U);
  EXPECT_EQ(leaf->loops[1].target_step, 5U);
  EXPECT_EQ(leaf->stacked, (std::vector<bool>{false, true, true, false}));
}

TEST(Resolve, EachStackAxisHasTheLogicalNameOfItsLoop) {
  std::string text = tiny_family_with(R"({"l": "L"}, "hf": "layers.{l}.")",
                                      R"({"b": 2, "l": "cyc"}, "hf": "layers.{cyc * b + l}.")");
  const auto put = [&](std::string_view old_text, std::string_view new_text) {
    text.replace(text.find(old_text), old_text.size(), new_text);
  };
  put(R"("decoder.layers.", "l"])", R"("decoder.layers.", "b", "l"])");
  put("layers_{l}", "layers_{cyc * b + l}");
  put(R"("l": "layers"})", R"("l": "layers", "b": "local_layers"})");
  const Resolved resolved(text);
  const ResolvedRule* leaf = resolved.find("params.decoder.layers.wi.kernel");
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->axes, (std::vector<std::string>{"embed", "local_layers", "layers", "mlp"}));
}

TEST(Resolve, ARuleMaySayWhereItsStackAxisGoes) {
  for (const std::size_t at : {0U, 1U, 2U}) {
    const Resolved resolved(tiny_family_with(
        "\"wi.kernel [D F]\"", "\"wi.kernel [D F]\", {\"scan_axis\": " + std::to_string(at) + "}"));
    const ResolvedRule* leaf = resolved.find("params.decoder.layers.wi.kernel");
    ASSERT_NE(leaf, nullptr);
    const Shape shapes[] = {Shape{4, 7, 5}, Shape{7, 4, 5}, Shape{7, 5, 4}};
    EXPECT_EQ(leaf->target_layout.shape, shapes[at]);
    EXPECT_EQ(leaf->axes[at], "layers");
    EXPECT_TRUE(leaf->stacked[at]);
    const std::uint64_t steps[] = {35, 5, 1};
    EXPECT_EQ(leaf->loops[0].target_step, steps[at]);
    const ResolvedRule* other = resolved.find("params.decoder.layers.experts");
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->axes[1], "layers");
  }
}

TEST(Resolve, ANormScaleHasTheAxisNameOfItsRule) {
  const auto axes = [](const std::string& modifiers) {
    const Resolved resolved(
        tiny_family_with(R"("norm.scale [D]")", R"("norm.scale [D]")" + modifiers));
    return resolved.find("params.norm.scale")->axes;
  };
  EXPECT_EQ(axes(""), std::vector<std::string>{"norm"});
  EXPECT_EQ(axes(R"(, {"axes": {"D": "mlp"}})"), std::vector<std::string>{"mlp"});
}

TEST(Resolve, AxesThatAreNamedByPlaceAreNumbered) {
  const MappingTable table = load_table(family_by_name("llama"));
  const Bindings::Options none;
  Bindings bindings(table, table.example, none, {});
  const Scheme& scheme = table.scheme_or_main("torchtitan");
  EXPECT_FALSE(scheme.stacks());
  const ResolvedModel model = resolve(scheme, bindings, false);
  const auto axes = [&](std::string_view leaf) {
    return std::ranges::find(model.rules, leaf, &ResolvedRule::target)->axes;
  };
  using Axes = std::vector<std::string>;
  EXPECT_EQ(axes("layers.4.attention.wo.weight"), (Axes{"dim_0", "dim_1"}));
  EXPECT_EQ(axes("layers.4.attention_norm.weight"), (Axes{"dim_0"}));
  // Every process reads the whole fused projection.
  EXPECT_EQ(axes("layers.4.attention.qkv_linear.wk.weight"), (Axes{"", "dim_1"}));
  EXPECT_EQ(catch_error([&] { table.scheme_or_main("other"); }).code(), ErrorCode::not_found);
}

TEST(Resolve, ANormScaleIsNumberedToo) {
  const MappingTable table = load_table(tiny_file(tiny_family_with(
      R"("maxtext": {)",
      R"("own": {"root": "", "scan_axis": 0, "source": "a.py", "axes_by_place": true,
                 "global": [["norm.weight [D]", "norm.scale [D]"]]},
         "maxtext": {)")));
  const Bindings::Options none;
  Bindings bindings(table, table.example, none, {});
  const ResolvedModel model = resolve(table.scheme_or_main("own"), bindings, false);
  ASSERT_EQ(model.rules.size(), 1U);
  EXPECT_EQ(model.rules[0].axes, std::vector<std::string>{"dim_0"});
}

TEST(Resolve, ARenamingCanHaveACondition) {
  const auto renames = [](const std::string& condition) {
    const Resolved resolved(tiny_family_with(
        "\"global\"", "\"rename\": [[\"a*\", \"b*\", \"" + condition + "\"]], \"global\""));
    return resolved.model.renames.size();
  };
  EXPECT_EQ(renames("D > 6"), 1U);
  EXPECT_EQ(renames("D > 7"), 0U);
}

TEST(Resolve, ARenamingIsUndoneOnlyIfItLeadsBackToTheName) {
  const auto renaming = [](const char* from, const char* to) {
    ResolvedRenaming out;
    out.from = from;
    out.to = to;
    return out;
  };
  const std::vector<ResolvedRenaming> renames = {renaming("a.b.", "p."), renaming("a.", "q."),
                                                 renaming("c.", "q.")};
  EXPECT_EQ(renamed_back(renames, "p.w"), "a.b.w");
  EXPECT_EQ(renamed_back(renames, "q.w"), "a.w");
  EXPECT_EQ(renamed_back(renames, "q.b.w"), "c.b.w") << "a.b.w is renamed to p.w";
  EXPECT_EQ(renamed_back({renames[0], renames[1]}, "q.b.w"), "q.b.w");
  EXPECT_EQ(renamed_back(renames, "x.w"), "x.w");
}

TEST(Resolve, PrefixesOfLayersAreThoseWithAName) {
  const auto prefixes = [](const std::string& hf) {
    const MappingTable table =
        load_table(tiny_file(tiny_family_with(R"("hf": "layers.{l}.")", "\"hf\": \"" + hf + "\"")));
    const Bindings::Options none;
    Bindings bindings(table, table.example, none, {});
    return layer_prefixes(table.schemes[0], bindings);
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(prefixes("layers.{l}."), (Texts{"layers.0.", "layers.1.", "layers.2."}));
  EXPECT_EQ(prefixes("layers."), Texts{"layers."});
  EXPECT_EQ(prefixes(""), Texts{});
}

TEST(Resolve, AReversedStackOrdersItsSources) {
  const Resolved resolved(
      tiny_family_with("[\"decoder.layers.\", \"l\"]", "[\"decoder.layers.\", \"L - 1 - l\"]"));
  EXPECT_EQ(resolved.find("params.decoder.layers.wi.kernel")->sources[0], "layers.3.up.weight");
}

TEST(Resolve, ALoopMayBeginLater) {
  const Resolved resolved(tiny_family_with("{\"l\": \"L\"}", "{\"l\": \"1 .. L\"}"), false);
  EXPECT_EQ(resolved.find("params.decoder.layers_0.wi.kernel"), nullptr);
  EXPECT_NE(resolved.find("params.decoder.layers_1.wi.kernel"), nullptr);
}

TEST(Resolve, AnInnerLoopBeginsAnewWhereItBegan) {
  std::string text = tiny_family_with(R"({"l": "L"}, "hf": "layers.{l}.")",
                                      R"({"b": 2, "l": "1..3"}, "hf": "layers.{10 * b + l}.")");
  const std::string separate = "layers_{l}";
  text.replace(text.find(separate), separate.size(), "layers_{10 * b + l}");
  const Resolved resolved(text, false);
  std::vector<std::string> sources;
  for (const ResolvedRule& rule : resolved.model.rules) {
    if (rule.target.ends_with(".wi.kernel")) sources.push_back(rule.sources.at(0));
  }
  EXPECT_EQ(sources, (std::vector<std::string>{"layers.1.up.weight", "layers.2.up.weight",
                                               "layers.11.up.weight", "layers.12.up.weight"}));
}

TEST(Resolve, RefusesAStackWithGapsOrTwins) {
  for (const char* index : {"l + 1", "l * 2", "l // 2", "l - 1", "0 * l"}) {
    SCOPED_TRACE(index);
    const std::string text = tiny_family_with(
        "[\"decoder.layers.\", \"l\"]", "[\"decoder.layers.\", \"" + std::string(index) + "\"]");
    const Error error = resolve_failure(text);
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer");
    EXPECT_EQ(error.hint_text(), "--layers separate");
  }
  const Error ragged = catch_error([] {
    Resolved(tiny_family_with("[\"decoder.layers.\", \"l\"]",
                              "[\"decoder.layers.\", \"l // cyc\", \"l % cyc\"]"),
             true, {}, R"({"hidden_size": 7, "num_hidden_layers": 3})");
  });
  EXPECT_EQ(ragged.sentence(),
            "the layers under \"decoder.layers.\" (3) don't fill their stack from 0 without gaps");
  std::string alone = tiny_family_with(R"("separate": "decoder.layers_{l}.",)", "");
  alone.replace(alone.find(R"("decoder.layers.", "l"])"), 23, R"("decoder.layers.", "l + 1"])");
  EXPECT_EQ(resolve_failure(alone).sentence(),
            "the layers under \"decoder.layers.\" (4) don't fill their stack from 0 without gaps");
  EXPECT_EQ(resolve_failure(alone).hint_text(), "");
  const Error twins = resolve_failure(tiny_family_with("decoder.layers_{l}.", "decoder.x."), false);
  EXPECT_EQ(twins.code(), ErrorCode::bad_input);
  EXPECT_EQ(twins.hint_text(), "");
}

TEST(Resolve, RefusesALayoutThatTheFamilyLacks) {
  const Error stacked =
      resolve_failure(tiny_family_with("\"stacked\": [\"decoder.layers.\", \"l\"],", ""));
  EXPECT_EQ(stacked.code(), ErrorCode::unsupported);
  EXPECT_EQ(stacked.hint_text(), "--layers separate");
  const Error separate =
      resolve_failure(tiny_family_with("\"separate\": \"decoder.layers_{l}.\",", ""), false);
  EXPECT_EQ(separate.code(), ErrorCode::unsupported);
  EXPECT_EQ(separate.hint_text(), "--layers stacked");
}

TEST(Resolve, AConditionHoldsForAllLayersOfAStackOrForNone) {
  const std::string some = tiny_family_with("[D F]\"]]}", "[D F]\", {\"when\": \"l > 1\"}]]}");
  EXPECT_EQ(resolve_failure(some).code(), ErrorCode::unsupported);
  const Resolved separate(some, false);
  EXPECT_EQ(separate.find("params.decoder.layers_1.wi.kernel"), nullptr);
  EXPECT_NE(separate.find("params.decoder.layers_2.wi.kernel"), nullptr);
  const Resolved none(tiny_family_with("[D F]\"]]}", "[D F]\", {\"when\": \"l > 9\"}]]}"));
  EXPECT_EQ(none.find("params.decoder.layers.wi.kernel"), nullptr);
}

TEST(Resolve, RefusesWhatTheFamilyRequiresOtherwise) {
  const std::string text = tiny_family_with(
      "\"global\"",
      "\"require\": [[\"L % 3 == 0\", \"three layers belong together\"]], \"global\"");
  const Error error = resolve_failure(text);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "three layers belong together");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/require/0/0");
}

TEST(Resolve, DropsAreExpanded) {
  const Resolved resolved(tiny_family_with("[\"old.* [*]\", {\"why\": \"unused\"}]",
                                           "[\"layers.{m}.twin [D]\", {\"for\": {\"m\": \"L\"}, "
                                           "\"same_as\": \"layers.{m}.up\", \"why\": \"w\"}]"));
  ASSERT_EQ(resolved.model.drops.size(), 1U);
  EXPECT_EQ(resolved.model.drops[0].sources.size(), 4U);
  EXPECT_EQ(resolved.model.drops[0].sources[2], "layers.2.twin");
  EXPECT_EQ(resolved.model.drops[0].same_as[2], "layers.2.up");
}

TEST(Resolve, ADropAppliesIfItsConditionHoldsAndItsRegionHasElements) {
  const auto drops = [](const std::string& drop) {
    return Resolved(tiny_family_with(R"(["old.* [*]", {"why": "unused"}])", drop))
        .model.drops.size();
  };
  EXPECT_EQ(drops(R"(["old [D]", {"why": "unused", "when": "D > 6"}])"), 1U);
  EXPECT_EQ(drops(R"(["old [D]", {"why": "unused", "when": "D > 7"}])"), 0U);
  const auto rest = [](int width) {
    std::string text = tiny_family_with(R"(["old.* [*]", {"why": "unused"}])",
                                        R"(["old [R@D:D+R]", {"why": "unused"}])");
    text.replace(text.find(R"("cyc": 2)"), 8, R"("cyc": 2, "R": "D - 5")");
    return Resolved(text, true, {},
                    fmt::format(R"({{"hidden_size": {}, "num_hidden_layers": 4}})", width));
  };
  EXPECT_EQ(rest(7).model.drops.at(0).layout.base, 7U);
  EXPECT_TRUE(rest(5).model.drops.empty());
}

TEST(Resolve, ACollectionTakesThePlaceOfTheLastKeyOfTheRoot) {
  const Resolved resolved(tiny_family_with(R"({"for": {"e": "E"}, )",
                                           R"({"collection": "stats_{cyc}", "for": {"e": "E"}, )"));
  EXPECT_NE(resolved.find("stats_2.decoder.layers.experts"), nullptr);
  EXPECT_NE(resolved.find("params.decoder.layers.wi.kernel"), nullptr);
}

TEST(Resolve, AFillWithALoopIsALeafForEachCounter) {
  const std::string text =
      tiny_family_with(R"("use": ["mlp"])",
                       R"("fill": [[0, "z_{e}.scale [D]", {"for": {"e": "E"}, "when": "D > 6"}],
                  [1, "never [D]", {"when": "D > 7"}]], "use": ["mlp"])");
  const auto fills = [&](bool stacked) {
    const Resolved resolved(text, stacked);
    std::vector<std::string> out;
    for (const ResolvedFill& fill : resolved.model.fills)
      out.push_back(fill.target + " " + to_string(fill.layout.shape));
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(fills(true),
            (Texts{"params.decoder.layers.z_0.scale 7x4", "params.decoder.layers.z_1.scale 7x4"}));
  EXPECT_EQ(fills(false).size(), 8U);
  EXPECT_EQ(fills(false)[3], "params.decoder.layers_1.z_1.scale 7");
}

TEST(Resolve, AFillAppliesToAllLayersOfAStackOrToNone) {
  const Error error = resolve_failure(tiny_family_with(
      R"("use": ["mlp"])", R"("fill": [[0, "z [D]", {"when": "l > 1"}]], "use": ["mlp"])"));
  EXPECT_EQ(error.sentence(),
            "the rule holds for 2 of the 4 layers that are stacked under \"decoder.layers.\"");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer/fill/0");
  EXPECT_EQ(error.hint_text(), "--layers separate");
}

TEST(Resolve, AGroupCanRequireSomethingToo) {
  const std::string text = tiny_family_with(
      R"("use": ["mlp"])",
      R"("require": [["L % 3 == 0", "three layers belong together"]], "use": ["mlp"])");
  const Error error = resolve_failure(text);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "three layers belong together");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer/require/0/0");
}

TEST(Resolve, ALayoutIsNeededOnlyForLayersThatExist) {
  const MappingTable table =
      load_table(tiny_file(tiny_family_with("\"stacked\": [\"decoder.layers.\", \"l\"],", "")));
  const Bindings::Options none;
  const auto has = [&](int layers, bool stacked) {
    const Json config = parse_json(
        fmt::format(R"({{"hidden_size": 7, "num_hidden_layers": {}}})", layers), "config.json");
    Bindings bindings(table, config, none, {});
    return has_layout(table.schemes[0], bindings, stacked);
  };
  EXPECT_TRUE(has(2, false));
  EXPECT_FALSE(has(2, true));
  EXPECT_TRUE(has(0, true));
}

TEST(Resolve, NamesAreChangedBackAndForthByTheFirstThatFits) {
  std::vector<ResolvedRenaming> renames(2);
  renames[0].from = "model.layers.";
  renames[0].to = "blocks.";
  renames[1].from = "model.";
  renames[1].to = "";
  EXPECT_EQ(renamed(renames, "model.layers.0.w"), "blocks.0.w");
  EXPECT_EQ(renamed(renames, "model.norm"), "norm");
  EXPECT_EQ(renamed(renames, "a.model.norm"), "a.model.norm");
  EXPECT_EQ(renamed_back(renames, "norm"), "model.norm");
  EXPECT_EQ(renamed_back(renames, "blocks.0.w"), "model.layers.0.w");
}

}  // namespace
}  // namespace hfshard
