// Options, and what config.json says: the values of names in a family's rules.

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mapping/resolve/find.h"
#include "mapping/resolve/resolve.h"
#include "support/catch_error.h"
#include "unit/mapping/resolve/resolved.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

MappingTable tiny_with_width(const std::string& width) {
  return load_table(tiny_file(tiny_family_with("\"F\": 5", "\"F\": \"" + width + "\"")));
}

Error option_refusal(const MappingTable& table, const std::string& name, const std::string& value) {
  return catch_error([&] { check_options(table, {{name, value}}); });
}

TEST(Options, AnUnknownOneNamesThoseOfTheFamily) {
  const auto refusal = [](const std::string& width, const std::string& name,
                          const std::string& value = "3") {
    const Error error = option_refusal(tiny_with_width(width), name, value);
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.sentence() + "; " + error.hint_text();
  };
  const std::string none = "family \"tiny\" has no option \"zzz\"; ";
  EXPECT_EQ(refusal("5", "zzz"), none + "it doesn't have options");
  EXPECT_EQ(refusal("option.width ?? 5", "zzz"), none + "its only option is width");
  EXPECT_EQ(refusal("option.width ?? option.depth ?? 5", "zzz"),
            none + "its options are depth, width");
  EXPECT_EQ(refusal("option.width ?? 5", "widht"),
            "family \"tiny\" has no option \"widht\"; did you mean width?");
  const std::string part = "family \"tiny\" has no optional part \"vision\"; ";
  EXPECT_EQ(refusal("option.width ?? 5", "vision", "true"),
            part + "it doesn't have optional parts");
  EXPECT_EQ(refusal("option.width ?? (option.mtp ? 6 : 5)", "vision", "true"),
            part + "its only optional part is mtp");
  EXPECT_EQ(refusal("option.audio ? 4 : (option.mtp ? 6 : 5)", "zzz", "true"),
            "family \"tiny\" has no optional part \"zzz\"; its optional parts are audio, mtp");
}

TEST(Options, ThoseOfALayerGroupAloneAreKnown) {
  const std::string group = R"("for": {"l": "L"}, "hf": "layers.{l}.", "stacked": [)";
  for (const char* changed :
       {R"("for": {"l": "option.depth ?? L"}, "hf": "layers.{l}.", "stacked": [)",
        R"("for": {"l": "option.depth ?? 0..L"}, "hf": "layers.{l}.", "stacked": [)",
        R"("require": [["option.depth ?? true", "x"]], "for": {"l": "L"}, "hf": "layers.{l}.",
           "stacked": [)"}) {
    const MappingTable table = load_table(tiny_file(tiny_family_with(group, changed)));
    EXPECT_EQ(table.options, std::vector<std::string>{"depth"}) << changed;
  }
  const std::string place = R"("stacked": ["decoder.layers.", "l"])";
  const MappingTable table = load_table(tiny_file(
      tiny_family_with(place, R"x("stacked": ["decoder.layers.", "l + (option.depth ?? 0)"])x")));
  EXPECT_EQ(table.options, std::vector<std::string>{"depth"});
}

TEST(Options, AReleaseIsNoOptionOfTheFamilyToPickFrom) {
  const MappingTable table = tiny_with_width("option.maxtext == '0.2.4' ? 4 : option.width ?? 5");
  EXPECT_EQ(option_refusal(table, "zzz", "3").hint_text(), "its only option is width");
  EXPECT_NO_THROW(check_options(table, {{"maxtext", "0.2.5"}}));
  EXPECT_NO_THROW(check_options(tiny_with_width("5"), {{"maxtext", "0.2.4"}}))
      << "its trees don't differ";
  EXPECT_EQ(option_refusal(tiny_with_width("5"), "maxtext", "0.2.3").code(), ErrorCode::usage);
}

TEST(Options, TheVocabularyIsARowCount) {
  const MappingTable table = load_table(family_by_name("qwen3"));
  const Error flag = option_refusal(table, "vocab", "true");
  EXPECT_EQ(flag.sentence(), "option \"vocab\" needs a whole number from 1");
  EXPECT_EQ(flag.hint_text(), "pass --vocab N");
  EXPECT_EQ(option_refusal(table, "vocab", "1.5").sentence(),
            "option \"vocab\" needs a whole number from 1, not \"1.5\"");
  EXPECT_NO_THROW(check_options(table, {{"vocab", "1"}}));
  EXPECT_EQ(option_refusal(load_table(family_by_name("deepseek")), "mtp", "1").hint_text(),
            "pass --with mtp");
}

TEST(Options, EachOlderReleaseWithAnotherTreeIsAForm) {
  Scheme scheme;
  scheme.name = "maxtext";
  using Forms = std::vector<Options>;
  EXPECT_EQ(for_each_form(scheme, {}), Forms{{}});
  scheme.by_release = {"stacked"};
  EXPECT_EQ(for_each_form(scheme, {{"vocab", "9"}}),
            (Forms{{{"vocab", "9"}}, {{"maxtext", "0.2.4"}, {"vocab", "9"}}}));
  const Options asked{{"maxtext", "0.2.5"}};
  EXPECT_EQ(for_each_form(scheme, asked), Forms{asked});
}

// Values of names, for a config with a text part.
struct NamedValues {
  explicit NamedValues(const std::string& text, const std::string& more_dims = "")
      : table(load_table(tiny_file(family(more_dims)))), config(parse_json(text, "config.json")) {}

  static std::string family(const std::string& more_dims) {
    std::string out = tiny_family_with("\"dims\"", R"("config_at": ["text_config", "."], "dims")");
    return more_dims.empty() ? out
                             : out.replace(out.find("\"cyc\": 2"), 8, "\"cyc\": 2, " + more_dims);
  }

  Bindings bindings() const { return {table, config, options, {}}; }
  ExprValue value(const std::string& name) const { return bindings().lookup(name); }
  std::string absent(const std::string& name) const {
    return std::get<Absent>(value(name)).message;
  }

  MappingTable table;
  Json config;
  Options options;
};

TEST(ConfigValues, APlaceThatComesFirstCountsUnlessItsValueIsNull) {
  const NamedValues values(
      R"({"text_config": {"a": 1, "b": null}, "a": 2, "b": 3, "c": {"d": 4}})");
  EXPECT_EQ(std::get<std::int64_t>(values.value("a")), 1);
  EXPECT_EQ(std::get<std::int64_t>(values.value("b")), 3);
  EXPECT_EQ(std::get<std::int64_t>(values.value("c.d")), 4);
  EXPECT_EQ(std::get<std::int64_t>(values.value("config.a")), 2);
  EXPECT_EQ(std::get<std::int64_t>(values.value("config.text_config.a")), 1);
  EXPECT_EQ(values.absent("config.d"),
            "config.json lacks \"config.d\", which family \"tiny\" needs");
  EXPECT_EQ(values.absent("c.e"), "config.json lacks \"c.e\", which family \"tiny\" needs");
  EXPECT_EQ(values.absent("option.x"), "pass option \"x\", which the family needs");
}

TEST(ConfigValues, EachKindOfAValueStaysItsKind) {
  const NamedValues values(R"({"flag": false, "text": "7", "real": 0.5, "list": [1, "a"]})");
  EXPECT_FALSE(std::get<bool>(values.value("flag")));
  EXPECT_EQ(std::get<std::string>(values.value("text")), "7");
  EXPECT_EQ(std::get<double>(values.value("real")), 0.5);
  EXPECT_EQ(std::get<std::string>(values.value("list")), R"([1,"a"])");
  EXPECT_EQ(std::get<std::string>(values.value("list.1")), "a");
}

TEST(ConfigValues, OnlyListsHaveALength) {
  const NamedValues values(R"({"text_config": {"list": [1, 2]}, "text": "abc", "object": {}})");
  EXPECT_EQ(values.bindings().length("list"), 2);
  for (const char* other : {"text", "object", "none"})
    EXPECT_EQ(values.bindings().length(other), 0) << other;
}

TEST(ConfigValues, ANullIsStatedAndAbsentKeysAreNot) {
  const NamedValues values(
      R"({"text_config": {"a": null, "in": {"b": 1}}, "c": null, "in": {"d": null}, "five": 5})");
  for (const char* name : {"a", "c", "in.b", "in.d"})
    EXPECT_TRUE(values.bindings().is_stated(name)) << name;
  for (const char* name : {"b", "d", "in.a", "other.a", "five.a"})
    EXPECT_FALSE(values.bindings().is_stated(name)) << name;
}

TEST(ConfigValues, ASizeThatIsNoneNamesItsKeysAndItsFormula) {
  const NamedValues values(R"({"hidden_size": 7, "num_heads": -2, "num_experts": "many"})",
                           R"("M": "num_heads", "N": "D + 3 * M", "T": "0 - 1")");
  const auto refusal = [&](const char* dim) {
    return catch_error([&] { values.bindings().extent(dim); });
  };
  EXPECT_EQ(refusal("M").sentence(),
            "a size must be a whole number of at least 0, and num_heads of config.json sets it to "
            "-2");
  EXPECT_EQ(refusal("M").rule(), "mappings/tiny.json#/dims/M");
  EXPECT_EQ(refusal("M").hint_text(), "") << "the key is the formula";
  EXPECT_EQ(values.bindings().extent("N"), 1U);
  EXPECT_EQ(refusal("E").sentence(),
            "a size must be a whole number of at least 0, and num_experts of config.json sets it "
            "to \"many\"");
  EXPECT_EQ(refusal("E").hint_text(), "the size is num_experts ?? 2");
  EXPECT_EQ(refusal("T").sentence(),
            "a size must be a whole number of at least 0, and the mapping sets it to -1");
  EXPECT_EQ(refusal("L").sentence(),
            "config.json lacks \"num_hidden_layers\", which family \"tiny\" needs");
  EXPECT_EQ(refusal("L").rule(), "mappings/tiny.json#/dims/L");
}

// Layers times experts.
TEST(ConfigValues, NestedLoopsShareALimit) {
  const auto refusal = [](int layers, int experts) {
    return catch_error([&] {
      Resolved(kTinyFamily, true, {},
               fmt::format(R"({{"hidden_size": 7, "num_hidden_layers": {}, "num_experts": {}}})",
                           layers, experts));
    });
  };
  const Error error = refusal(4, 65'537);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "num_experts of config.json numbers tensors from 0 to 65537, and hfshard can number at "
            "most 65536");
  EXPECT_TRUE(refusal(8, 32'769).sentence().ends_with("at most 32768"));
}

TEST(ConfigValues, TensorsOfTheSourceAreKnownByTheirNameOrThatOfTheirCodes) {
  Catalog catalog;
  TensorInfo& plain = catalog.tensors.emplace_back();
  plain.name = "a.weight";
  plain.shape = {3, 5};
  TensorInfo& codes = catalog.tensors.emplace_back();
  codes.name = "b.weight_packed";
  codes.shape = {3, 1};
  const Bindings::ShapeOf shape_of = shapes_of(catalog);
  EXPECT_EQ(shape_of("a.weight"), (Shape{3, 5}));
  EXPECT_EQ(shape_of("b.weight_packed"), (Shape{3, 1}));
  EXPECT_EQ(shape_of("b.weight"), Shape{}) << "only a rule knows it";
  EXPECT_EQ(shape_of("c.weight"), std::nullopt);
  const MappingTable table = load_table(tiny_file(kTinyFamily));
  const Options none;
  const Bindings bindings(table, table.example, none, shape_of);
  EXPECT_TRUE(bindings.tensor_exists("b.weight"));
  EXPECT_FALSE(bindings.tensor_exists("c.weight"));
  EXPECT_TRUE(std::holds_alternative<Absent>(bindings.tensor_extent("b.weight", 0)));
  EXPECT_FALSE(Bindings(table, table.example, none, {}).tensor_exists("a.weight"));
}

TEST(ConfigValues, ALoopHidesADimOfItsName) {
  const MappingTable table = load_table(tiny_file(kTinyFamily));
  const Options none;
  Bindings bindings(table, table.example, none, {});
  EXPECT_EQ(bindings.extent("F"), 5U);
  LoopRule loop{"F", Expr("1", "p"), Expr("3", "p")};
  bindings.push_loop(loop);
  EXPECT_EQ(bindings.extent("F"), 2U);
  EXPECT_EQ(std::get<std::int64_t>(bindings.lookup("F")), 1);
  bindings.set_loop(0, 2);
  EXPECT_EQ(std::get<std::int64_t>(bindings.lookup("F")), 2);
  bindings.pop_loop();
  EXPECT_EQ(std::get<std::int64_t>(bindings.lookup("F")), 5);
}

}  // namespace
}  // namespace hfshard
