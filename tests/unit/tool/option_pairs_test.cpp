// The reasons why an option has no effect. tests/cli/pairs.py runs the commands.

#include "tool/option_pairs.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/parser.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the error of a command line, or an empty text.
std::string refused(const std::string& line) {
  Session session;
  const Command app = program(session);
  const Parsed parsed = parse(app, split(line, ' '));
  if (parsed.error) return "not parsed: " + parsed.error->sentence();
  try {
    check_pairs(parsed);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.sentence() + "; " + error.hint_text();
  }
}

// Each: a command line, the idle option, the other one, and the reason.
struct Idle {
  std::string line;
  std::string option;
  std::string with;
  std::string why;
};

void expect_idle(const std::vector<Idle>& all) {
  for (const Idle& each : all) {
    EXPECT_EQ(refused(each.line), each.option + " has no effect with " + each.with + ": " +
                                      each.why + "; leave out " + each.option + " or " + each.with)
        << each.line;
  }
}

TEST(OptionPairs, ADiscardedOutputHasNoPlaceAndNoForm) {
  const std::string with = "--to null";
  const std::string discards = "it discards the output";
  const std::string coded = "discarded chunks are not encoded";
  const std::string loaded = "a discarded output can't be loaded";
  expect_idle({{"convert a b --to null", "OUT", with, discards},
               {"convert a --to null --compress zstd", "--compress", with, coded},
               {"convert a --to null --checksum none", "--checksum", with, coded},
               {"convert a --to null --output-step 3", "--output-step", with,
                "a discarded output has no step"},
               {"convert a --to null --resume", "--resume", with, discards},
               {"convert a --to null --overwrite", "--overwrite", with, discards},
               {"plan a --to null --link", "--link", with, loaded},
               {"plan a --to null --load-mesh fsdp=2", "--load-mesh", with, loaded},
               {"reshard a --to null --steps all", "--steps", with, discards}});
  EXPECT_EQ(refused("convert a --to null"), "");
}

TEST(OptionPairs, AFormatHasOnlyItsOwnOptions) {
  const std::string files = "--to safetensors";
  const std::string dcp = "--to dcp";
  const std::string whole = "it stores whole tensors";
  const std::string linked = "only Orbax outputs can be linked";
  expect_idle({{"convert a b --to safetensors --mesh fsdp=2", "--mesh", files, whole},
               {"convert a b --to safetensors --rules r", "--rules", files, whole},
               {"convert a b --to safetensors --chunk-bytes 1", "--chunk-bytes", files, whole},
               {"convert a b --to safetensors --compress zstd", "--compress", files,
                "the format has neither"},
               {"convert a b --to safetensors --checksum none", "--checksum", files,
                "the format has neither"},
               {"convert a b --to safetensors --output-step 1", "--output-step", files,
                "a Hugging Face directory has no steps"},
               {"plan a --to safetensors --link", "--link", files, linked},
               {"plan a --to safetensors --load-mesh fsdp=2", "--load-mesh", files, whole},
               {"convert a b --to dcp --compress zstd", "--compress", dcp,
                "torch reads only uncompressed items"},
               {"convert a b --to dcp --checksum none", "--checksum", dcp, "every item has a CRC"},
               {"convert a b --to dcp --output-step 1", "--output-step", dcp,
                "OUT is the checkpoint itself"},
               {"plan a --to dcp --link", "--link", dcp, linked}});
  for (const char* line : {"convert a b --to dcp --mesh fsdp=2", "plan a --to dcp --load-mesh x=2",
                           "convert a b --to orbax --compress zstd --output-step 1"})
    EXPECT_EQ(refused(line), "") << line;
}

// The formats whose default it is imply --scheme hf.
TEST(OptionPairs, ASchemeHasOnlyItsOwnOptions) {
  const std::string keeps = "it keeps names and shapes";
  const std::string hf = "--scheme hf";
  const std::string titan = "--scheme torchtitan";
  expect_idle(
      {{"convert a b --scheme hf --layers stacked", "--layers", hf, keeps},
       {"convert a b --scheme hf --maxtext 0.2.4", "--maxtext", hf, keeps},
       {"convert a b --to dcp --layers stacked", "--layers", "--to dcp", keeps},
       {"convert a b --to dcp --maxtext 0.2.4", "--maxtext", "--to dcp", keeps},
       {"convert a b --to safetensors --layers stacked", "--layers", "--to safetensors", keeps},
       {"convert a b --scheme torchtitan --maxtext 0.2.4", "--maxtext", titan,
        "it doesn't use MaxText's names"},
       {"convert a b --scheme torchtitan --layers separate", "--layers", titan,
        "torchtitan's layers are always separate"},
       {"convert a b --scheme torchtitan --vocab 5", "--vocab", titan,
        "torchtitan takes the vocabulary from config.json"}});
  for (const char* line : {"convert a b --to dcp --scheme maxtext --layers separate",
                           "convert a b --to safetensors --scheme maxtext --maxtext 0.2.4",
                           "convert a b --layers separate", "convert a b --vocab 5"})
    EXPECT_EQ(refused(line), "") << line;
}

TEST(OptionPairs, LinksStepsAndChecksHaveTheirOwnWay) {
  const std::string families = "it checks families with their own options, in both layouts";
  expect_idle(
      {{"plan a --link --compress zstd", "--compress", "--link", "linked data can't be compressed"},
       {"plan a b --link --worker 0/2", "--worker", "--link", "one process writes the index"},
       {"link a --in-place --shards hard", "--shards", "--in-place",
        "the source's files keep their names"},
       {"link a --in-place --output-step 3", "--output-step", "--in-place",
        "an index next to the source's files has no step"},
       {"reshard a b --steps all --step 3", "--step", "--steps", "each step keeps its number"},
       {"reshard a b --steps all --output-step 3", "--output-step", "--steps",
        "each step keeps its number"},
       {"reshard a b --steps all --worker 0/2", "--worker", "--steps",
        "one process publishes each step before the next one"},
       {"reshard a b --steps all --dry-run", "--dry-run", "--steps",
        "a plan covers one step; pass --step N"},
       {"mappings check --all --scheme hf", "--scheme", "--all", families},
       {"mappings check --all --config d", "--config", "--all", families},
       {"mappings example f d --sparse --seed 2", "--seed", "--sparse", "sparse files hold zeros"},
       {"inspect a --summary --chunks", "--chunks", "--summary", "a summary doesn't list arrays"}});
  EXPECT_EQ(refused("diff a b --all --config d"), "") << "another --all";
}

TEST(OptionPairs, AnOptionCanNeedAnother) {
  const auto expect_need = [](const std::string& line, const std::string& option,
                              const std::string& without, const std::string& why) {
    EXPECT_EQ(refused(line), option + " has no effect without " + without + ": " + why +
                                 "; leave out " + option + ", or add " + without)
        << line;
  };
  const std::string output = "they need an output";
  expect_need("plan a --resume", "--resume", "OUT", output);
  expect_need("link a --overwrite --dry-run", "--overwrite", "OUT or --in-place", output);
  expect_need("plan a --worker 0/2", "--worker", "OUT", "it changes only the time to write");
  expect_need("mappings check --mapping f --scheme hf", "--scheme", "SOURCE",
              "it checks families with their own options, in both layouts");
  expect_need("convert a b --shard-bytes 1GiB", "--shard-bytes", "--to safetensors",
              "hfshard chooses the size of other files");
  expect_need("convert a b --dialect modules", "--dialect",
              "--scheme hf or --to dcp or --to safetensors",
              "other schemes have the names of their loader");
  expect_need("mappings show f --dialect modules", "--dialect", "--scheme hf",
              "other schemes have the names of their loader");
  expect_need("plan a --devices-per-host 2", "--devices-per-host", "--load-mesh or --link",
              "it tells which devices load together");
  expect_need("inspect a --devices-per-host 2", "--devices-per-host", "--load-mesh",
              "it tells which devices load together");
  for (const char* option : {"--axes", "--rules"})
    expect_need(std::string("inspect a ") + option + " x", option, "--load-mesh",
                "they tell how a mesh splits the arrays");
  for (const char* line :
       {"plan a b --resume", "link a --in-place --resume", "convert a --worker 0/2",
        "convert a b --to safetensors --shard-bytes 1GiB", "convert a b --to dcp --dialect modules",
        "plan a --link --devices-per-host 2", "reshard a b --axes x=y", "convert a b --rules r",
        "mappings check a --scheme hf"})
    EXPECT_EQ(refused(line), "") << line;
}

}  // namespace
}  // namespace hfshard
