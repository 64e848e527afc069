#include "base/json.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/json_rejections.h"

namespace hfshard {
namespace {

TEST(Json, KeepsIntegersAndRealsApart) {
  const Json json = parse_json(R"({"a": [1, -2, 1.0, 1e2, true, null, "x"], "b": {}})", "t.json");
  const Json::Array& a = json.at("a").as_array();
  EXPECT_EQ(a[0].as_int(), 1);
  EXPECT_EQ(a[0].as_uint(), 1U);
  EXPECT_EQ(a[0].as_double(), 1.0);
  EXPECT_EQ(a[1].as_int(), -2);
  EXPECT_FALSE(a[2].is_integer());
  EXPECT_EQ(a[3].as_double(), 100.0);
  EXPECT_TRUE(a[4].as_bool());
  EXPECT_TRUE(a[5].is_null());
  EXPECT_EQ(a[6].as_string(), "x");
  EXPECT_TRUE(json.at("b").as_object().empty());
  EXPECT_EQ(json.find("c"), nullptr);
}

TEST(Json, ReadsTheWholeRangeOf64Bits) {
  EXPECT_EQ(parse_json("18446744073709551615", "t").as_uint(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "t").as_int(), INT64_MIN);
  EXPECT_EQ(parse_json("7", "t"), Json(std::uint64_t{7}));
  EXPECT_EQ(catch_error([] { parse_json("18446744073709551615", "t").as_int(); }).code(),
            ErrorCode::bad_input);
}

TEST(Json, RefusesWhatTheSharedSuiteLists) {
  for (const auto& [what, text] : json_rejections()) {
    const Error error = catch_error([&] { parse_json(text, "bad.json"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << what;
    EXPECT_EQ(error.file(), "bad.json") << what;
    EXPECT_TRUE(error.range()) << what;
    EXPECT_EQ(error.total_bytes(), text.size()) << what;
  }
}

TEST(Json, ErrorsCarryTheByteOffset) {
  const Error error = catch_error([] { parse_json(R"({"a":1,"a":2})", "t"); });
  EXPECT_EQ(error.range(), (ByteRange{9, 10}));  // where the second key ends
  EXPECT_EQ(catch_error([] { parse_json("[1,x]", "t"); }).range(), (ByteRange{3, 4}));
  EXPECT_EQ(catch_error([] { parse_json("[1] ]", "t"); }).range(), (ByteRange{4, 5}));
}

TEST(Json, ErrorsCarryLineAndColumn) {
  const auto place = [](std::string_view text) {
    return catch_error([&] { parse_json(text, "t"); }).place();
  };
  EXPECT_EQ(place("{\n  \"a\": 1,\n  \"a\": 2}"), (TextPlace{3, 5}));  // where the key ends
  EXPECT_EQ(place("[1,x]"), (TextPlace{1, 4}));
  EXPECT_EQ(place("{\n\"\u6a21\u578b\": x}"), (TextPlace{2, 7}));  // characters, not bytes
  EXPECT_EQ(place("[1,\r\n2"), (TextPlace{2, 2}));
  EXPECT_EQ(place("\xEF\xBB\xBF[]"), (TextPlace{1, 1}));
}

TEST(Json, APartHasThePlaceThatItHasInTheWhole) {
  const std::string whole = "{\n \"a\": {\"x\": 1, \"x\": 2}\n}";
  const std::string_view part = std::string_view(whole).substr(8, 16);
  const Error error = catch_error([&] { parse_json(part, "t", whole); });
  EXPECT_EQ(error.place(), (TextPlace{2, 18}));
  EXPECT_EQ(error.range(), (ByteRange{19, 20}));
  EXPECT_EQ(error.total_bytes(), whole.size());
}

TEST(Json, TheGrammarAloneIsCheckedWhereTheValueIsNotWanted) {
  for (const auto& [what, text] : json_rejections()) {
    const Error error = catch_error([&] { parse_json(text, "t"); });
    if (error.sentence().find("malformed") == std::string::npos) continue;
    const Error checked = catch_error([&] { check_json(text, "t"); });
    EXPECT_EQ(checked.format(), error.format()) << what;
  }
  check_json(R"({"a": [1, -2, 1.5, "x", null, true], "a": {}})", "t");
  for (const std::string& text : {std::string("{}\0", 3), std::string("\xEF\xBB\xBF{}")}) {
    const Error error = catch_error([&] { check_json(text, "t"); });
    EXPECT_EQ(error.format(), catch_error([&] { parse_json(text, "t"); }).format());
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
  }
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(64), "t").is_array());
  EXPECT_EQ(catch_error([&] { parse_json(nested(65), "t"); }).range(), (ByteRange{64, 65}));
}

TEST(Json, TypedAccessRefusesOtherTypes) {
  const auto code = [](auto action) { return catch_error(action).code(); };
  EXPECT_EQ(code([] { Json(1.5).as_uint(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(-1).as_uint(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json("1").as_int(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(1).as_bool(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(true).as_double(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(1).as_string(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json().as_array(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(1).as_object(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(Json::Object()).at("x"); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(1).array(); }), ErrorCode::bad_input);
  EXPECT_EQ(code([] { Json(1).object(); }), ErrorCode::bad_input);
}

TEST(Json, DumpIsSortedCompactAndAscii) {
  Json json;
  json["b"] = Json::Array{1, 2.0, 0.1, -3, "\u00e9\U0001F600\n\x01\"\\", nullptr, false};
  json["a"] = UINT64_MAX;
  EXPECT_EQ(dump_json(json), R"({"a":18446744073709551615,"b":[1,2.0,0.1,-3,)"
                             R"("\u00e9\ud83d\ude00\n\u0001\"\\",null,false]})");
  EXPECT_EQ(parse_json(dump_json(json), "t"), json);
  EXPECT_EQ(parse_json(dump_json_pretty(json), "t"), json);
  EXPECT_EQ(dump_json_pretty(Json(Json::Object{{"x", Json::Array{}}, {"y", Json::Array{1}}})),
            "{\n  \"x\": [],\n  \"y\": [\n    1\n  ]\n}\n");
}

TEST(Json, ShownJsonKeepsUtf8AndEscapesWhatATerminalObeys) {
  const std::string name = "\u00e9\u6a21\U0001F600";
  Json json;
  json[name] = name + "\x1b\u009b\u202e\"\\\n\xff";
  EXPECT_EQ(shown_json(json),
            "{\"" + name + "\":\"" + name + R"(\u001b\u009b\u202e\"\\\n\ufffd"})");
  json[name] = name + "\x1b\u009b\u202e";
  EXPECT_EQ(parse_json(shown_json(json), "t"), json);
}

TEST(Json, DumpWritesTheShortestRealsAndOneFormOfEscape) {  // docs/adr/0018
  const Json reals = Json::Array{1e5, 500000.5, 1e-4, 1e-6, 0.001, -0.0, 1e20, 0.03603749722242355};
  EXPECT_EQ(dump_json(reals), "[1e+05,500000.5,1e-04,1e-06,0.001,-0.0,1e+20,0.03603749722242355]");
  EXPECT_EQ(parse_json(dump_json(reals), "t"), reals);
  EXPECT_EQ(dump_json(Json("\b\f\r\t\x7f/")), R"("\u0008\u000c\u000d\t\u007f/")");
}

TEST(Json, DumpEscapesBeyondTheFirstPlaneAsSurrogates) {
  const Json around = "\uffff\U00010000\U0010ffff";
  EXPECT_EQ(dump_json(around), R"("\uffff\ud800\udc00\udbff\udfff")");
  EXPECT_EQ(parse_json(dump_json(around), "t"), around);
}

TEST(Json, NumbersOfPythonThatAreNotFinite) {
  const std::string text = R"({"a":[0.0,Infinity,-Infinity,NaN],"b":"NaN","c\"Infinity":1})";
  const Json json = parse_json(text, "t");
  const Json::Array& numbers = json.at("a").as_array();
  EXPECT_EQ(numbers[1], Json(NotFinite::infinity));
  EXPECT_EQ(numbers[2], Json(NotFinite::minus_infinity));
  EXPECT_EQ(numbers[3], Json(NotFinite::nan));
  EXPECT_TRUE(numbers[3].is_number() && std::isnan(numbers[3].as_double()));
  EXPECT_TRUE(numbers[2].as_double() < 0 && std::isinf(numbers[2].as_double()));
  EXPECT_EQ(json.at("b"), Json("NaN"));
  EXPECT_EQ(dump_json(json), text);
  EXPECT_EQ(parse_json(dump_json_pretty(json), "t"), json);
  EXPECT_EQ(shown_json(numbers[1]), "\"Infinity\"");
  const std::string marked = R"(["\u0000hfshard number x",NaN])";
  EXPECT_EQ(dump_json(parse_json(marked, "t")), marked) << "a text with the mark of such numbers";
  for (const char* wrong : {"Nan", "inf", "+Infinity", "-NaN", "NaNN", "[NaN", "{NaN:1}"})
    EXPECT_THROW(parse_json(wrong, "t"), Error) << wrong;
}

TEST(Json, IntegersBeyond64BitsAreCarriedAlong) {
  const std::string text = R"([18446744073709551615,18446744073709551616,-9223372036854775809])";
  const Json json = parse_json(text, "t");
  EXPECT_EQ(json.as_array()[0].as_uint(), UINT64_MAX);
  const Json& large = json.as_array()[1];
  ASSERT_NE(large.as_large(), nullptr);
  EXPECT_EQ(large.as_large()->digits, "18446744073709551616");
  EXPECT_FALSE(large.is_integer() || large.is_number());
  EXPECT_EQ(catch_error([&] { large.as_uint(); }).sentence(),
            "JSON has an integer beyond 64 bits instead of an integer of zero or more");
  EXPECT_FALSE(large == json.as_array()[2]);
  EXPECT_EQ(dump_json(json), text);
  EXPECT_EQ(shown_json(json), text);
}

TEST(Json, DumpReplacesInvalidUtf8) {
  EXPECT_EQ(dump_json(Json("a\xff\xc0\x80\xed\xa0\x80z")),
            R"("a\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdz")");
}

TEST(Json, KeysDifferInTheirValueOrInOneObjectOnly) {
  const Json a = parse_json(R"({"same":1,"value":2,"only_a":3})", "a");
  const Json b = parse_json(R"({"same":1,"value":3,"only_b":3})", "b");
  EXPECT_EQ(differing_keys(a, b), (std::vector<std::string>{"only_a", "only_b", "value"}));
  EXPECT_EQ(differing_keys(a, Json(1)), std::vector<std::string>());
}

}  // namespace
}  // namespace hfshard
