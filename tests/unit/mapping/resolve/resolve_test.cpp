#include "mapping/resolve/resolve.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mapping/resolve/find.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Options = std::map<std::string, std::string>;

struct Resolved {
  explicit Resolved(
      std::string_view text, bool stacked = true, const Options& given = {},
      const std::string& config_text = R"({"hidden_size": 7, "num_hidden_layers": 4})")
      : table(load_table(tiny_file(text))),
        config(parse_json(config_text, "config.json")),
        options(given),
        bindings(table, config, options, {}),
        model(resolve(table.schemes[0], bindings, stacked)) {}

  const ResolvedRule* find(const std::string& target) const {
    const auto found = std::ranges::find(model.rules, target, &ResolvedRule::target);
    return found == model.rules.end() ? nullptr : &*found;
  }

  MappingTable table;
  Json config;
  Options options;
  Bindings bindings;
  ResolvedModel model;
};

Error resolve_failure(std::string_view text, bool stacked = true) {
  return catch_error([&] { Resolved(text, stacked); });
}

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

TEST(Resolve, PrefixesOfLayersAreThoseWithAName) {
  const auto prefixes = [](const std::string& hf) {
    const MappingTable table =
        load_table(tiny_file(tiny_family_with(R"("hf": "layers.{l}.")", "\"hf\": \"" + hf + "\"")));
    const Bindings::Options none;
    Bindings bindings(table, table.example, none, {});
    return layer_prefixes(table.schemes[0], bindings);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(prefixes("layers.{l}."), (Names{"layers.0.", "layers.1.", "layers.2."}));
  EXPECT_EQ(prefixes("layers."), Names{"layers."});
  EXPECT_EQ(prefixes(""), Names{});
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

TEST(Bindings, OptionsAreTyped) {
  const std::string text = tiny_family_with("\"F\": 5", "\"F\": \"option.width ?? 5\"");
  EXPECT_EQ(Resolved(text, true, {{"width", "6"}})
                .find("params.decoder.layers.wi.kernel")
                ->target_layout.shape,
            (Shape{7, 4, 6}));
  EXPECT_EQ(catch_error([&] {
              Resolved(text, true, {{"width", "wide"}});
            }).code(),
            ErrorCode::bad_input);
  EXPECT_EQ(catch_error([&] {
              Resolved(text, true, {{"width", "-6"}});
            }).code(),
            ErrorCode::bad_input);
  // A number that doesn't fit is a text.
  std::string named = tiny_family_with(R"("hf": "layers.{l}.")", R"("hf": "{pre}.layers.{l}.")");
  named.replace(named.find(R"("cyc": 2)"), 8, R"("cyc": 2, "pre": "option.width")");
  const Resolved resolved(named, true, {{"width", "99999999999999999999"}});
  EXPECT_EQ(resolved.find("params.decoder.layers.wi.kernel")->sources[3],
            "99999999999999999999.layers.3.up.weight");
}

TEST(Bindings, AnOptionCanBeTrueOrFalse) {
  const MappingTable table = load_table(tiny_file(kTinyFamily));
  const Options options{{"yes", "true"}, {"no", "false"}, {"other", "falsey"}};
  const Bindings bindings(table, table.example, options, {});
  EXPECT_TRUE(std::get<bool>(bindings.lookup("option.yes")));
  EXPECT_FALSE(std::get<bool>(bindings.lookup("option.no")));
  EXPECT_EQ(std::get<std::string>(bindings.lookup("option.other")), "falsey");
}

TEST(Bindings, ATensorHasAnExtentForEachOfItsAxes) {
  const MappingTable table = load_table(tiny_file(kTinyFamily));
  const Options none;
  const Bindings bindings(table, table.example, none, [](std::string_view name) {
    return name == "a" ? std::optional(Shape{3, 5}) : std::nullopt;
  });
  EXPECT_EQ(std::get<std::int64_t>(bindings.tensor_extent("a", 1)), 5);
  EXPECT_EQ(std::get<Absent>(bindings.tensor_extent("a", 2)).message,
            "the source lacks a tensor \"a\" with an axis 2");
  EXPECT_EQ(std::get<Absent>(bindings.tensor_extent("b", 0)).message,
            "the source lacks a tensor \"b\" with an axis 0");
}

TEST(Bindings, CodesAreKeptOnlyIfTheOptionSaysSo) {
  EXPECT_FALSE(keeps_codes({}));
  EXPECT_FALSE(keeps_codes({{"codes", "decoded"}}));
  EXPECT_TRUE(keeps_codes({{"codes", "kept"}}));
}

TEST(Bindings, AnOptionThatIsGivenHasOneForm) {
  Scheme scheme;
  scheme.name = "own";
  scheme.keeps_codes = "*_scale";
  scheme.forms = {{"routers", {"params", "both"}}};
  using Forms = std::vector<Options>;
  EXPECT_EQ(for_each_form(scheme, {}),
            (Forms{{{"codes", "kept"}}, {}, {{"routers", "params"}}, {{"routers", "both"}}}));
  const Options codes{{"codes", "decoded"}, {"routers", "both"}};
  EXPECT_EQ(for_each_form(scheme, codes), Forms{codes});
}

TEST(Bindings, OptionsOfAFamilyHaveTheirValues) {
  const auto check = [](const char* family, const char* name, const char* value) {
    check_options(load_table(family_by_name(family)), {{name, value}});
  };
  EXPECT_NO_THROW(check("qwen3_5", "codes", "kept"));
  EXPECT_NO_THROW(check("qwen3_5", "codes", "decoded"));
  EXPECT_NO_THROW(check("deepseek_v4", "routers", "params"));
  EXPECT_NO_THROW(check("deepseek_v4", "maxtext", "0.2.4"));
  EXPECT_NO_THROW(check("deepseek", "mtp", "true"));
  EXPECT_NO_THROW(check("deepseek", "mtp", "false"));
  const auto refusal = [&](const char* family, const char* name, const char* value) {
    const Error error = catch_error([&] { check(family, name, value); });
    EXPECT_EQ(error.code(), ErrorCode::usage) << name;
    return error.sentence();
  };
  EXPECT_EQ(refusal("qwen3_5", "codes", "keep"),
            "option \"codes\" needs kept or decoded, not \"keep\"");
  EXPECT_EQ(refusal("qwen3_5", "vocab", "0"),
            "option \"vocab\" needs a whole number from 1, not \"0\"");
  EXPECT_EQ(refusal("deepseek_v4", "routers", "param"),
            "option \"routers\" is one of both, collections, params, not \"param\"");
  EXPECT_EQ(refusal("deepseek_v4", "maxtext", "e591f30cbbf2"),
            "option maxtext needs the release 0.2.4, not \"e591f30cbbf2\"");
  EXPECT_EQ(refusal("deepseek", "mtp", "yes"), "option \"mtp\" needs true or false, not \"yes\"");
  const Error unknown = catch_error([&] { check("deepseek_v4", "zzz", "both"); });
  EXPECT_EQ(unknown.hint_text().find("maxtext"), std::string::npos) << unknown.hint_text();
}

TEST(Bindings, NullIsAbsentAndOtherKindsAreErrors) {
  const auto with = [](const std::string& experts) {
    return Resolved(
        kTinyFamily, true, {},
        R"({"hidden_size": 7, "num_hidden_layers": 4, "num_experts": )" + experts + "}");
  };
  EXPECT_EQ(with("null").find("params.decoder.layers.experts")->target_layout.shape[0], 2U);
  EXPECT_EQ(with("3").find("params.decoder.layers.experts")->target_layout.shape[0], 3U);
  for (const char* text : {"[1]", "\"3\"", "3.5", "-1", "99999999", "true"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(catch_error([&] { with(text); }).code(), ErrorCode::bad_input);
  }
  EXPECT_EQ(catch_error([&] { with("{}"); }).sentence(),
            "\"num_experts\" in config.json is an object instead of a value");
  EXPECT_EQ(catch_error([&] { with("123456789012345678901"); }).sentence(),
            "\"num_experts\" in config.json is an integer beyond 64 bits");
}

// The check comes before a million names are made.
TEST(Bindings, MoreLayersThanAnyModelHasAreAnError) {
  const auto of = [](int layers) {
    return R"({"hidden_size": 7, "num_hidden_layers": )" + std::to_string(layers) + "}";
  };
  EXPECT_EQ(Resolved(kTinyFamily, true, {}, of(4096))
                .find("params.decoder.layers.wi.kernel")
                ->target_layout.shape[1],
            4096U);
  const Error error = catch_error([&] { Resolved(kTinyFamily, true, {}, of(4097)); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_NE(error.sentence().find("num_hidden_layers"), std::string::npos) << error.sentence();
}

TEST(Bindings, ALoopCountsFromZeroOrMoreUpwards) {
  const auto refusal = [](const std::string& loop, int layers) {
    const std::string text = tiny_family_with(R"({"l": "L"})", "{\"l\": \"" + loop + "\"}");
    const Error error = catch_error([&] {
      Resolved(text, true, {},
               fmt::format(R"({{"hidden_size": 7, "num_hidden_layers": {}}})", layers));
    });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer/for/l");
    return error.sentence();
  };
  EXPECT_EQ(refusal("L", -3),
            "num_hidden_layers of config.json gives -3, and it can't be negative");
  EXPECT_EQ(refusal("-1 .. L", 4),
            "num_hidden_layers of config.json numbers tensors from -1 to 4, and hfshard can number "
            "at most 4096");
  EXPECT_EQ(refusal("1 .. L", -3),
            "num_hidden_layers of config.json numbers tensors from 1 to -3, and hfshard can number "
            "at most 4096");
  EXPECT_EQ(refusal("-1", 4),
            "the mapping numbers tensors from 0 to -1, and hfshard can number at most 4096");
}

TEST(Bindings, ADimThatNeedsItselfIsAnError) {
  const std::string text = tiny_family_with("\"F\": 5", "\"F\": \"cyc\", \"G\": \"F\"");
  const std::string cycle = [&] {
    std::string out = text;
    return out.replace(out.find("\"cyc\": 2"), 8, "\"cyc\": \"G\"");
  }();
  EXPECT_EQ(resolve_failure(cycle).code(), ErrorCode::bad_input);
}

// Each dim is evaluated within the one that needs it.
TEST(Bindings, DimsThatLeadThroughTooManyOthersAreAnError) {
  const auto chain = [](int length) {
    std::string dims = "\"F\": \"d0\"";
    for (int i = 0; i < length; ++i) dims += fmt::format(", \"d{}\": \"d{}\"", i, i + 1);
    return tiny_family_with("\"F\": 5", fmt::format("{}, \"d{}\": 5", dims, length));
  };
  EXPECT_EQ(Resolved(chain(22)).find("params.decoder.layers.wi.kernel")->target_layout.shape,
            (Shape{7, 4, 5}));  // F, d0 to d22: 24 dims
  EXPECT_EQ(resolve_failure(chain(23)).code(), ErrorCode::limit);
  EXPECT_EQ(resolve_failure(chain(50)).code(), ErrorCode::limit);
  EXPECT_EQ(resolve_failure(chain(20'000)).code(), ErrorCode::limit);
}

}  // namespace
}  // namespace hfshard
