#include "base/typed.h"

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

}  // namespace
}  // namespace hfshard
