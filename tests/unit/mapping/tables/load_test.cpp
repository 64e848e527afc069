#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mapping/resolve/bindings.h"
#include "mapping/tables/load_reader.h"
#include "mapping/tables/table.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

struct Broken {
  std::string old_text;
  std::string new_text;
  std::string rule;      ///< JSON pointer after the #
  std::string sentence;  ///< a part of it
};

const std::vector<Broken> kBroken = {
    {"\"family\": \"tiny\",", "\"family\": \"tiny\", \"dimms\": {},", "", "unknown key \"dimms\""},
    {"\"schema\": 1", "\"schema\": 2", "/schema", "reads schema 1"},
    {"\"schema\": 1", "\"schema\": \"1\"", "/schema", "integer"},
    {"\"family\": \"tiny\"", "\"family\": 3", "/family", "string"},
    {"{\"model_type\": [\"tiny\"]}", "{\"architectures\": []}", "/match",
     "\"model_type\" is missing"},
    {"\"hidden_size\", \"L\"", "[1], \"L\"", "/dims/D", "string"},
    {"\"hidden_size\", \"L\"", "\"1 +\", \"L\"", "/dims/D", "lacks an operand"},
    {"{\"why\": \"unused\"}", "{}", "/drop/0/1", "\"why\" is missing"},
    {"\"scan_axis\": 1", "\"scan_axis\": 8", "/schemes/maxtext/scan_axis", "8"},
    {"\"source\": \"tiny/repo loader.py\",\n    \"axes\"", "\"axes\"", "/schemes/maxtext",
     "\"source\" is missing"},
    {"\"global\"", "\"gloabl\"", "/schemes/maxtext/gloabl", "neither known"},
    {"\"separate\": ", "\"seperate\": ", "/schemes/maxtext/layer", "unknown key \"seperate\""},
    {"[\"decoder.layers.\", \"l\"]", "[]", "/schemes/maxtext/layer/stacked", "stacked must be"},
    {"[\"decoder.layers.\", \"l\"]", "[\"decoder.\", \"3\"]", "/schemes/maxtext/layer/stacked/1",
     "lacks a logical name"},
    {"\"use\": [\"mlp\"]", "\"use\": [\"mpl\"]", "/schemes/maxtext/layer/use/0",
     "no part has the name \"mpl\""},
    {"\"norm.weight [D]\"", "\"norm.weight[D]\"", "/schemes/maxtext/global/0/0", "the form"},
    {"\"norm.weight [D]\", ", "", "/schemes/maxtext/global/0", "a rule must be"},
    {"\"norm.weight [D]\"", "\"norm.weight [X]\"", "/schemes/maxtext/global/0", "isn't declared"},
    {"\"norm.weight [D]\"", "\"norm.weight [*]\"", "/schemes/maxtext/global/0", "only drops"},
    {"\"norm.scale [D]\"", "\"norm.scale [F]\"", "/schemes/maxtext/global/0",
     "\"D\" is only on the source side"},
    {"\"norm.scale [D]\"", "\"norm.scale [D F]\"", "/schemes/maxtext/global/0",
     "\"F\" is only on the target side"},
    {"\"norm.scale [D]\"", "\"norm.scale [D F]\", {\"repeat\": [\"D\", \"F\"]}",
     "/schemes/maxtext/global/0", "repeated, but the source has it"},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"repeat\": \"F\"}", "/schemes/maxtext/global/0",
     "isn't in the target"},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"wen\": true}", "/schemes/maxtext/global/0/2",
     "unknown key \"wen\""},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"axes\": {\"F\": \"mlp\"}}",
     "/schemes/maxtext/global/0", "isn't a dim here"},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"dtype\": \"f31\"}",
     "/schemes/maxtext/global/0/2/dtype", "isn't a dtype"},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"scan_axis\": -1}",
     "/schemes/maxtext/global/0/2/scan_axis", "-1"},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"value\": {}}",
     "/schemes/maxtext/global/0/2/value", "mul or add"},
    {"\"norm.scale [D]\"", "\"norm.scale [D]\", {\"value\": {\"add\": {\"expr\": 1}}}",
     "/schemes/maxtext/global/0/2/value/add", "\"const_dtype\" is missing"},
    {"\"norm.scale [D]\"",
     "\"norm.scale [D]\", {\"value\": {\"add\": {\"expr\": 1, \"const_dtype\": \"i8\"}}}",
     "/schemes/maxtext/global/0/2/value/add/const_dtype", "f32 or bf16"},
    {"\"norm.scale [D]\"",
     "\"norm.scale [D]\", {\"value\": {\"mul\": {\"expr\": 1, \"const_dtype\": \"f16\"}}}",
     "/schemes/maxtext/global/0/2/value/mul/const_dtype", "f32 or bf16"},
    {"{\"e\": \"exp\"}", "{}", "/schemes/maxtext/layer/rules/0", "axis \"e\" lacks a logical name"},
    {"{\"e\": \"exp\"}", "{\"e\": \"epx\"}", "/schemes/maxtext/layer/rules/0/2/axes/e",
     "no logical axis \"epx\""},
    {"\"F\": \"mlp\"", "\"F\": \"mpl\"", "/schemes/maxtext/axes/F", "no logical axis \"mpl\""},
    {"experts.{e}.weight", "experts.weight", "/schemes/maxtext/layer/rules/0",
     "the source name lacks"},
    {"\"experts [e D F]\"", "\"experts [D F]\"", "/schemes/maxtext/layer/rules/0",
     "\"e\" is only on the source side"},
    {"\"experts [e D F]\"", "\"experts_{e} [e D F]\"", "/schemes/maxtext/layer/rules/0",
     "in its shape"},
    {"\"experts [e D F]\"", "\"experts_{l} [e D F]\"", "/schemes/maxtext/layer/rules/0",
     "a loop of this rule"},
    {"{\"for\": {\"e\": \"E\"}, ", "{\"for\": {\"e\": \"E\", \"l\": 2}, ",
     "/schemes/maxtext/layer/rules/0", "already"},
    {"experts.{e}.weight [F D]", "experts.{e}.weight [e F D]", "/schemes/maxtext/layer/rules/0",
     "can't be an axis"},
    {"old.* [*]", "old [D X]", "/drop/0", "dim \"X\" isn't declared"},
    {"\"use\": [\"mlp\"]", "\"require\": [\"L\"]", "/schemes/maxtext/layer/require/0", "array"},
    {"\"use\": [\"mlp\"]", "\"fill\": [[\"0\", \"x [D]\"]]", "/schemes/maxtext/layer/fill/0/0",
     "number"},
    {"\"use\": [\"mlp\"]", "\"fill\": [[0]]", "/schemes/maxtext/layer/fill/0",
     "a fill must be [number, target]"},
    {"\"use\": [\"mlp\"]", "\"fill\": [[0, \"x [*]\"]]", "/schemes/maxtext/layer/fill/0",
     "only drops"},
    {"\"global\"", "\"rename\": [[\"a*\"]], \"global\"", "/schemes/maxtext/rename/0",
     "this must be [from*, to*]"},
    {"\"global\"", "\"rename\": [[\"a*\", \"b*\", \"D > 1\", \"\"]], \"global\"",
     "/schemes/maxtext/rename/0", "this must be [from*, to*]"},
    {"\"global\"", "\"rename\": [[\"a\", \"b*\"]], \"global\"", "/schemes/maxtext/rename/0/0",
     "ends in *"},
    {"\"global\"", "\"rename\": [[\"a*\", \"b\"]], \"global\"", "/schemes/maxtext/rename/0/1",
     "ends in *"},
    {"\"stacked\": [\"decoder.layers.\", \"l\"],\n              \"separate\": "
     "\"decoder.layers_{l}.\", ",
     "", "/schemes/maxtext/layer", "\"stacked\" or \"separate\" is missing"},
    {"\"stacked\": [\"decoder.layers.\", \"l\"],\n              \"separate\": "
     "\"decoder.layers_{l}.\", ",
     "\"stacked\": true, ", "/schemes/maxtext/layer/stacked", "only with a separate prefix"},
    {"[\"decoder.layers.\", \"l\"]", "false", "/schemes/maxtext/layer/stacked",
     "only with a separate prefix"},
    {R"({"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 3, "num_experts": 4})", "3",
     "/example", "this must be an object"},
    {R"("dims")", R"("sizes": {"x": 3}, "dims")", "/sizes/x", "this must be an object"},
    {R"("maxtext": {)", R"("own": {"root": "", "scan_axis": 0, "source": "a.py"}, "maxtext": {)",
     "/schemes/own", R"("axes" is missing)"},
    {R"("maxtext": {)",
     R"("own": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {}, "axis_rules": [["embed"]]}, "maxtext": {)",
     "/schemes/own/axis_rules/0", "an axis rule must be [logical axis, [mesh axis, ...]]"},
    {R"("maxtext": {)",
     R"("own": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {}, "axis_rules": [["embed", ["x"], 1]]}, "maxtext": {)",
     "/schemes/own/axis_rules/0", "an axis rule must be [logical axis, [mesh axis, ...]]"},
    {R"("maxtext": {)",
     R"("own": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {}, "global":
               [["a [D]", "b.scale [D]", {"collection": "c"}]]}, "maxtext": {)",
     "/schemes/own/global/0/2/collection", "this scheme has no keys above its names"},
    {R"("maxtext": {)", R"("own": 3, "maxtext": {)", "/schemes/own", "this must be an object"},
    {R"("dims")", R"("decode": [{"kind": "mx", "dtype": "U9", "scale": "s"}], "dims")",
     "/decode/0/dtype", R"("U9" isn't a dtype of safetensors)"},
    {R"("dims")",
     R"("decode": [{"kind": "mx", "dtype": "U8", "scale": "s", "multiply": "a", "divide": "b"}], "dims")",
     "/decode/0", "a factor must multiply or divide scales"},
    {R"("dims")", R"("decode": [{"kind": "gguf", "dtype": "U8", "scale": "s"}], "dims")",
     "/decode/0/kind", R"(a decoder can be block, tensor, mx, int4, int8 or packed, not "gguf")"},
    {R"("dims")", R"("decode": [{"kind": "mx", "scale": "s"}], "dims")", "/decode/0",
     "a decoder needs a name or a dtype"},
    {R"("dims")",
     R"("decode": [{"kind": "block", "dtype": "U8", "scale": "s", "block": [4]}], "dims")",
     "/decode/0/block", "a block needs rows and columns"},
    {R"("dims")",
     R"("decode": [{"kind": "mx", "dtype": "U8", "scale": "s", "rounds": "code"}], "dims")",
     "/decode/0/rounds", R"(a decoder can round only to "scale")"},
    {R"("layer": {"for")", R"("la/y~er": {"fro")", "/schemes/maxtext/la~1y~0er",
     R"(unknown key "fro")"},
    {R"("norm.weight [D]")", R"(" [D]")", "/schemes/maxtext/global/0/0", "the form"},
    {R"("norm.scale [D]")", R"("norm.scale [D]", {"source": 3})",
     "/schemes/maxtext/global/0/2/source", "this must be an array"},
    {R"("norm.scale [D]")", R"("norm.scale [D]", {"copy": 1})", "/schemes/maxtext/global/0/2/copy",
     "this must be true or false"},
    {R"("norm.scale [D]")", R"("norm.scale [*]")", "/schemes/maxtext/global/0", "only drops"},
    {R"({"l": "L"})", "{}", "/schemes/maxtext/layer/for", "this must be a loop"},
    {R"({"l": "L"})", "3", "/schemes/maxtext/layer/for", "this must be an object"},
    {R"("experts.{e}.weight [F D]")", R"("experts.{e}.weight [l F D]")",
     "/schemes/maxtext/layer/rules/0", R"(loop "l" can't be an axis)"},
    {R"("experts [e D F]")", R"("experts [l e D F]")", "/schemes/maxtext/layer/rules/0",
     R"(loop "l" can't be an axis)"},
    {R"("use": ["mlp"])", R"("require": [["L"]])", "/schemes/maxtext/layer/require/0",
     "a requirement must be [condition, sentence]"},
    {R"(, {"why": "unused"}])", "]", "/drop/0", "a drop must be [source, modifiers]"},
    {R"("global")", R"("notes": [["a", "L", "b"]], "global")", "/schemes/maxtext/notes/0",
     "this must be a pair [text, condition]"},
    {R"("global")", R"("warnings": [["a"]], "global")", "/schemes/maxtext/warnings/0",
     "this must be a pair [text, condition]"},
    {R"("global")", R"("model_names": [["a*"]], "global")", "/schemes/maxtext/model_names/0",
     "this must be a pair [glob, condition]"},
};

TEST(LoadTable, ReadsWhatTheFileSays) {
  const MappingTable table = load_table(tiny_file(kTinyFamily));
  EXPECT_EQ(table.family, "tiny");
  EXPECT_EQ(table.path, "mappings/tiny.json");
  ASSERT_EQ(table.schemes.size(), 1U);
  const Scheme& scheme = table.schemes[0];
  EXPECT_EQ(scheme.root, (std::vector<std::string>{"params"}));
  ASSERT_EQ(scheme.groups.size(), 1U);
  ASSERT_EQ(scheme.groups[0].rules.size(), 2U);
  EXPECT_EQ(scheme.groups[0].rules[0].pointer, "mappings/tiny.json#/schemes/maxtext/parts/mlp/0");
  EXPECT_EQ(scheme.groups[0].rules[1].pointer, "mappings/tiny.json#/schemes/maxtext/layer/rules/0");
  EXPECT_EQ(scheme.groups[0].rules[1].modifiers.loops[0].name, "e");
  EXPECT_TRUE(table.options.empty());
}

TEST(LoadTable, FindsTheOptionsThatItsExpressionsUse) {
  const std::string text =
      tiny_family_with("\"F\": 5", "\"F\": \"option.width ?? (option.mtp ? 3 : 5)\"");
  EXPECT_EQ(load_table(tiny_file(text)).options, (std::vector<std::string>{"mtp", "width"}));
  const auto options = [](std::string_view old_text, std::string_view new_text) {
    return load_table(tiny_file(tiny_family_with(old_text, new_text))).options;
  };
  const std::vector<std::string> own{"own"};
  EXPECT_EQ(options(R"({"why": "unused"})", R"({"why": "unused", "when": "option.own"})"), own);
  EXPECT_EQ(options(R"("scan_axis": 1)", R"("scan_axis": 1, "settings": {"x": "option.own"})"),
            own);
  const std::string scheme = R"("scan_axis": 1)";
  for (const char* member :
       {R"("require": [["option.own", "why"]])", R"("notes": [["note", "option.own"]])",
        R"("warnings": [["text", "option.own"]])", R"("model_names": [["a*", "option.own"]])",
        R"("fill": [[1, "x [D]", {"when": "option.own"}]])",
        R"("drop": [["x [*]", {"why": "w", "when": "option.own"}]])"})
    EXPECT_EQ(options(scheme, scheme + ", " + member), own) << member;
  EXPECT_EQ(options(R"("norm.scale [D]")", R"("norm.scale [D]", {"when": "option.own"})"), own);
  EXPECT_EQ(options(R"({"e": "E"}, "axes")", R"({"e": "option.own"}, "axes")"), own);
  EXPECT_EQ(options(R"("use": ["mlp"])",
                    R"("fill": [[1, "x [D]", {"when": "option.own"}]], "use": ["mlp"])"),
            own);
}

TEST(LoadTable, NamesThePlaceOfAMistake) {
  for (const Broken& broken : kBroken) {
    SCOPED_TRACE(broken.old_text + " -> " + broken.new_text);
    const std::string text = tiny_family_with(broken.old_text, broken.new_text);
    const Error error = catch_error([&] { load_table(tiny_file(text)); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.rule(), "mappings/tiny.json#" + broken.rule);
    EXPECT_NE(error.sentence().find(broken.sentence), std::string::npos) << error.sentence();
  }
}

TEST(LoadTable, AFamilyHasAScheme) {
  const std::string only_rest = R"({"own": {"root": "", "rest": "maxtext", "scan_axis": 0,
                                            "source": "a.py", "axes": {}}})";
  for (const std::string& schemes : {std::string("{}"), only_rest}) {
    const Error error = catch_error([&] {
      load_table(tiny_file(R"({"schema": 1, "family": "tiny", "match": {"model_type": "tiny"},
                               "dims": {}, "example": {}, "schemes": )" +
                           schemes + "}"));
    });
    EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes");
    EXPECT_EQ(error.sentence(), "this must be a scheme");
  }
}

TEST(LoadTable, AFamilyMayHaveNoDrops) {
  const MappingTable table =
      load_table(tiny_file(tiny_family_with(R"("drop": [["old.* [*]", {"why": "unused"}]],)", "")));
  EXPECT_TRUE(table.drops.empty());
  EXPECT_TRUE(table.schemes[0].drops.empty());
}

// Without axis rules, a logical axis can have any name. Parts without a section for a scheme add
// nothing to it.
TEST(LoadTable, ASchemeThatHfshardDoesNotKnowNeedsNoAxisRules) {
  const MappingTable table = load_table(tiny_file(tiny_family_with(
      R"("maxtext": {)",
      R"("own": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {"D": "any"},
                 "global": [["a [D]", "b [D]"]],)"
      R"(        "layer": {"for": {"i": "L"}, "hf": "h.{i}.", "separate": "s_{i}.",
                           "use": ["mlp"], "rules": [["c [D]", "d [D]"]]}},
         "maxtext": {)")));
  const Scheme& own = table.scheme_or_main("own");
  EXPECT_TRUE(own.axis_names.empty());
  EXPECT_EQ(own.axes.at("D"), "any");
  ASSERT_EQ(own.groups.size(), 1U);
  ASSERT_EQ(own.groups[0].rules.size(), 1U);
  EXPECT_EQ(own.groups[0].rules[0].pointer, "mappings/tiny.json#/schemes/own/layer/rules/0");
}

TEST(LoadTable, AGroupOfLayersHasRules) {
  std::string text = tiny_family_with("\"use\": [\"mlp\"], ", "");
  const std::size_t begin = text.find(",\n              \"rules\"");
  ASSERT_NE(begin, std::string::npos);
  text.erase(begin, text.find("}}},\n  \"example\"") - begin);
  const Error error = catch_error([&] { load_table(tiny_file(text)); });
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer");
  EXPECT_EQ(error.sentence(), "a layer group needs rules or parts to use");
}

TEST(LoadTable, ADecoderMatchesByNameAndDtypeAndNamesItsScales) {
  const MappingTable table = load_table(tiny_file(tiny_family_with(
      "\"dims\"",
      R"("decode": [{"kind": "mx", "name": "*_blocks", "dtype": "U8", "scale": "{stem}_scales"},
                   {"kind": "block", "dtype": "F8_E4M3", "scale": "{name}_s", "block": [4, "F"]}],
         "dims")")));
  const Bindings bindings(table, table.example, {}, {});
  ASSERT_EQ(table.decodes.size(), 2U);
  EXPECT_EQ(table.decodes[0].kind, DecodeKind::mx);
  EXPECT_TRUE(table.decodes[0].takes("a.up_blocks", DType::u8, bindings));
  EXPECT_FALSE(table.decodes[0].takes("a.up_blocks", DType::bf16, bindings));
  EXPECT_TRUE(table.decodes[0].takes("a.up_blocks", std::nullopt, bindings));
  EXPECT_FALSE(table.decodes[0].takes("a.up", DType::u8, bindings));
  EXPECT_EQ(table.decodes[0].scale_name("a.up_blocks"), "a.up_scales");
  EXPECT_EQ(table.decodes[1].scale_name("a.weight"), "a.weight_s");
  EXPECT_EQ(table.decodes[1].block.size(), 2U);
}

TEST(LoadTable, ADecoderTakesTensorsOnlyIfItsConditionHolds) {
  const auto takes = [](const char* when) {
    const MappingTable table = load_table(tiny_file(tiny_family_with(
        "\"dims\"", fmt::format(R"("decode": [{{"kind": "mx", "name": "*_blocks", "dtype": "U8",
                    "scale": "s", "when": "{}"}}], "dims")",
                                when))));
    const Bindings bindings(table, table.example, {}, {});
    return table.decodes.at(0).takes("a.up_blocks", DType::u8, bindings);
  };
  EXPECT_TRUE(takes("D > 6"));
  EXPECT_FALSE(takes("D > 7"));
}

TEST(LoadTable, ADecoderNamesTheStoredTensorOfAValue) {
  DecodeRule rule;
  rule.name = "*.weight_packed";
  rule.as = "{stem}.weight";
  EXPECT_EQ(rule.stored_name("a.weight"), "a.weight_packed");
  EXPECT_EQ(rule.stored_name("a.biases"), "");
}

TEST(JsonAt, AnElementThatIsAbsentIsAnErrorWithThePlace) {
  const Json list = parse_json("[5, 6]", "x");
  const JsonAt at(list, "x#");
  EXPECT_EQ(at.at(std::size_t{1}).integer(), 6);
  for (const std::size_t index : {2U, 3U}) {
    const Error error = catch_error([&] { static_cast<void>(at.at(index)); });
    EXPECT_EQ(error.sentence(), fmt::format("element {} is missing; there are 2", index));
    EXPECT_EQ(error.rule(), "x#");
  }
}

TEST(JsonAt, EachKeyThatABlockRequiresMustBeThere) {
  for (const Block block : all_blocks()) {
    Json whole{Json::Object{}};
    for (const BlockKey& key : block_keys(block)) {
      if (key.required) whole[std::string(key.name)] = 1;
    }
    EXPECT_NO_THROW(JsonAt(whole, "x#").check_keys(block)) << to_string(block);
    for (const auto& [name, value] : whole.as_object()) {
      Json less = whole;
      less.object().erase(name);
      const Error error = catch_error([&] { JsonAt(less, "x#").check_keys(block); });
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_EQ(error.sentence(), fmt::format("key \"{}\" is missing", name)) << to_string(block);
      EXPECT_EQ(error.rule(), "x#");
    }
  }
}

TEST(LoadTable, HintsNameTheDimsAndAxesThatAreKnown) {
  const auto hint = [](std::string_view old_text, std::string_view new_text) {
    const std::string text = tiny_family_with(old_text, new_text);
    return catch_error([&] { load_table(tiny_file(text)); }).hint_text();
  };
  EXPECT_EQ(hint("norm.weight [D]", "norm.weight [X]"), "dims are D E F L cyc");
  EXPECT_EQ(hint(R"({"e": "exp"})", "{}"),
            "add it under axes, with null if it has no logical name");
  const auto own = [&](const std::string& axis) {
    return tiny_family_with(
        R"("maxtext": {)",
        R"("own": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {"D": ")" + axis +
            R"("}, "axis_rules": [["wide", []], ["deep", []]],
               "axes_without_rules": ["tall"]}, "maxtext": {)");
  };
  const auto hint_for = [&](const std::string& axis) {
    return catch_error([&] { load_table(tiny_file(own(axis))); }).hint_text();
  };
  EXPECT_EQ(hint_for("wdie"), "did you mean wide?");
  EXPECT_EQ(hint_for("zzzzzzzzzzzz"), "they have deep, tall, wide");
  EXPECT_EQ(load_table(tiny_file(own("tall"))).scheme_or_main("own").axes.at("D"), "tall");
}

TEST(LoadTable, RefusesADuplicateKey) {
  const std::string text =
      tiny_family_with("\"family\": \"tiny\",", "\"family\": \"a\", \"family\": \"b\",");
  EXPECT_EQ(catch_error([&] { load_table(tiny_file(text)); }).code(), ErrorCode::bad_input);
}

TEST(LoadTable, TheMainSchemeIsMaxTextsOrElseTheFirst) {
  const std::string both = tiny_family_with(
      R"("maxtext": {)",
      R"("alpha": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {}}, "maxtext": {)");
  const MappingTable table = load_table(tiny_file(both));
  EXPECT_EQ(table.scheme_or_main("").name, "maxtext");
  EXPECT_EQ(table.scheme_or_main("alpha").name, "alpha");
  const Error error = catch_error([&] { table.scheme_or_main("beta"); });
  EXPECT_EQ(error.sentence(), "family \"tiny\" has no scheme \"beta\"");
  EXPECT_EQ(error.file(), "mappings/tiny.json");
  EXPECT_EQ(error.hint_text(), "its schemes are alpha, maxtext");
  const MappingTable own = load_table(tiny_file(tiny_family_with(
      R"("maxtext": {)",
      R"("beta": {"root": "", "scan_axis": 0, "source": "a.py", "axes": {}}, "alpha": {)")));
  EXPECT_EQ(own.scheme_or_main("").name, "alpha");
}

}  // namespace
}  // namespace hfshard
