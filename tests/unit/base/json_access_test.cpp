// Typed access to JSON values, and the words of its errors.

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/json_shape.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(JsonAccess, NamesTheTypeThatItFound) {
  const auto instead_of_array = [](const Json& json) {
    const std::string sentence = catch_error([&] { (void)json.as_array(); }).sentence();
    EXPECT_TRUE(sentence.ends_with(" instead of an array")) << sentence;
    return sentence.substr(0, sentence.find(" instead"));
  };
  EXPECT_EQ(instead_of_array(Json()), "JSON has null");
  EXPECT_EQ(instead_of_array(true), "JSON has a boolean");
  EXPECT_EQ(instead_of_array("x"), "JSON has a string");
  EXPECT_EQ(instead_of_array(Json::Object()), "JSON has an object");
  EXPECT_EQ(instead_of_array(LargeInteger{"99"}), "JSON has an integer beyond 64 bits");
  EXPECT_EQ(instead_of_array(-1), "JSON has an integer");
  EXPECT_EQ(instead_of_array(UINT64_MAX), "JSON has an integer");
  EXPECT_EQ(instead_of_array(1.5), "JSON has a number with a fraction");
  const Error object = catch_error([] { (void)Json(Json::Array()).as_object(); });
  EXPECT_EQ(object.sentence(), "JSON has an array instead of an object");
}

TEST(JsonAccess, NamesTheTypeThatItWants) {
  const Json null;
  const auto wanted = [](auto access) {
    const std::string sentence = catch_error(access).sentence();
    return sentence.substr(sentence.find("instead of ") + 11);
  };
  EXPECT_EQ(wanted([&] { (void)null.as_bool(); }), "a boolean");
  EXPECT_EQ(wanted([&] { (void)null.as_int(); }), "an integer");
  EXPECT_EQ(wanted([&] { (void)null.as_uint(); }), "an integer of zero or more");
  EXPECT_EQ(wanted([&] { (void)null.as_double(); }), "a number");
  EXPECT_EQ(wanted([&] { (void)null.as_string(); }), "a string");
  EXPECT_EQ(wanted([&] { (void)null.as_object(); }), "an object");
  EXPECT_EQ(wanted([] { (void)Json(1).array(); }), "an array");
  EXPECT_EQ(wanted([] { (void)Json(1).object(); }), "an object");
}

TEST(JsonAccess, IntegersOutsideTheirRangeAreNamed) {
  EXPECT_EQ(catch_error([] { (void)Json(-7).as_uint(); }).sentence(),
            "-7 is negative, and a size can't be");
  const std::uint64_t above = std::uint64_t{1} << 63;
  EXPECT_EQ(catch_error([&] { (void)Json(above).as_int(); }).sentence(),
            "the integer 9223372036854775808 is above 2^63 - 1");
  EXPECT_EQ(Json(above - 1).as_int(), INT64_MAX);
  EXPECT_EQ(Json(0).as_uint(), 0U);
  EXPECT_EQ(Json(std::uint32_t{4294967295}).as_uint(), 4294967295U);
}

TEST(JsonAccess, EveryNumberIsADouble) {
  EXPECT_EQ(Json(-2).as_double(), -2.0);
  EXPECT_EQ(Json(UINT64_MAX).as_double(), 0x1p64);
  EXPECT_EQ(Json(NotFinite::infinity).as_double(), HUGE_VAL);
  EXPECT_EQ(Json(NotFinite::minus_infinity).as_double(), -HUGE_VAL);
  for (const Json& number : {Json(1), Json(UINT64_MAX), Json(1.5), Json(NotFinite::nan)})
    EXPECT_TRUE(number.is_number()) << dump_json(number);
  for (const Json& other :
       {Json(), Json(true), Json("1"), Json(Json::Array()), Json(Json::Object())})
    EXPECT_FALSE(other.is_number()) << dump_json(other);
  for (const Json& integer : {Json(1), Json(UINT64_MAX)}) EXPECT_TRUE(integer.is_integer());
  for (const Json& other : {Json(1.0), Json(NotFinite::infinity), Json(true)})
    EXPECT_FALSE(other.is_integer()) << dump_json(other);
  EXPECT_EQ(Json(1.5).as_not_finite(), std::nullopt);
  EXPECT_EQ(to_string(NotFinite::nan), "NaN");
  EXPECT_EQ(shown_json(NotFinite::minus_infinity), "\"-Infinity\"");
}

TEST(JsonAccess, IntegersAndRealsAreNotEqual) {
  EXPECT_FALSE(Json(1) == Json(1.0));
  EXPECT_FALSE(Json(0) == Json(false));
  EXPECT_FALSE(Json() == Json(Json::Object()));
  EXPECT_EQ(Json(std::uint32_t{7}), Json(std::int64_t{7}));
  EXPECT_EQ(Json(std::uint64_t{INT64_MAX}), Json(std::int64_t{INT64_MAX}));
}

TEST(JsonAccess, NullBecomesWhatItIsUsedAs) {
  Json object;
  object["x"]["y"] = 1;
  EXPECT_EQ(dump_json(object), R"({"x":{"y":1}})");
  Json array;
  array.array().emplace_back(2);
  EXPECT_EQ(dump_json(array), "[2]");
  EXPECT_EQ(array.find("x"), nullptr);
  EXPECT_EQ(catch_error([&] { (void)object.at("z\n"); }).sentence(),
            "JSON lacks the member \"z\\x0a\"");
  EXPECT_EQ(catch_error([&] { (void)array.at("x"); }).sentence(), "JSON lacks the member \"x\"");
  EXPECT_EQ(differing_keys(array, object), std::vector<std::string>());
  EXPECT_EQ(differing_keys(object, Json(Json::Object())), std::vector<std::string>{"x"});
}

TEST(JsonErrors, HaveTheirWords) {
  const auto said = [](std::string_view text) {
    const Error error = catch_error([&] { parse_json(text, "t.json"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.file(), "t.json");
    return error.sentence();
  };
  EXPECT_EQ(said(R"({"a\n":1,"a\n":2})"), "key \"a\\x0a\" appears twice");
  EXPECT_EQ(said(std::string(65, '[')), "JSON deeper than 64");
  EXPECT_EQ(said(std::string_view("[\0]", 3)), "a NUL byte in JSON");
  EXPECT_EQ(said("\xEF\xBB\xBF[]"), "a byte order mark before JSON");
  EXPECT_EQ(said("{NaN:1}"), "malformed JSON: a number instead of a key");
  for (const char* empty : {"", " \t\r\n"})
    EXPECT_EQ(said(empty), "the file is empty instead of JSON");
  const std::string grammar = said("[1,x]");
  EXPECT_TRUE(grammar.starts_with("malformed JSON: syntax error")) << grammar;
  EXPECT_EQ(grammar.find("at line"), std::string::npos) << "the error's own place is enough";
}

TEST(JsonErrors, AnEmptyFileHasItsSize) {
  const Error error = catch_error([] { parse_json(" \n ", "t"); });
  EXPECT_EQ(error.range(), (ByteRange{0, 0}));
  EXPECT_EQ(error.total_bytes(), 3U);
}

TEST(JsonErrors, ATextThatEndsTooSoonIsWrongAtItsEnd) {
  const Error error = catch_error([] { parse_json("[1,\n 2", "t"); });
  EXPECT_EQ(error.range(), (ByteRange{6, 6}));
  EXPECT_EQ(error.place(), (TextPlace{2, 3}));
}

TEST(TextPlaceOf, AByteIsALineAndAColumn) {
  const std::string text = "ab\n\u6a21c";
  EXPECT_EQ(text_place(text, 0), (TextPlace{1, 1}));
  EXPECT_EQ(text_place(text, 2), (TextPlace{1, 3}));
  EXPECT_EQ(text_place(text, 3), (TextPlace{2, 1}));
  EXPECT_EQ(text_place(text, 6), (TextPlace{2, 2}));
  EXPECT_EQ(text_place(text, 7), (TextPlace{2, 3}));
}

// A word of Python in a string, also next to escapes, is text.
TEST(JsonNotFinite, OnlyNumbersAreReplaced) {
  EXPECT_EQ(dump_json(parse_json(R"(["\\",NaN])", "t")), R"(["\\",NaN])");
  EXPECT_EQ(dump_json(parse_json(R"(["\"NaN",Infinity])", "t")), R"(["\"NaN",Infinity])");
  EXPECT_EQ(without_not_finite(R"({"a": 1, "b": "x"})"), R"({"a": 1, "b": "x"})");
  EXPECT_EQ(without_not_finite(R"({"a": "NaN"})"), R"({"a": "NaN"})");
  EXPECT_EQ(without_not_finite("[-Infinity]"), "[\"\\u0000hfshard number -Infinity\"]");
  EXPECT_EQ(parse_json("NaN", "t"), Json(NotFinite::nan));
}

TEST(JsonShape, ExtentsAndTextsAreArrays) {
  EXPECT_EQ(dump_json(shape_json(Shape{2048, 1024})), "[2048,1024]");
  EXPECT_EQ(dump_json(shape_json(Shape{})), "[]");
  EXPECT_EQ(dump_json(texts_json({"b", "a"})), R"(["b","a"])");
}

// malloc adds a word, rounds up to two, and takes at least four.
TEST(HeapBytes, AreTheBlocksOfMalloc) {
  EXPECT_EQ(heap_block(0), 0U);
  EXPECT_EQ(heap_block(1), 32U);
  EXPECT_EQ(heap_block(24), 32U);
  EXPECT_EQ(heap_block(25), 48U);
  EXPECT_EQ(heap_block(40), 48U);
  EXPECT_EQ(heap_bytes(std::string(15, 'x')), 0U) << "in the string itself";
  std::string text;
  text.reserve(99);
  EXPECT_EQ(heap_bytes(text), heap_block(100));
  const std::vector<std::string> texts{text, "", text};
  EXPECT_EQ(heap_bytes(texts), heap_block(3 * sizeof(std::string)))
      << "copies of an empty string take nothing";
  std::vector<std::uint32_t> numbers;
  numbers.reserve(20);
  EXPECT_EQ(heap_bytes(numbers), heap_block(80));
  EXPECT_EQ(heap_bytes(numbers, [](std::uint32_t) { return 100U; }), heap_block(80));
  numbers = {1, 2};
  EXPECT_EQ(heap_bytes(numbers, [](std::uint32_t n) { return n; }),
            heap_block(numbers.capacity() * 4) + 3);
}

TEST(HeapBytes, AJsonValueHasThoseOfEachMember) {
  const std::string wide(100, 'w');
  const std::uint64_t text = heap_bytes(wide);
  EXPECT_EQ(heap_bytes(Json(1)) + heap_bytes(Json()), 0U);
  EXPECT_EQ(heap_bytes(Json(wide)), text);
  EXPECT_EQ(heap_bytes(Json(LargeInteger{wide})), text);
  Json::Array items;
  items.reserve(2);
  items.emplace_back(wide);
  items.emplace_back(1);
  const std::uint64_t array = heap_block(2 * sizeof(Json)) + text;
  EXPECT_EQ(heap_bytes(Json(std::move(items))), array);
  Json object;
  object["k"] = wide;
  const std::uint64_t one = heap_bytes(object);
  EXPECT_GT(one, text + sizeof(Json));
  object["l"] = wide;
  EXPECT_EQ(heap_bytes(object), 2 * one);
}

}  // namespace
}  // namespace hfshard
