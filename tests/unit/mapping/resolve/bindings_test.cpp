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
