#include "tool/mapping_flags.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "support/catch_error.h"
#include "tool/parser.h"

#include "hfshard/mappings.h"

namespace hfshard {
namespace {

// Parses a command line with one positional after the flags, as for `mappings check`.
MappingFlags parse(const std::string& line, std::string* positional = nullptr) {
  MappingFlags flags;
  std::string source;
  Command command{.name = "check", .summary = ""};
  command.positionals = {{.name = "SOURCE", .to = &source, .required = false, .help = ""}};
  command.options = mapping_table(flags);
  const Parsed parsed =
      parse(command, line.empty() ? std::vector<std::string>{} : split(line, ' '));
  if (parsed.error) throw Error(*parsed.error);
  if (positional != nullptr) *positional = source;
  return flags;
}

TEST(MappingFlags, DefaultsAreMaxtextAndStacked) {
  const MappingOptions options = mapping_options(parse(""));
  EXPECT_EQ(options.scheme, "maxtext");
  EXPECT_TRUE(options.stacked);
  // The release is recorded, so a newer default doesn't change existing plans.
  EXPECT_EQ(options.options,
            (std::map<std::string, std::string>{{"maxtext", list_releases("maxtext").front()}}));
  EXPECT_TRUE(mapping_options(parse("--scheme torchtitan")).options.empty());
}

TEST(MappingFlags, ReleasesGoByTheirNameOrCommit) {
  for (const char* name : {"0.2.4", "e591f30", "e591f30cbbf217ed67ef71263ec0538239f9c3b8"}) {
    EXPECT_EQ(mapping_options(parse(std::string("--maxtext ") + name)).options.at("maxtext"),
              "0.2.4");
  }
  EXPECT_EQ(mapping_options(parse("--option maxtext=0.2.4")).options.at("maxtext"), "0.2.4");
  const MappingFlags both = parse("--maxtext 0.2.4 --option maxtext=0.2.4");
  EXPECT_EQ(catch_error([&] { mapping_options(both); }).code(), ErrorCode::usage);
  for (const char* name : {"0.2", "0.2.40", "e591f3", "e591f30d"}) {
    const MappingFlags flags = parse(std::string("--maxtext ") + name);
    EXPECT_EQ(catch_error([&] { mapping_options(flags); }).code(), ErrorCode::usage) << name;
  }
}

TEST(MappingFlags, RepeatedFlagsLeaveThePositionalAlone) {
  std::string source;
  const MappingOptions options = mapping_options(
      parse("--include a* --include b* --exclude c* --option rope=halves dir", &source));
  EXPECT_EQ(source, "dir");
  EXPECT_EQ(options.include, (std::vector<std::string>{"a*", "b*"}));
  EXPECT_EQ(options.exclude, (std::vector<std::string>{"c*"}));
  EXPECT_EQ(options.options.at("rope"), "halves");
}

TEST(MappingFlags, PartsAreOptions) {
  const auto options = mapping_options(parse("--with mtp,vision --with audio")).options;
  for (const char* part : {"mtp", "vision", "audio"}) EXPECT_EQ(options.at(part), "true") << part;
}

TEST(MappingFlags, VocabIsAnOptionOfTheFamily) {
  EXPECT_EQ(mapping_options(parse("--vocab 32000")).options.at("vocab"), "32000");
}

TEST(MappingFlags, SchemeHfHasNoStackedLayers) {
  EXPECT_FALSE(mapping_options(parse("--scheme hf")).stacked);
}

TEST(MappingFlags, UnknownWordsAreRefused) {
  for (const char* line : {"--scheme torch", "--layers both", "--dtype int8", "--vocab -3"})
    EXPECT_EQ(catch_error([&] { parse(line); }).code(), ErrorCode::usage) << line;
}

TEST(MappingFlags, MalformedAndRepeatedOptionsAreUsageErrors) {
  for (const char* line : {"--option rope", "--option =halves", "--option a=1 --option a=2",
                           "--vocab 5 --option vocab=6", "--with mtp,", "--with ,mtp"}) {
    const MappingFlags flags = parse(line);
    EXPECT_EQ(catch_error([&] { mapping_options(flags); }).code(), ErrorCode::usage) << line;
  }
}

TEST(MappingFlags, EveryFlagReachesTheMapping) {
  const MappingOptions options =
      mapping_options(parse("--scheme torchtitan --prefix model. --drop d* --untie --num-layers 2 "
                            "--cast a*=f32 --cast b*=bf16 --cast c*=f16 --dtype f16 "
                            "--layers separate"));
  EXPECT_EQ(options.scheme, "torchtitan");
  EXPECT_EQ(options.prefix, "model.");
  EXPECT_EQ(options.drop, (std::vector<std::string>{"d*"}));
  EXPECT_TRUE(options.untie);
  EXPECT_EQ(options.num_layers, 2U);
  ASSERT_EQ(options.casts.size(), 3U);
  EXPECT_EQ(options.casts[0].glob, "a*");
  EXPECT_EQ(options.casts[0].dtype, DType::f32);
  EXPECT_EQ(options.casts[1].dtype, DType::bf16);
  EXPECT_EQ(options.casts[2].dtype, DType::f16);
  EXPECT_EQ(options.dtype, DType::f16);
  EXPECT_FALSE(options.keep_dtype);
  EXPECT_FALSE(options.stacked);
  const MappingOptions kept = mapping_options(parse("--dtype keep --layers separate"));
  EXPECT_TRUE(kept.keep_dtype);
  EXPECT_EQ(kept.dtype, std::nullopt);
  EXPECT_FALSE(kept.stacked);
}

// Only the default dialect keeps names and shapes, so only it can't have a mapping.
TEST(MappingFlags, CastsAndFilesThatCantBeUsedAreUsageErrors) {
  for (const char* line : {"--cast a*", "--cast a*=i8", "--cast a*=f64", "--cast a*="}) {
    const MappingFlags flags = parse(line);
    EXPECT_EQ(catch_error([&] { mapping_options(flags); }).code(), ErrorCode::usage) << line;
  }
  MappingFlags flags = parse("--scheme hf");
  flags.files = {"nowhere.json"};
  EXPECT_EQ(catch_error([&] { mapping_options(flags); }).code(), ErrorCode::usage);
  flags.dialect = "modules";
  EXPECT_EQ(catch_error([&] { mapping_options(flags); }).code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace hfshard
