#include "base/text.h"

#include <clocale>
#include <cstdint>
#include <string>
#include <utility>

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

}  // namespace
}  // namespace hfshard
