#include "tool/mapping_flags.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/variables.h"
#include "tool/parser.h"
#include "unit/mapping/tiny_family.h"

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

TEST(MappingFlags, ErrorsSayHowTheFlagIsWritten) {
  const auto refused = [](const std::string& line) {
    const MappingFlags flags = parse(line);
    const Error error = catch_error([&] { mapping_options(flags); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.sentence() + "; " + error.hint_text();
  };
  const std::string cast =
      "DTYPE is bf16, f16 or f32; GLOB matches leaf paths as hfshard plan prints them";
  EXPECT_EQ(refused("--cast a*"), "--cast needs GLOB=DTYPE, not \"a*\"; " + cast);
  EXPECT_EQ(refused("--cast a=b=i8"), "--cast doesn't know the dtype \"i8\"; " + cast);
  EXPECT_EQ(refused("--with mtp,"), "--with has an empty name; it takes mtp, vision or audio; ");
  EXPECT_EQ(refused("--option =x"), "--option needs NAME=VALUE, not \"=x\"; ");
  EXPECT_EQ(refused("--with mtp --option mtp=false"), "option \"mtp\" is given twice; ");
  EXPECT_EQ(refused("--scheme hf --mapping x.json"),
            "--scheme hf keeps names and shapes, so it can't use --mapping; ");
}

TEST(MappingFlags, AValueCanHaveAnEqualsSign) {
  EXPECT_EQ(mapping_options(parse("--option a=b=c")).options.at("a"), "b=c");
  const MappingOptions casts = mapping_options(parse("--cast a=b*=f16"));
  ASSERT_EQ(casts.casts.size(), 1U);
  EXPECT_EQ(casts.casts[0].glob, "a=b*");
}

// A variable names the directory.
TEST(MappingFlags, ADirectoryOfMappingsMustExist) {
  const TempDir dir;
  const std::string tiny = tiny_family_with("\"F\": 5", "\"F\": 6");
  write_text(dir / "maps/tiny.json", tiny);
  write_text(dir / "tiny.json", kTinyFamily);
  const auto with = [&](const std::string& directory, const std::string& line) {
    const Variables variables("HFSHARD_MAPPINGS", directory);
    return own_mappings(parse(line));
  };
  ASSERT_EQ(with(dir / "maps", "").size(), 1U);
  EXPECT_EQ(with(dir / "maps", "")[0].text, tiny);
  EXPECT_FALSE(with(dir / "maps", "")[0].asked);
  ASSERT_EQ(with(dir / "maps", "--mapping " + (dir / "tiny.json")).size(), 1U);
  EXPECT_EQ(with(dir / "maps", "--mapping " + (dir / "tiny.json"))[0].text, kTinyFamily);
  const Error error = catch_error([&] { with(dir / "none", ""); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "the variable HFSHARD_MAPPINGS doesn't name a directory");
  EXPECT_EQ(error.file(), dir / "none");
  EXPECT_EQ(error.hint_text(), "unset it, or pass --mapping FILE");
}

}  // namespace
}  // namespace hfshard
