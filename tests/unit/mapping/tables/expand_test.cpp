#include "mapping/tables/expand.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/expand_rules.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

Json expanded(const std::string& text) { return expand_family(tiny_file(text)).json; }
Error load_failure(const std::string& text) {
  return catch_error([&] { load_table(tiny_file(text)); });
}

const Json& layer(const Json& family) { return family.at("schemes").at("maxtext").at("layer"); }

// Returns the tiny family with an additional `use` entry in its layers.
std::string with_use(const std::string& entry) {
  return tiny_family_with("\"use\": [\"mlp\"]", "\"use\": [\"mlp\", " + entry + "]");
}

TEST(ExpandFamily, IsAFamilyFileThatExpandsToItself) {
  for (const FamilyFile& file : embedded_families()) {
    SCOPED_TRACE(std::string(file.path));
    const Json once = expand_family(file).json;
    for (const char* key : {"use", "tensors"}) EXPECT_EQ(once.find(key), nullptr) << key;
    const std::string text = dump_json(once);
    EXPECT_EQ(expand_family({file.name, file.path, text}).json, once);
  }
}

TEST(ExpandFamily, ARuleMayNameATensorOrReadItInAnotherPattern) {
  const std::string text =
      tiny_family_with("\"drop\"", "\"tensors\": {\"last\": \"norm.weight [D]\"}, \"drop\"");
  const auto rules = [&](const std::string& rule) {
    std::string out = text;
    const std::string old = R"(["norm.weight [D]", "norm.scale [D]"])";
    return expanded(out.replace(out.find(old), old.size(), rule))
        .at("schemes")
        .at("maxtext")
        .at("global");
  };
  EXPECT_EQ(dump_json(rules(R"(["last", "norm.scale [D]"])")),
            R"([["norm.weight [D]","norm.scale [D]"]])");
  EXPECT_EQ(dump_json(rules(R"(["last [F@0:D]", "norm.scale [F]"])")),
            R"([["norm.weight [F@0:D]","norm.scale [F]"]])");
  const Error error = catch_error([&] { rules(R"(["lasd", "norm.scale [D]"])"); });
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/global/0/0");
  EXPECT_NE(error.hint_text().find("last"), std::string::npos);
}

TEST(ExpandFamily, ModifiersAreJoinedAndHaveNames) {
  const std::string named = tiny_family_with(
      "\"global\"",
      R"("modifiers": {"wide": {"dtype": "f32", "when": "D > 2", "axes": {"D": null}}}, "global")");
  const auto modifiers = [&](const std::string& words) {
    std::string out = named;
    const std::string old = "\"norm.scale [D]\"";
    out.replace(out.find(old), old.size(), old + ", " + words);
    return dump_json(
        expanded(out).at("schemes").at("maxtext").at("global").as_array()[0].as_array()[2]);
  };
  EXPECT_EQ(modifiers("\"wide\""), R"({"axes":{"D":null},"dtype":"f32","when":"D > 2"})");
  EXPECT_EQ(modifiers(R"({"when": "L > 1", "stays": "f32"}, "wide")"),
            R"x({"axes":{"D":null},"dtype":"f32","stays":"f32","when":"(D > 2) && (L > 1)"})x");
  const Error error = catch_error([&] { modifiers("\"wied\""); });
  EXPECT_NE(error.hint_text().find("wide"), std::string::npos);
}

TEST(ExpandFamily, APartIsTakenWithArguments) {
  const Json family = expanded(with_use(
      R"({"part": "mlp", "at": "shared.", "to": "other.", "when": "L > 1", "dims": {"F": "E"},
          "only": ["up", "down"], "with": {"stays": "f32"}})"));
  EXPECT_EQ(dump_json(layer(family).at("use")), R"(["mlp"])");
  const Json::Array& rules = layer(family).at("rules").as_array();
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(dump_json(rules[0]), R"(["shared.up_proj.weight [E D]","other.wi_1.kernel [D E]",)"
                                 R"({"stays":"f32","when":"L > 1"}])");
  EXPECT_EQ(rules[1].as_array()[0].as_string(), "shared.down_proj.weight [D E]");
  EXPECT_EQ(rules[2].as_array()[1].as_string(), "experts [e D F]");
}

TEST(ExpandFamily, AListedTensorKeepsItsRulesInOtherPatterns) {
  const auto rules_of = [](const std::string& only) {
    const Json family =
        expanded(with_use(R"({"part": "fused_experts", "only": [")" + only + R"("]})"));
    std::vector<std::string> out;
    for (const Json& rule : layer(family).at("rules").as_array())
      out.push_back(rule.as_array()[0].as_string() + " -> " + rule.as_array()[1].as_string());
    return out;
  };
  const std::string own = "experts.{e}.weight [F D] -> experts [e D F]";
  EXPECT_EQ(rules_of("gate_up"),
            (std::vector<std::string>{
                "mlp.experts.gate_up_proj [E Fe@0:2*Fe D] -> moe_block.wi_0 [E D Fe]",
                "mlp.experts.gate_up_proj [E Fe@Fe:2*Fe D] -> moe_block.wi_1 [E D Fe]", own}));
  EXPECT_EQ(rules_of("down"), (std::vector<std::string>{
                                  "mlp.experts.down_proj [E D Fe] -> moe_block.wo [E Fe D]", own}));
}

TEST(ExpandFamily, DimsOfAPartAreRenamedInItsPatternsAndAxes) {
  const Json family = expanded(
      with_use(R"({"part": "qwen_vision_block", "at": "v.", "to": "w.", "only": ["qkv_bias"],
                   "dims": {"Dv": "X", "Hw": "Y"}})"));
  const Json::Array& rules = layer(family).at("rules").as_array();
  ASSERT_EQ(rules.size(), 4U);
  const std::string axes = R"({"axes":{"Y":"kv_heads","hw":"kv_head_dim"}}])";
  EXPECT_EQ(dump_json(rules[1]),
            R"(["v.attn.qkv.bias [(Y hw)@X:3*X]","w.attn.attn.key.bias [Y hw]",)" + axes);
  EXPECT_EQ(dump_json(rules[2]),
            R"(["v.attn.qkv.bias [(Y hw)@2*X:3*X]","w.attn.attn.value.bias [Y hw]",)" + axes);
}

TEST(ExpandFamily, DimsOfAPartAreRenamedWhereARuleRepeatsThem) {
  const Json parts = parse_json(R"({"p": {"about": "x"}})", "parts");
  const Json entry = parse_json(R"({"part": "p", "dims": {"K": "X"}})", "entry");
  const PartUse use = read_use(JsonAt(entry, "entry#"), JsonAt(parts, "parts#"));
  const auto rule = [&](const std::string& repeat) {
    const Json json =
        parse_json(R"(["w [D]", "k [K h D]", {"repeat": )" + repeat + R"(}])", "rule");
    return dump_json(expand_rule(JsonAt(json, "rule#"), ListKind::rules, &use, {})->json);
  };
  EXPECT_EQ(rule(R"(["K", "h"])"), R"(["w [D]","k [X h D]",{"repeat":["X","h"]}])");
  EXPECT_EQ(rule(R"("K")"), R"(["w [D]","k [X h D]",{"repeat":["X"]}])");
}

TEST(ExpandFamily, DimsOfAPartAreRenamedInItsLoopsAndValues) {
  const Json parts = parse_json(R"({"p": {"about": "x"}})", "parts");
  const Json entry = parse_json(R"({"part": "p", "dims": {"K": "X", "f32": "Y"}})", "entry");
  const PartUse use = read_use(JsonAt(entry, "entry#"), JsonAt(parts, "parts#"));
  const auto modifiers = [&](const std::string& text) {
    const Json json = parse_json(R"(["w [D]", "k [D]", )" + text + "]", "rule");
    const auto made = expand_rule(JsonAt(json, "rule#"), ListKind::rules, &use, {});
    return dump_json(made->json.as_array().at(2));
  };
  EXPECT_EQ(modifiers(R"({"for": {"i": "K - 1", "k": "1 .. K"}})"),
            R"({"for":{"i":"X - 1","k":"1 .. X"}})");
  EXPECT_EQ(modifiers(R"({"value": {"mul": {"expr": "1 / K", "const_dtype": "f32"},
                                    "add": {"expr": "f32", "const_dtype": "f32"}}})"),
            R"({"value":{"add":{"const_dtype":"f32","expr":"Y"},)"
            R"("mul":{"const_dtype":"f32","expr":"1 / X"}}})");
}

TEST(ExpandFamily, AnErrorNamesTheUseAndThePart) {
  const Error error = load_failure(with_use(R"({"part": "mlp", "dims": {"F": "Q"}})"));
  EXPECT_EQ(error.rule(),
            "mappings/tiny.json#/schemes/maxtext/layer/use/1 -> "
            "mappings/common.json#/parts/mlp/schemes/maxtext/rules/0");
  EXPECT_NE(error.sentence().find("\"Q\" isn't declared"), std::string::npos);
  const Error part = load_failure(with_use("\"mpl\""));
  EXPECT_EQ(part.rule(), "mappings/tiny.json#/schemes/maxtext/layer/use/1");
  EXPECT_NE(part.hint_text().find("mlp"), std::string::npos);
  const Error far = load_failure(with_use("\"zzzzzzzzzzzz\""));
  EXPECT_EQ(far.sentence(), "no part has the name \"zzzzzzzzzzzz\"");
  EXPECT_EQ(far.hint_text(), "");
  const Error only = load_failure(with_use(R"({"part": "mlp", "only": ["gat"]})"));
  EXPECT_NE(only.hint_text().find("gate"), std::string::npos);
  EXPECT_EQ(load_failure(with_use(R"({"part": "mlp", "form": "x."})")).rule(),
            "mappings/tiny.json#/schemes/maxtext/layer/use/1");
}

// A rule that isn't written out has no elements of its own to point to.
TEST(ExpandFamily, AnErrorInAnExpandedRuleNamesTheRule) {
  EXPECT_EQ(load_failure(with_use(R"({"part": "mlp", "with": {"dtype": "f31"}})")).rule(),
            "mappings/tiny.json#/schemes/maxtext/layer/use/1 -> "
            "mappings/common.json#/parts/mlp/schemes/maxtext/rules/0");
  const std::string rule = "[\"norm.weight [D]\", \"norm.scale [D]\"]";
  const std::string words =
      R"("modifiers": {"odd": {"dtype": "f31"}, "wide": {"stays": "f32"}}, "global")";
  const auto place = [&](const std::string& own, const std::string& tensor = "norm.weight [D]") {
    std::string text = tiny_family_with("\"global\"", words);
    text.replace(text.find("\"drop\""), 6, "\"tensors\": {\"last\": \"" + tensor + "\"}, \"drop\"");
    const Error error = load_failure(text.replace(text.find(rule), rule.size(), own));
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.rule();
  };
  const std::string global = "mappings/tiny.json#/schemes/maxtext/global/0";
  EXPECT_EQ(place(R"(["norm.weight [D]", "norm.scale [D]", {"dtype": "f31"}])"),
            global + "/2/dtype");
  EXPECT_EQ(place(R"(["norm.weight [D]", "norm.scale [D]", "odd"])"), global);
  EXPECT_EQ(place(R"(["norm.weight [D]", "norm.scale [D]", "wide", {"dtype": "f31"}])"), global);
  EXPECT_EQ(place(R"(["last", "norm.scale [D]", {"dtype": "f31"}])"), global);
  EXPECT_EQ(place(R"(["last", "norm.scale [D]"])", "norm.weight[D]"), global);
}

TEST(ExpandFamily, DimsOfAPartAreDefaults) {
  const std::string text =
      tiny_family_with("\"dims\": {", "\"use\": [\"decoder\"], \"dims\": {\"h\": 3, ");
  const Json dims = expanded(text).at("dims");
  EXPECT_EQ(dims.at("H").as_string(), "num_attention_heads");
  EXPECT_EQ(dims.at("h").as_int(), 3);
  EXPECT_EQ(dims.at("F").as_int(), 5);
}

TEST(ExpandFamily, RulesOfABlockShareAPrefixAndModifiers) {
  const Json global =
      expanded(
          tiny_family_with(
              R"(["norm.weight [D]", "norm.scale [D]"])",
              R"({"to": "deep.er.", "with": {"when": "D > 1"}, "rules": [["norm.weight [D]", "norm.scale [D]"]]})"))
          .at("schemes")
          .at("maxtext")
          .at("global");
  EXPECT_EQ(dump_json(global),
            R"([["norm.weight [D]","deep.er.norm.scale [D]",{"when":"D > 1"}]])");
}

TEST(ExpandFamily, ABlockInABlockIsRefused) {
  const Error error = load_failure(
      tiny_family_with(R"(["norm.weight [D]", "norm.scale [D]"])",
                       R"({"rules": [{"rules": [["norm.weight [D]", "norm.scale [D]"]]}]})"));
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/global/0/rules/0");
  EXPECT_EQ(error.sentence(), "this must be an array");
}

TEST(ExpandFamily, ADropOfAPartMayBeOfOneSchemeAlone) {
  const Json family = expand_family(family_by_name("qwen3_5")).json;
  const auto drops_towers = [](const Json* list) {
    return list != nullptr && dump_json(*list).find("{vis}*") != std::string::npos;
  };
  EXPECT_TRUE(drops_towers(family.at("schemes").at("maxtext").find("drop")));
  EXPECT_FALSE(drops_towers(family.at("schemes").at("torchtitan").find("drop")));
  EXPECT_FALSE(drops_towers(family.find("drop")));
}

TEST(ExpandFamily, TheConditionOfAUseAppliesToDropsAndFillsToo) {
  const Json family = expanded(tiny_family_with(
      R"("scan_axis": 1)",
      R"("scan_axis": 1, "use": [{"part": "head", "to": "x.", "when": "L > 1"}])"));
  const Json& scheme = family.at("schemes").at("maxtext");
  EXPECT_EQ(
      dump_json(family.at("drop")),
      R"x([["{head} [V D]",{"same_as":"{pre}embed_tokens.weight","when":"(L > 1) && (tied)",)x"
      R"("why":"tied to the embedding, stored twice"}],["old.* [*]",{"why":"unused"}]])");
  EXPECT_EQ(dump_json(scheme.at("drop")),
            R"x([["{head} [cut@Vm:V D]",{"when":"(L > 1) && (!tied && cut > 0)",)x"
            R"("why":"rows beyond --vocab"}]])");
  EXPECT_EQ(dump_json(scheme.at("fill")),
            R"([[0,"x.decoder.logits_dense.kernel [D pad@V:Vm]",{"axes":{"D":"embed_vocab"},)"
            R"x("when":"(L > 1) && (!tied && pad > 0)"}]])x");
}

TEST(ExpandFamily, ASchemeDropsTensorsOfAPartThatOnlyItsLayersUse) {
  const std::string drops =
      R"([["{head} [cut@Vm:V D]",{"when":"!tied && cut > 0","why":"rows beyond --vocab"}]])";
  const Json in_layers = expanded(with_use(R"("head")"));
  EXPECT_EQ(dump_json(in_layers.at("schemes").at("maxtext").at("drop")), drops);
  EXPECT_EQ(in_layers.at("schemes").at("maxtext").find("fill"), nullptr);
  EXPECT_EQ(dump_json(layer(in_layers).at("fill")),
            R"([[0,"decoder.logits_dense.kernel [D pad@V:Vm]",{"axes":{"D":"embed_vocab"},)"
            R"("when":"!tied && pad > 0"}]])");
  const Json in_local =
      expanded(tiny_family_with(R"("parts": {"mlp": [["up.weight [F D]", "wi.kernel [D F]"]]})",
                                R"("parts": {"mlp": {"use": "head"}})"));
  EXPECT_EQ(dump_json(in_local.at("schemes").at("maxtext").at("drop")), drops);
}

TEST(ExpandFamily, AUseOverridesThePrefixOfItsPart) {
  const auto first_target = [](const std::string& use) {
    return layer(expanded(with_use(use))).at("rules").as_array()[0].as_array()[1].as_string();
  };
  EXPECT_EQ(first_target(R"({"part": "router"})"), "moe_block.gate.kernel [D E]");
  EXPECT_EQ(first_target(R"({"part": "router", "to": ""})"), "gate.kernel [D E]");
}

TEST(ExpandFamily, APartNeedsADescription) {
  const Json parts = parse_json(R"({"p": {"at": "a."}})", "parts");
  const Json entry = parse_json(R"("p")", "entry");
  const Error error =
      catch_error([&] { read_use(JsonAt(entry, "entry#"), JsonAt(parts, "parts#")); });
  EXPECT_EQ(error.sentence(), "key \"about\" is missing");
  EXPECT_EQ(error.rule(), "parts#/p");
}

TEST(ExpandFamily, SizesAreListsOfValuesForTheKeys) {
  const auto sizes = [](const std::string& text) {
    return dump_json(
        expanded(tiny_family_with("\"example\"", "\"sizes\": " + text + ", \"example\""))
            .at("sizes"));
  };
  EXPECT_EQ(
      sizes(
          R"({"all": {"a": 1}, "keys": ["t.b", "c"], "models": {"x": [2, 3], "y": "x", "z": [4, 5, {"t.d": 6}]}})"),
      R"({"x":{"a":1,"c":3,"t":{"b":2}},"y":{"a":1,"c":3,"t":{"b":2}},)"
      R"("z":{"a":1,"c":5,"t":{"b":4,"d":6}}})");
  EXPECT_EQ(
      sizes(R"({"all": {"a": 1}, "keys": ["b"], "models": {"x": {"t.b": 2, "c": 3}, "y": [4]}})"),
      R"({"x":{"a":1,"c":3,"t":{"b":2}},"y":{"a":1,"b":4}})");
  EXPECT_EQ(sizes(R"({"x": {"a": 1}})"), R"({"x":{"a":1}})");
  for (const char* wrong :
       {R"({"keys": ["a"], "models": {"x": [1, 2, 3]}})", R"({"keys": ["a"], "models": {"x": []}})",
        R"({"models": {"x": "y"}})", R"({"models": {"x": "x"}})", R"({"models": {}, "kyes": []})"})
    EXPECT_EQ(catch_error([&] { sizes(wrong); }).code(), ErrorCode::bad_input) << wrong;
  const auto refused = [&](const char* text) {
    return catch_error([&] { sizes(text); }).sentence();
  };
  EXPECT_EQ(refused(R"({"keys": ["a", "b"], "models": {"x": [1, 2, {}, {}]}})"),
            "the number of values is 4, but that of the keys is 2");
  EXPECT_EQ(refused(R"({"keys": ["a", "b"], "models": {"x": [1]}})"),
            "the number of values is 1, but that of the keys is 2");
  EXPECT_EQ(refused(R"({"models": {"x": "x"}})"), "this names a model that only names another one");
}

TEST(ExpandFamily, OnlyDimsAreRenamedAndNotTheKeysOfPaths) {
  const DimNames dims{{"a", "x"}};
  EXPECT_EQ(renamed("a + a.b + b.a + aa", dims), "x + a.b + b.a + aa");
  EXPECT_EQ(renamed("(a)", dims), "(x)");
}

TEST(ExpandFamily, DimsInANameAreRenamedOnlyInBraces) {
  const Json parts = parse_json(
      R"({"p": {"about": "x", "tensors": {"t": "a{a}b{b}.{c}a [a (b c)]", "plain": "b"}}})",
      "parts");
  const Json entry =
      parse_json(R"({"part": "p", "at": "a.", "dims": {"a": "x", "b": "y"}})", "entry");
  EXPECT_EQ(part_tensors(read_use(JsonAt(entry, "entry#"), JsonAt(parts, "parts#"))),
            (TensorSides{{"plain", "a.b"}, {"t", "a.a{x}b{y}.{c}a [x (y c)]"}}));
}

TEST(ExpandFamily, SourcesAreWrittenOut) {
  const Json family = expanded(
      tiny_family_with("\"source\": \"tiny/repo loader.py\",\n    \"axes\"",
                       "\"source\": [\"maxtext:models/tiny.py\", \"x:y\"],\n    \"axes\""));
  const Json::Array& sources = family.at("schemes").at("maxtext").at("source").as_array();
  EXPECT_TRUE(sources[0].as_string().ends_with(" src/maxtext/models/tiny.py"));
  EXPECT_EQ(sources[1].as_string(), "x:y");
  const Json rules =
      expanded(tiny_family_with("\"norm.scale [D]\"",
                                "\"norm.scale [D]\", {\"source\": \"maxtext:models/tiny.py\"}"))
          .at("schemes")
          .at("maxtext")
          .at("global");
  EXPECT_EQ(rules.as_array()[0].as_array()[2].at("source"), sources[0]);
}

TEST(ExpandFamily, AGroupKeepsItsOwnPlacesOverThoseOfAPart) {
  std::string text = with_use(R"("layers")");
  const std::string separate = R"("separate": "decoder.layers_{l}.", )";
  ASSERT_NE(text.find(separate), std::string::npos);
  text.erase(text.find(separate), separate.size());
  const Json json = expanded(text);
  EXPECT_EQ(layer(json).at("hf").as_string(), "layers.{l}.");
  EXPECT_EQ(layer(json).at("separate").as_string(), "decoder.layers_{l}.") << "the part's";
  EXPECT_EQ(dump_json(layer(json).at("for")), R"({"l":"L"})");
}

TEST(ExpandFamily, SettingsOfASchemeComeBeforeThoseOfItsParts) {
  const Json json = expanded(tiny_family_with(
      R"("scan_axis": 1)",
      R"("scan_axis": 1, "use": ["decoder"], "settings": {"head_dim": null, "own": "D"})"));
  const Json& settings = json.at("schemes").at("maxtext").at("settings");
  EXPECT_TRUE(settings.at("head_dim").is_null());
  EXPECT_EQ(settings.at("base_emb_dim").as_string(), "D");
  EXPECT_EQ(settings.at("own").as_string(), "D");
}

TEST(ExpandFamily, RequirementsOfPartsComeFirstAndNameTheFamily) {
  const Json json = expanded(tiny_family_with(
      R"("scan_axis": 1)",
      R"("scan_axis": 1, "use": ["unbiased"], "require": [["D > 1", "{family} is wide"]])"));
  const Json::Array& list = json.at("schemes").at("maxtext").at("require").as_array();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].as_array()[1].as_string(),
            "MaxText's tiny layers have no projection biases, but config.json says "
            "attention_bias");
  EXPECT_EQ(list[1].as_array()[1].as_string(), "{family} is wide") << "the family's own words";
}

TEST(ExpandFamily, ALocalPartCanUseSharedOnes) {
  const Json json =
      expanded(tiny_family_with(R"("parts": {"mlp": [["up.weight [F D]", "wi.kernel [D F]"]]})",
                                R"("parts": {"mlp": {"use": [{"part": "mlp", "only": "up"}],
                           "rules": [["up.weight [F D]", "wi.kernel [D F]"]]}})"));
  EXPECT_EQ(dump_json(json.at("schemes").at("maxtext").at("parts").at("mlp")),
            R"([["mlp.up_proj.weight [F D]","mlp.wi_1.kernel [D F]"],)"
            R"(["up.weight [F D]","wi.kernel [D F]"]])");
  EXPECT_EQ(dump_json(layer(json).at("use")), R"(["mlp"])");
}

TEST(ExpandFamily, NamesOfAxesAndModifiersAreTheFamilysBeforeTheCommonOnes) {
  const Json json =
      expanded(tiny_family_with(R"("global": [["norm.weight [D]", "norm.scale [D]"]])",
                                R"("modifiers": {"router": {"axes": {"D": "mlp"}}},
         "global": [["norm.weight [D]", "norm.scale [D]", "router"],
                    ["other.weight [D]", "other.scale [D]", "embedding"]])"));
  const Json& scheme = json.at("schemes").at("maxtext");
  EXPECT_EQ(scheme.at("axes").at("D").as_string(), "embed");
  EXPECT_EQ(scheme.at("axes").at("H").as_string(), "q_heads") << "of common.json";
  EXPECT_EQ(dump_json(scheme.at("global").as_array()[0].as_array()[2]), R"({"axes":{"D":"mlp"}})");
  EXPECT_EQ(dump_json(scheme.at("global").as_array()[1].as_array()[2]),
            R"({"axes":{"D":"embed_vocab"}})");
  EXPECT_EQ(scheme.find("modifiers"), nullptr);
}

TEST(ConfigAt, PlacesAreTriedInTurn) {
  const MappingTable table = load_table(
      tiny_file(tiny_family_with("\"dims\"", "\"config_at\": [\"text_config\", \".\"], \"dims\"")));
  const Json config = parse_json(
      R"({"hidden_size": 1, "num_hidden_layers": 2, "kinds": [7, 8],
          "text_config": {"hidden_size": 3, "num_hidden_layers": null, "model_type": "t"}})",
      "c");
  const Bindings::Options none;
  const Bindings bindings(table, config, none, {});
  const auto at = [&](const std::string& name) {
    return std::get<std::int64_t>(bindings.lookup(name));
  };
  EXPECT_EQ(at("D"), 3);
  EXPECT_EQ(at("L"), 2);
  EXPECT_EQ(at("config.hidden_size"), 1);
  EXPECT_EQ(at("kinds.1"), 8);
  EXPECT_EQ(bindings.length("kinds"), 2);
  EXPECT_TRUE(std::holds_alternative<Absent>(bindings.lookup("config.model_type")));
}

TEST(CommonMappings, EveryPartIsUsedAndEveryAxisHasItsRule) {
  std::string all;
  for (const FamilyFile& file : embedded_families()) all += file.text;
  for (const auto& [name, part] : common_mappings().at("parts").as_object())
    EXPECT_NE(all.find("\"" + name + "\""), std::string::npos) << name;
  const Json rules = parse_json(default_axis_rules("maxtext"), "rules");
  EXPECT_EQ(rules, common_mappings().at("schemes").at("maxtext").at("axis_rules"));
  EXPECT_EQ(default_axis_rules("hf"), default_axis_rules("maxtext"));
}

// MaxText can load output without a scheme, but it isn't a train state.
TEST(CommonMappings, SchemesAreATable) {
  const std::vector<SchemeSummary> known = known_schemes();
  ASSERT_EQ(known.size(), 3U);
  EXPECT_EQ(known.front().name, "maxtext");
  EXPECT_EQ(known.back().name, "hf");
  EXPECT_TRUE(scheme_stacks("maxtext"));
  EXPECT_FALSE(scheme_stacks("torchtitan"));
  EXPECT_FALSE(scheme_stacks("hf"));
  EXPECT_TRUE(scheme_stacks("somebody's"));
  EXPECT_EQ(loader_options("torchtitan").path, "--checkpoint.initial_load_path");
  EXPECT_TRUE(tree_extras("torchtitan").step.empty());
  EXPECT_EQ(stacked_flag("torchtitan"), stacked_flag("maxtext"));
}

TEST(CommonMappings, OnlyAKnownSchemesLoaderLooksForMoreThanArrays) {
  EXPECT_EQ(tree_extras("maxtext"), (TreeExtras{"step", "opt_state"}));
  EXPECT_EQ(tree_extras("hf"), TreeExtras());
  EXPECT_EQ(stacked_flag("maxtext"), "scan_layers");
  EXPECT_EQ(stacked_flag("hf"), "scan_layers");
}

}  // namespace
}  // namespace hfshard
