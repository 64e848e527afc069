#include "base/typed.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(UrlScheme, IsThatOfUrlsOnly) {
  EXPECT_EQ(url_scheme("gs://bucket/x"), "gs");
  EXPECT_EQ(url_scheme("https://host"), "https");
  EXPECT_EQ(url_scheme("a+b-c.1://x"), "a+b-c.1");
  for (const char* text : {"", "gs:/x", "gs:x", "://x", "/gs://x", "./gs://x", "1s://x", "a b://x"})
    EXPECT_EQ(url_scheme(text), "") << text;
}

TEST(ParseWhole, TakesDigitsAndNothingElse) {
  EXPECT_EQ(parse_whole("0"), 0U);
  EXPECT_EQ(parse_whole("007"), 7U);
  EXPECT_EQ(parse_whole("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "18446744073709551616"})
    EXPECT_EQ(parse_whole(text), std::nullopt) << text;
}

using Names = std::vector<std::string>;

TEST(MeantNames, KnowsCapitalsOtherProgramsNamesAndSlips) {
  const Names dtypes{"keep", "bf16", "f16", "f32"};
  EXPECT_EQ(meant_names("bfloat16", dtypes), Names{"bf16"});
  EXPECT_EQ(meant_names("BFloat16", dtypes), Names{"bf16"});
  EXPECT_EQ(meant_names("float32", dtypes), Names{"f32"});
  EXPECT_EQ(meant_names("F16", dtypes), Names{"f16"});
  const Names axes{"data", "expert", "fsdp", "tensor"};
  EXPECT_EQ(meant_names("tp", axes), Names{"tensor"});
  EXPECT_EQ(meant_names("fdsp", axes), Names{"fsdp"});
  EXPECT_EQ(meant_names("pp", axes), Names{});  // stage isn't one of them
}

TEST(NameHint, ListsWhatIsKnownWhereNothingIsNear) {
  EXPECT_EQ(name_hint("tensr", {"data", "tensor"}), "did you mean tensor?");
  EXPECT_EQ(name_hint("pipeline", {"data", "tensor"}), "pass one of data, tensor");
}

TEST(MeantNames, EachNameOfAnotherProgramIsKnown) {
  const Names all{"bf16",  "f16",     "f32",         "tensor", "data", "expert",
                  "stage", "context", "safetensors", "dcp",    "hf"};
  const std::pair<const char*, const char*> names[] = {
      {"bfloat16", "bf16"}, {"float16", "f16"}, {"fp16", "f16"},
      {"half", "f16"},      {"float32", "f32"}, {"fp32", "f32"},
      {"float", "f32"},     {"tp", "tensor"},   {"dp", "data"},
      {"ep", "expert"},     {"pp", "stage"},    {"cp", "context"},
      {"pytorch", "dcp"},   {"torch", "dcp"},   {"Transformers", "hf"},
      {"HF", "hf"},         {"FP16", "f16"},    {"huggingface", "safetensors"}};
  for (const auto& [word, name] : names) EXPECT_EQ(meant_names(word, all), Names{name}) << word;
  EXPECT_EQ(meant_names("hf", {"safetensors", "dcp"}), Names{"safetensors"});
  EXPECT_EQ(meant_names("huggingface", {"hf", "dcp"}), Names{"hf"});
}

TEST(MeantNames, AShortWordIsNearToNothing) {
  EXPECT_EQ(meant_names("ab", {"abc", "ac"}), Names{});
  EXPECT_EQ(meant_names("abc", {"abd", "ac"}), (Names{"abd", "ac"}));
  EXPECT_EQ(meant_names("ABD", {"abc", "abd"}), Names{"abd"}) << "one of them alone";
}

TEST(NameHint, JoinsNamesThatAreEquallyNear) {
  EXPECT_EQ(name_hint("bar", {"bat", "baz", "other"}), "did you mean bat or baz?");
  EXPECT_EQ(name_hint("x", {"bat", "baz"}), "pass one of bat, baz");
}

}  // namespace
}  // namespace hfshard
