#include "base/text.h"

#include <clocale>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Text, ShellWordsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(shell_word("/a/b-c_d.e,f:g=h@i%j+0"), "/a/b-c_d.e,f:g=h@i%j+0");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_word("x=[]"), "'x=[]'");
  EXPECT_EQ(shell_word("~"), "'~'");
  EXPECT_EQ(shell_word("$(a)"), "'$(a)'");
  EXPECT_EQ(shell_word("a\nb\x1b[31m it's \\x"), R"($'a\012b\033[31m it\'s \\x')");
}

TEST(Text, HumanBytesHasThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(20), "20 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(std::uint64_t{64} << 20), "64 MiB");
  EXPECT_EQ(human_bytes(1277752771), "1.19 GiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16 EiB");
}

TEST(Text, HumanBytesTakesTheNextUnitWhereItWouldSay1024) {
  EXPECT_EQ(human_bytes(1024), "1 KiB");
  std::uint64_t unit = 1024;
  std::string name = "KiB";
  for (const std::string next : {"MiB", "GiB", "TiB", "PiB", "EiB"}) {
    EXPECT_EQ(human_bytes(unit * 999), "999 " + name);
    EXPECT_EQ(human_bytes(unit * 1000), "1000 " + name);
    EXPECT_EQ(human_bytes(unit * 1023 + unit / 4), "1023 " + name);
    EXPECT_EQ(human_bytes(unit * 1023 + unit / 2), "1 " + next);
    EXPECT_EQ(human_bytes(unit * 1024 - 1), "1 " + next);
    EXPECT_EQ(human_bytes(unit * 1024), "1 " + next);
    EXPECT_EQ(human_bytes(unit * 1034), "1.01 " + next);
    unit *= 1024;
    name = next;
  }
}

TEST(Text, ParseBytesKnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("1000000"), 1000000U);
  EXPECT_EQ(parse_bytes("64MiB"), 64U << 20);
  EXPECT_EQ(parse_bytes("512K"), 512U << 10);
  EXPECT_EQ(parse_bytes("2gib"), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1.5GiB"), std::uint64_t{3} << 29);
  EXPECT_EQ(parse_bytes("1.500000KiB"), 1536U) << "six digits at most";
  EXPECT_EQ(parse_bytes("3GB"), 3'000'000'000U);
  EXPECT_EQ(parse_bytes("64 MiB"), 64U << 20);
  EXPECT_EQ(parse_bytes("18446744073709551615"), UINT64_MAX);
}

TEST(Text, ParseBytesRefusesWhatItCannotRead) {
  for (const char* text :
       {"", "MiB", "-1", "1.5", "1.GiB", ".5GiB", "1e3", "12 apples", "+1", "0x10", "1.0000001GiB",
        "18446744073709551616", "99999999TiB", "1GiB ", " 1", "1  K"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Text, GlobMatchesWholeNames) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("model.layers.*.weight", "model.layers.0.mlp.up.weight"));
  EXPECT_FALSE(glob_match("model.layers.*.weight", "model.layers.0.mlp.up.bias"));
  EXPECT_TRUE(glob_match("a?c", "abc"));
  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_TRUE(glob_match("*a*a*b", "aaaab"));
  EXPECT_FALSE(glob_match("*a*a*b", "aaaac"));
  EXPECT_TRUE(glob_match("x[0-9a].w", "x7.w"));
  EXPECT_TRUE(glob_match("x[0-9a].w", "xa.w"));
  EXPECT_FALSE(glob_match("x[!0-9].w", "x7.w"));
  EXPECT_TRUE(glob_match("x[]]", "x]"));
  EXPECT_TRUE(glob_match("x[", "x["));
  EXPECT_TRUE(glob_match("x[a-]", "x-"));
  EXPECT_FALSE(glob_match("", "x"));
  EXPECT_TRUE(glob_match("ab", "ab"));
  EXPECT_FALSE(glob_match("ab", "abc"));
  EXPECT_FALSE(glob_match("ab", "a"));
  EXPECT_TRUE(glob_match("ab*ba", "abba"));
  EXPECT_FALSE(glob_match("ab*ba", "aba"));  // no byte is matched twice
  EXPECT_FALSE(glob_match("ab*ba", "abbab"));
  EXPECT_TRUE(glob_match("ab*[x]", "ab.x"));
}

TEST(Text, GlobTakesDotsSlashesAndBackslashesForOrdinaryCharacters) {
  EXPECT_TRUE(glob_match("a*z", "a/b.c/.z"));
  EXPECT_TRUE(glob_match("*", ".hidden"));
  EXPECT_TRUE(glob_match("a?b", "a/b"));
  EXPECT_TRUE(glob_match("a\\*", "a\\bc"));
  EXPECT_FALSE(glob_match("a\\*", "a*"));
  EXPECT_FALSE(glob_match("A", "a"));
}

TEST(Text, GlobHasNamedSets) {
  EXPECT_TRUE(glob_match("layers.[[:digit:]].*", "layers.7.w"));
  EXPECT_FALSE(glob_match("layers.[[:digit:]].*", "layers.x.w"));
  EXPECT_TRUE(glob_match("x[^0-9]", "xa"));
}

TEST(Text, GlobMatchesNoPartOfANameWithNul) {
  const std::string name("a\0b", 3);
  EXPECT_FALSE(glob_match("a", name));
  EXPECT_FALSE(glob_match(name, "a"));
  EXPECT_FALSE(glob_match("*", name));
}

TEST(Text, GlobMatchesBytesInEveryLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  if (std::setlocale(LC_ALL, "C.UTF-8") == nullptr) GTEST_SKIP() << "no C.UTF-8 here";
  EXPECT_FALSE(glob_match("a?b",
                          "a\xc3\xa9"
                          "b"));  // two bytes, one character in UTF-8
  EXPECT_TRUE(glob_match("a??b",
                         "a\xc3\xa9"
                         "b"));
  EXPECT_TRUE(glob_match("a?b",
                         "a\xff"
                         "b"));
  std::setlocale(LC_ALL, before.c_str());
}

TEST(Text, NearNamesAreSortedByDistanceAndFarOnesLeftOut) {
  const std::vector<std::string> axes{"fsdp", "tensor", "expert", "data", "fsdp_transpose"};
  EXPECT_EQ(near_names("fdsp", axes), (std::vector<std::string>{"fsdp"}));
  EXPECT_EQ(near_names("exprt", axes), (std::vector<std::string>{"expert"}));
  EXPECT_TRUE(near_names("zzzzzz", axes).empty());
  EXPECT_EQ(near_names("ab", {"b", "abc", "ab", "a"}, 2), (std::vector<std::string>{"ab", "a"}));
}

TEST(Text, QuoteEscapesWhatATerminalWouldObey) {
  EXPECT_EQ(quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quote("\x1b[31m\x7f"), "\"\\x1b[31m\\x7f\"");
  EXPECT_EQ(printable("/a \"b\""), "/a \"b\"");
}

TEST(Text, NamesInUtf8AreShownAsTheyAre) {
  const std::string name = "M\u00fcller/\u6a21\u578b-\u03b1\U0001F600";
  EXPECT_EQ(printable(name), name);
  EXPECT_EQ(quote(name), "\"" + name + "\"");
}

TEST(Text, WhatIsNoUtf8IsEscapedByteByByte) {
  EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");                           // alone, truncated
  EXPECT_EQ(printable("\xc0\xaf\xe0\x80\xaf"), "\\xc0\\xaf\\xe0\\x80\\xaf");  // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");                    // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");           // above U+10FFFF
}

TEST(Text, Utf8IsReadUpToTheEndOfEachLengthAndRange) {
  const std::pair<std::string, std::uint32_t> cases[] = {
      {"\x7f", 0x7f},     {"\u0080", 0x80},         {"\u07ff", 0x7ff},
      {"\u0800", 0x800},  {"\xed\x9f\xbf", 0xd7ff}, {"\xee\x80\x80", 0xe000},
      {"\uffff", 0xffff}, {"\U00010000", 0x1'0000}, {"\U0010ffff", 0x10'ffff}};
  for (const auto& [text, code] : cases) {
    const Utf8Char found = decode_utf8(text);
    EXPECT_TRUE(found.valid) << code;
    EXPECT_EQ(static_cast<std::uint32_t>(found.code), code);
    EXPECT_EQ(found.bytes, text.size()) << code;
    EXPECT_TRUE(is_utf8(text)) << code;
  }
}

TEST(Text, CharactersThatATerminalObeysOrHidesAreEscapedInUtf8Too) {
  EXPECT_EQ(printable("\u009b31m"), "\\xc2\\x9b31m");     // 8-bit CSI
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");  // right to left from here
  EXPECT_EQ(printable("\u2028"), "\\xe2\\x80\\xa8");
  EXPECT_EQ(printable("\u200b\ufeff"), "\\xe2\\x80\\x8b\\xef\\xbb\\xbf");
  EXPECT_EQ(printable("\U000E0041"), "\\xf3\\xa0\\x81\\x81");
  EXPECT_EQ(printable("\uffff"), "\\xef\\xbf\\xbf");
}

TEST(Text, WidthIsThatOfATerminal) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("M\u00fcller"), 6U);
  EXPECT_EQ(display_width("u\u0308"), 1U);
  EXPECT_EQ(display_width("\u6a21\u578b"), 4U);
  EXPECT_EQ(display_width("\U0001F600"), 2U);
}

TEST(Text, SplitAndJoinAreInverse) {
  EXPECT_EQ(split("a..b", '.'), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", '.'), (std::vector<std::string>{""}));
  EXPECT_EQ(join({"a", "", "b"}, "."), "a..b");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(Text, HintsCountWhatThereIs) {
  EXPECT_EQ(there_are({"7"}), "the only one is 7");
  EXPECT_EQ(there_are({"7", "8"}), "there are 7, 8");
}

TEST(Globs, TheGlobOfANameMatchesOnlyThatName) {
  EXPECT_EQ(glob_of("a*b?c[d]"), "a[*]b[?]c[[]d]");
  for (const char* name : {"a*b", "a?b", "a[x]b"}) {
    EXPECT_TRUE(glob_match(glob_of(name), name)) << name;
    EXPECT_FALSE(glob_match(glob_of(name), "axb")) << name;
  }
  EXPECT_FALSE(glob_match(std::string("?\0x", 3), "a")) << "a pattern doesn't end at a NUL";
}

TEST(ShellWord, ABackslashIsEscapedOnlyNextToControls) {
  EXPECT_EQ(shell_word("a\\b"), "'a\\b'");
  EXPECT_EQ(shell_word("a\\\n"), "$'a\\\\\\012'");
}

std::string utf8_of(char32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  const std::uint32_t c = code;
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000)
    return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)),
          byte(0x80 | (c & 0x3f))};
}

TEST(Text, CharactersAreHiddenToTheEndsOfTheirRanges) {
  const std::vector<char32_t> hidden{
      0x0,    0x1f,   0x7f,   0x9f,   0xad,    0x600,   0x605,   0x61c,   0x6dd,   0x70f,
      0x180e, 0x200b, 0x200f, 0x2028, 0x202e,  0x2060,  0x206f,  0xfdd0,  0xfdef,  0xfeff,
      0xfff9, 0xfffb, 0xfffe, 0xffff, 0x1fffe, 0x1d173, 0x1d17a, 0xe0000, 0xe0fff, 0x10ffff};
  for (const char32_t code : hidden)
    EXPECT_FALSE(is_shown(code)) << static_cast<std::uint32_t>(code);
  const std::vector<char32_t> shown{
      0x20,   0x7e,   0xa0,   0xac,   0xae,   0x5ff,  0x606,   0x61b,   0x61d,   0x6dc,  0x6de,
      0x70e,  0x710,  0x180d, 0x180f, 0x200a, 0x2010, 0x2027,  0x202f,  0x205f,  0x2070, 0xfdcf,
      0xfdf0, 0xfefe, 0xff00, 0xfff8, 0xfffc, 0xfffd, 0x10000, 0x1d172, 0x1d17b, 0xe1000};
  for (const char32_t code : shown) EXPECT_TRUE(is_shown(code)) << static_cast<std::uint32_t>(code);
}

TEST(Text, CharactersAreWideOrCombiningToTheEndsOfTheirRanges) {
  const auto width = [](char32_t code) { return display_width(utf8_of(code)); };
  const std::vector<char32_t> combining{0x300,  0x36f,  0x1ab0, 0x1aff, 0x1dc0, 0x1dff,
                                        0x20d0, 0x20ff, 0xfe00, 0xfe0f, 0xfe20, 0xfe2f};
  for (const char32_t code : combining)
    EXPECT_EQ(width(code), 0U) << static_cast<std::uint32_t>(code);
  const std::vector<char32_t> wide{0x1100, 0x115f, 0x2e80,  0x303e,  0x3041,  0xa4cf,
                                   0xac00, 0xd7a3, 0xf900,  0xfaff,  0xfe30,  0xfe6f,
                                   0xff00, 0xff60, 0x1f300, 0x1faff, 0x20000, 0x3fffd};
  for (const char32_t code : wide) EXPECT_EQ(width(code), 2U) << static_cast<std::uint32_t>(code);
  const std::vector<char32_t> narrow{
      0x41,   0x2ff,  0x370,  0x10ff, 0x1160, 0x1aaf, 0x1b00, 0x1dbf, 0x1e00, 0x20cf,  0x2100,
      0x2e7f, 0x303f, 0xa4d0, 0xabff, 0xd7a4, 0xfb00, 0xfe10, 0xfe70, 0xff61, 0x1f2ff, 0x1fb00};
  for (const char32_t code : narrow) EXPECT_EQ(width(code), 1U) << static_cast<std::uint32_t>(code);
  EXPECT_EQ(display_width("a\xff\xfe"), 3U) << "a byte that isn't UTF-8";
}

TEST(Text, EveryUnitOfBytesIsKnown) {
  const std::pair<const char*, std::uint64_t> units[] = {{"3", 3},
                                                         {"3B", 3},
                                                         {"3k", 3U << 10},
                                                         {"3M", 3U << 20},
                                                         {"3G", std::uint64_t{3} << 30},
                                                         {"3T", std::uint64_t{3} << 40},
                                                         {"3KiB", 3U << 10},
                                                         {"3MiB", 3U << 20},
                                                         {"3GiB", std::uint64_t{3} << 30},
                                                         {"3TiB", std::uint64_t{3} << 40},
                                                         {"3KB", 3'000},
                                                         {"3MB", 3'000'000},
                                                         {"3gb", 3'000'000'000},
                                                         {"3TB", 3'000'000'000'000}};
  for (const auto& [text, bytes] : units) EXPECT_EQ(parse_bytes(text), bytes) << text;
  EXPECT_EQ(parse_bytes("0.25 TB"), 250'000'000'000U);
  EXPECT_EQ(parse_bytes("1.000001MB"), 1'000'001U);
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("16777215TiB"), UINT64_MAX - (std::uint64_t{1} << 40) + 1);
  EXPECT_EQ(parse_bytes("16777216TiB"), std::nullopt);
  EXPECT_EQ(parse_bytes("18446744073.709551GB"), 18'446'744'073'709'551'000U);
  EXPECT_EQ(parse_bytes("18446744073.709552GB"), std::nullopt) << "only with its fraction";
  for (const char* none : {"3.5B", "3PB", "3.5", "3\tK"})
    EXPECT_EQ(parse_bytes(none), std::nullopt) << none;
}

TEST(Text, NumbersHaveThreeDigitsOrAllOfTheirWholePart) {
  EXPECT_EQ(three_digits(0), "0");
  EXPECT_EQ(three_digits(0.0123456), "0.0123");
  EXPECT_EQ(three_digits(12.345), "12.3");
  EXPECT_EQ(three_digits(999.4), "999");
  EXPECT_EQ(three_digits(999.6), "1000");
  EXPECT_EQ(three_digits(123456.7), "123457");
}

TEST(Text, ListsOfNamesAreCutWithACount) {
  const std::vector<std::string> names{"a", "b\n", "c"};
  EXPECT_EQ(quoted_list(names), R"("a", "b\x0a", "c")");
  EXPECT_EQ(quoted_list(names, 3), R"("a", "b\x0a", "c")");
  EXPECT_EQ(quoted_list(names, 2), R"("a", "b\x0a" and 1 more)");
  EXPECT_EQ(quoted_list({}), "");
  const std::vector<std::string> nine(9, "x");
  EXPECT_TRUE(quoted_list(nine).ends_with(R"("x" and 1 more)")) << quoted_list(nine);
}

TEST(Text, NearNamesAllowAThirdOfTheLetters) {
  EXPECT_EQ(near_names("abcdefghi", {"abcdefxyz"}), std::vector<std::string>{"abcdefxyz"});
  EXPECT_EQ(near_names("abcdefghi", {"abcdewxyz"}), std::vector<std::string>());
  EXPECT_EQ(near_names("abc", {"axy"}), std::vector<std::string>{"axy"}) << "two at least";
  EXPECT_EQ(near_names("ab", {"abcde"}), std::vector<std::string>());
  EXPECT_EQ(near_names("ab", {"ae", "ad", "ac", "aa", "ab"}),
            (std::vector<std::string>{"ab", "aa", "ac"}))
      << "three, the nearest first";
}

TEST(Text, PartsOfNamesAreFound) {
  EXPECT_EQ(first_key("opt_state.mu.kernel"), "opt_state");
  EXPECT_EQ(first_key("step"), "step");
  EXPECT_EQ(first_key(".x"), "");
  EXPECT_EQ(common_prefix("model.a", "model.b"), 6U);
  EXPECT_EQ(common_prefix("model", "model.b"), 5U);
  EXPECT_EQ(common_prefix("", "x"), 0U);
  EXPECT_EQ(lower_case("AZ[az\xc3\x84"), "az[az\xc3\x84");
  EXPECT_EQ(split("a.", '.'), (std::vector<std::string>{"a", ""}));
}

TEST(Text, AnEmptyTextHasTheCharacterZero) {
  EXPECT_EQ(static_cast<std::uint32_t>(decode_utf8("").code), 0U);
  const Utf8Char bad = decode_utf8("\xe6\xa8");
  EXPECT_EQ(static_cast<std::uint32_t>(bad.code), 0xfffdU);
  EXPECT_EQ(bad.bytes, 1U);
  EXPECT_FALSE(bad.valid);
  EXPECT_TRUE(is_utf8(""));
  EXPECT_FALSE(is_utf8("ab\xe6\xa8"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80")) << "a surrogate of Python";
}

}  // namespace
}  // namespace hfshard
