#include "mapping/language/expr.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class FixedScope final : public Scope {
 public:
  ExprValue lookup(const std::string& name) const override {
    const auto found = values.find(name);
    if (found != values.end()) return found->second;
    return Absent{"config.json has no " + name, name.starts_with("option.")};
  }
  bool tensor_exists(std::string_view name) const override { return name == "model.norm.weight"; }
  ExprValue tensor_extent(std::string_view name, std::size_t axis) const override {
    if (tensor_exists(name) && axis == 0) return std::int64_t{26};
    return Absent{"no such axis"};
  }
  std::int64_t length(const std::string& path) const override {
    if (path == "regular") return 6;
    if (path == "kinds" || path == "ones" || path == "uneven") return 3;
    std::int64_t count = 0;
    while (values.contains(path + "." + std::to_string(count))) ++count;
    return count;
  }
  bool is_stated(const std::string& path) const override {
    return path == "null.key" || values.contains(path);
  }

  std::map<std::string, ExprValue> values = {{"D", std::int64_t{26}},
                                             {"H", std::int64_t{4}},
                                             {"h", std::int64_t{10}},
                                             {"big", std::int64_t{0x7fffffffffffffff}},
                                             {"tied", true},
                                             {"ratio", 0.25},
                                             {"rope.type", std::string("llama3")}};
};

std::int64_t integer(const std::string& text) {
  return Expr(text, "f.json#/x").integer(FixedScope());
}
bool truth(const std::string& text) { return Expr(text, "f.json#/x").truth(FixedScope()); }
Error failure(const std::string& text) {
  return catch_error([&] { Expr(text, "f.json#/x").evaluate(FixedScope()); });
}

TEST(Expr, ANumberMayHaveAFraction) {
  const auto value = [](const std::string& text) {
    return Expr(text, "f.json#/x").evaluate(FixedScope());
  };
  EXPECT_EQ(std::get<double>(value("missing ?? 0.00001")), 1e-5);
  EXPECT_EQ(std::get<double>(value("tied ? 2.5 : 1")), 2.5);
  EXPECT_EQ(std::get<std::int64_t>(value("10")), 10);
  for (const char* text : {"1.", ".5", "1.e5", "1.5.2", "0.1e-5"}) {
    EXPECT_EQ(failure(text).code(), ErrorCode::bad_input) << text;
  }
}

TEST(Expr, ComputesWithTheUsualPrecedence) {
  EXPECT_EQ(integer("1 + 2 * 3"), 7);
  EXPECT_EQ(integer("(1 + 2) * 3"), 9);
  EXPECT_EQ(integer("10 - 3 - 2"), 5);
  EXPECT_EQ(integer("H * h / 8"), 5);
  EXPECT_EQ(integer("D // H"), 6);
  EXPECT_EQ(integer("D % H"), 2);
  EXPECT_EQ(integer("-D + 30"), 4);
  EXPECT_EQ(integer("(r2 ?? 5)*h"), 50);
}

TEST(Expr, IsPartOfANameAsAnIntegerOrAText) {
  const FixedScope scope;
  EXPECT_EQ(Expr("D / 2", "f.json#/x").name_part(scope), "13");
  EXPECT_EQ(Expr("tied ? rope.type : 'none'", "f.json#/x").name_part(scope), "llama3");
  const Error error = catch_error([&] { Expr("tied", "f.json#/x").name_part(scope); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.rule(), "f.json#/x");
}

std::string in_a_row(const std::string& part, std::size_t count) {
  std::string out = part.substr(part.find_first_not_of("+?&|*%=<! -"));
  for (std::size_t i = 1; i < count; ++i) out += part;
  return out;
}

// A file can have any expression, and evaluation recurses over it.
TEST(Expr, WhatIsTooLongOrTooDeepIsRefused) {
  EXPECT_EQ(integer(in_a_row("+1", 100)), 100);
  EXPECT_EQ(integer(in_a_row(" ?? D", 20)), 26);
  EXPECT_EQ(integer(std::string(20, '(') + "1" + std::string(20, ')')), 1);
  EXPECT_EQ(integer(std::string(4095, ' ') + "1"), 1);
  EXPECT_EQ(failure(std::string(4096, ' ') + "1").code(), ErrorCode::limit);
  for (const char* part : {"+1", "*1", "&&1", "||0", "==1", " ?? 1", " ?? absent"}) {
    for (const std::size_t count : {200U, 2000U, 200'000U}) {
      SCOPED_TRACE(std::string(part) + " " + std::to_string(count));
      const Error error = failure(in_a_row(part, count));
      EXPECT_TRUE(error.code() == ErrorCode::limit || error.code() == ErrorCode::bad_input);
      EXPECT_EQ(error.rule(), "f.json#/x");
      EXPECT_LT(error.sentence().size(), 5000U);
    }
  }
  for (const char* opening : {"(", "!", "-", "sqrt(", "a[", "1 ? ", "1 ? 1 : "}) {
    SCOPED_TRACE(opening);
    std::string text;
    for (int i = 0; i < 400; ++i) text += opening;
    EXPECT_EQ(failure(text + "1").code(), ErrorCode::bad_input);
  }
}

TEST(Expr, TheLastSizeThatFitsIsAccepted) {
  const auto nested = [](std::size_t count) {
    return std::string(count, '(') + "1" + std::string(count, ')');
  };
  EXPECT_EQ(integer(nested(31)), 1);
  EXPECT_EQ(integer("-" + std::string(92, '-') + "1"), -1);  // 96 levels
  EXPECT_EQ(failure(nested(32)).code(), ErrorCode::bad_input);
  EXPECT_EQ(failure("-" + nested(31)).code(), ErrorCode::bad_input);
  EXPECT_NE(failure("-" + std::string(93, '-') + "1").sentence().find("a shallower nesting"),
            std::string::npos);
  EXPECT_EQ(integer(in_a_row("+1", 128)), 128);
  EXPECT_EQ(failure(in_a_row("+1", 129)).code(), ErrorCode::limit);
}

TEST(Expr, WhereAllAlternativesAreAbsentTheFirstIsNamed) {
  EXPECT_NE(failure("(a.b ?? c) + 1").sentence().find("a.b"), std::string::npos);
}

TEST(Expr, ElementsOfListsAreLookedUpByAnExpression) {
  FixedScope scope;
  scope.values["kinds.5"] = std::string("full");
  scope.values["kinds.2.width"] = std::int64_t{7};
  const auto value = [&](const std::string& text) {
    return Expr(text, "f.json#/x").evaluate(scope);
  };
  EXPECT_EQ(std::get<std::string>(value("kinds[H + 1]")), "full");
  EXPECT_EQ(std::get<std::int64_t>(value("kinds[D % H].width")), 7);
  EXPECT_EQ(std::get<std::int64_t>(value("kinds[9] ?? 4")), 4);
  EXPECT_EQ(Expr("kinds[H].a + h", "f.json#/x").names(), (std::vector<std::string>{"H", "h"}));
  EXPECT_NE(failure("kinds[1 - H]").sentence().find("element -3 of \"kinds\""), std::string::npos);
  for (const char* wrong : {"kinds[", "kinds[1", "kinds[]", "length(", "length()", "length(3)",
                            "stated(", "stated()", "stated('D')"})
    EXPECT_EQ(failure(wrong).code(), ErrorCode::bad_input) << wrong;
}

TEST(Expr, RealsAreOrderedAndNothingElse) {
  EXPECT_TRUE(truth("ratio < 1"));
  EXPECT_FALSE(truth("1 <= ratio"));
  EXPECT_FALSE(truth("ratio < 0.25"));
  EXPECT_TRUE(truth("ratio <= 0.25"));
  EXPECT_FALSE(truth("ratio > 0.25"));
  EXPECT_TRUE(truth("ratio < 0.5"));
  EXPECT_TRUE(truth("ratio > 0"));
  EXPECT_TRUE(truth("ratio >= 0.25"));
  EXPECT_FALSE(truth("ratio >= 1"));
  EXPECT_EQ(failure("ratio == 1").code(), ErrorCode::bad_input);
  EXPECT_EQ(failure("ratio * 4").code(), ErrorCode::bad_input);
}

// `??` takes null for absent, and some defaults of transformers don't.
TEST(Expr, AKeyWithNullIsStated) {
  EXPECT_TRUE(truth("stated(D)"));
  EXPECT_TRUE(truth("stated(null.key) && !stated(other)"));
  EXPECT_EQ(integer("window ?? (stated(null.key) ? 0 : 4096)"), 0);
  EXPECT_EQ(integer("window ?? (stated(window) ? 0 : 4096)"), 4096);
}

TEST(Expr, TheLengthOfAListThatIsAbsentIsZero) {
  EXPECT_EQ(integer("length(kinds) + 1"), 4);
  EXPECT_EQ(integer("length(other.kinds)"), 0);
}

TEST(Expr, ZerosOfAListHaveAPeriodOrNoValue) {
  FixedScope scope;
  const auto fill = [&](const std::string& name, const std::vector<std::int64_t>& list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      scope.values[name + "." + std::to_string(i)] = list[i];
  };
  fill("regular", {1, 1, 0, 1, 1, 0});
  fill("ones", {1, 1, 1});
  fill("uneven", {0, 0, 1});
  const auto integer = [&](const std::string& text) {
    return Expr(text, "f.json#/x").integer(scope);
  };
  EXPECT_EQ(integer("zeros_every(regular)"), 3);
  EXPECT_EQ(integer("zeros_every(ones)"), 0);
  EXPECT_EQ(integer("zeros_every(uneven) ?? -7"), -7);
  EXPECT_EQ(integer("zeros_every(other.kinds)"), 0);
  EXPECT_EQ(Expr("zeros_every(ones)", "f.json#/x").lists(), (std::vector<std::string>{"ones"}));
}

TEST(Expr, AListHasAPeriod) {
  FixedScope scope;
  const auto period = [&](const std::vector<std::string>& list) {
    scope.values.clear();
    for (std::size_t i = 0; i < list.size(); ++i)
      scope.values["mixed." + std::to_string(i)] = list[i];
    return Expr("period(mixed)", "f.json#/x").integer(scope);
  };
  EXPECT_EQ(period({}), 0);
  EXPECT_EQ(period({"s"}), 1);
  EXPECT_EQ(period({"s", "s", "s"}), 1);
  EXPECT_EQ(period({"s", "f"}), 2);
  EXPECT_EQ(period({"s", "f", "s"}), 2);
  EXPECT_EQ(period({"s", "f", "s", "f", "s"}), 2);
  EXPECT_EQ(period({"s", "f", "f", "s"}), 3);
  EXPECT_EQ(period({"s", "f", "f"}), 3);
  EXPECT_EQ(period({"s", "s", "f", "s", "s", "s"}), 4);
  EXPECT_EQ(period({"s", "f", "s", "s"}), 3);
  EXPECT_EQ(period({"s", "s", "f", "s", "s", "f", "s", "s"}), 3);
  EXPECT_EQ(period({"s", "s", "f", "s", "f"}), 5);
  EXPECT_EQ(Expr("period(ones)", "f.json#/x").lists(), (std::vector<std::string>{"ones"}));
}

TEST(Expr, PathsMayHaveNumbers) {
  EXPECT_EQ(Expr("layer_types.3 ?? 7", "f.json#/x").names(),
            (std::vector<std::string>{"layer_types.3"}));
}

TEST(Expr, ComparesAndChooses) {
  EXPECT_TRUE(truth("D > 25 && H <= 4 || false"));
  EXPECT_TRUE(truth("rope.type == 'llama3'"));
  EXPECT_FALSE(truth("rope.type != 'llama3'"));
  EXPECT_FALSE(truth("D < 26") || truth("D > 26"));
  EXPECT_TRUE(truth("D <= 26") && truth("D >= 26"));
  EXPECT_FALSE(truth("D <= 25") || truth("D >= 27"));
  EXPECT_TRUE(truth("!(D == 4)"));
  EXPECT_TRUE(truth("tied == true"));
  EXPECT_EQ(integer("tied ? H : h"), 4);
  EXPECT_EQ(integer("false ? 1 : true ? 2 : 3"), 2);
  EXPECT_TRUE(truth("exists('model.norm.weight')"));
  EXPECT_FALSE(truth("exists('lm_head.weight')"));
  EXPECT_EQ(integer("extent('model.norm.weight', 0)"), 26);
  EXPECT_EQ(integer("extent('model.norm.weight', 1) ?? extent('lm_head.weight', 0) ?? 5"), 5);
}

TEST(Expr, EveryNumberExceptZeroIsTrue) {
  EXPECT_TRUE(truth("H"));
  EXPECT_TRUE(truth("H - 5"));
  EXPECT_FALSE(truth("H - 4"));
  EXPECT_EQ(integer("H - 5 ? 1 : 2"), 1);
  EXPECT_FALSE(truth("!(H - 5)"));
}

TEST(Expr, CoalesceTakesTheFirstThatIsThere) {
  EXPECT_EQ(integer("head_dim ?? D / 2"), 13);
  EXPECT_EQ(integer("a.b ?? c.d ?? h"), 10);
  EXPECT_TRUE(truth("(a.b ?? 'default') == 'default'"));
}

TEST(Expr, DoesNotEvaluateWhatIsNotChosen) {
  EXPECT_EQ(integer("tied ? 1 : missing"), 1);
  EXPECT_EQ(integer("h ?? missing"), 10);
  EXPECT_TRUE(truth("(tied ? null : 3) ?? true"));
  EXPECT_EQ(integer("null ?? 5"), 5);
  EXPECT_FALSE(truth("false && missing > 1"));
  EXPECT_TRUE(truth("true || missing > 1"));
}

TEST(Expr, AnOptionThatWasNotGivenIsFalse) {
  EXPECT_FALSE(truth("option.mtp"));
  EXPECT_TRUE(truth("!option.mtp"));
  EXPECT_FALSE(truth("option.rope == 'halves'"));
  EXPECT_EQ(integer("option.vocab ?? D"), 26);
  EXPECT_EQ(failure("option.vocab + 1").code(), ErrorCode::bad_input);
}

TEST(Expr, ValuesAreComputedInReals) {
  EXPECT_EQ(Expr("1 / sqrt(h)", "").real(FixedScope()), 1.0 / std::sqrt(10.0));
  EXPECT_EQ(Expr("ratio * 2", "").real(FixedScope()), 0.5);
  EXPECT_EQ(Expr("1 / H", "").real(FixedScope()), 0.25);
  EXPECT_EQ(Expr("ratio - 1", "").real(FixedScope()), -0.75);
  EXPECT_EQ(Expr("-ratio + 1", "").real(FixedScope()), 0.75);
}

// Only an option that wasn't given is false. A key that's missing is an error.
TEST(Expr, AConditionOnAMissingKeyNamesTheKey) {
  for (const char* text : {"missing ? 1 : 2", "!missing", "true && missing", "false || missing"})
    EXPECT_EQ(failure(text).sentence(), "config.json has no missing") << text;
  EXPECT_EQ(shown_value(Absent{"config.json has no missing", false}), "absent");
}

TEST(Expr, ErrorsCarryTheExpressionAndItsPointer) {
  const Error error = failure("D / H");
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.rule(), "f.json#/x");
  EXPECT_NE(error.sentence().find("D / H"), std::string::npos);
  EXPECT_NE(error.sentence().find("26 / 4"), std::string::npos);
}

TEST(Expr, RefusesOverflowAndWrongKinds) {
  for (const char* text :
       {"big + 1", "big * 2", "0 - big - big", "D / 0", "D % 0", "(0 - D) // 4", "tied + 1",
        "rope.type + 1", "D == 'x'", "ratio + 1", "sqrt(D)", "missing + 1", "missing == 1",
        "ratio == ratio", "'a' ? 1 : 2", "rope.type && true"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(failure(text).code(), ErrorCode::bad_input);
  }
  EXPECT_EQ(catch_error([] { Expr("5 // 2", "").real(FixedScope()); }).code(),
            ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { integer("true"); }).code(), ErrorCode::bad_input);
}

// A value can come from config.json, from the command line or from several names.
TEST(Expr, AValueOfAWrongKindIsToldWithItsOrigin) {
  FixedScope scope;
  scope.values["option.width"] = std::string("many");
  const auto refusal = [&](const char* text) {
    return catch_error([&] { Expr(text, "f.json#/x").integer(scope); }).sentence();
  };
  EXPECT_EQ(refusal("rope.type"),
            "rope.type in config.json is \"llama3\", and it must be an integer");
  EXPECT_EQ(refusal("tied"), "tied in config.json is true, and it must be an integer");
  EXPECT_EQ(refusal("option.width"), "expression \"option.width\" needs an integer, not \"many\"");
  EXPECT_EQ(refusal("ratio ?? 1"), "expression \"ratio ?? 1\" needs an integer, not 0.25");
  EXPECT_EQ(catch_error([&] { Expr("rope.type", "f.json#/x").truth(scope); }).sentence(),
            "rope.type in config.json is \"llama3\", and it must be true or false");
}

TEST(Expr, RefusesWhatDoesNotParse) {
  for (const char* text :
       {"", "1 +", "(1", "1)", "a b", "'open", "1 ? 2", "#", "sqrt 2", "exists(x)", "extent(x, 0)",
        "extent('x')", "extent('x', y)", "99999999999999999999", "a..b", "== 1", "1 & 2"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(failure(text).code(), ErrorCode::bad_input);
  }
  EXPECT_EQ(failure(std::string(1000, '(') + "1").code(), ErrorCode::bad_input);
  EXPECT_EQ(failure(std::string(1000, '!') + "1").code(), ErrorCode::bad_input);
}

TEST(Expr, ListsItsNames) {
  EXPECT_EQ(Expr("a.b ?? D + option.x", "").names(),
            (std::vector<std::string>{"a.b", "D", "option.x"}));
  EXPECT_EQ(Expr("stated(window) ? D : 0", "").names(), (std::vector<std::string>{"window", "D"}));
  EXPECT_EQ(Expr("length(kinds) + 1", "").names(), std::vector<std::string>());
}

}  // namespace
}  // namespace hfshard
