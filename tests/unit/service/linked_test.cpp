#include "service/linked.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Copies a model, links it, and returns the copy.
std::string link_fixture(const TempDir& dir, ShardLinks shards = ShardLinks::automatic) {
  Reporter quiet;
  PlanOptions options;
  options.mapping.scheme = "hf";
  const std::string source = copy_fixture("qwen3", dir / "source");
  RunOptions run = to_output(dir / "out");
  run.shards = shards;
  link(source, options, {}, run, quiet);
  return source;
}

TEST(ChangedLinks, AHeaderThatCannotBeReadIsAChange) {
  const TempDir dir;
  const std::string source = link_fixture(dir);
  const std::string step = dir / "out/0";
  ASSERT_TRUE(changed_links(step).empty());
  const std::string file = source + "/model-00002-of-00002.safetensors";
  const auto written = std::filesystem::last_write_time(file);
  std::string bytes = read_file(file);
  bytes[8] = '[';  // where its JSON begins
  write_text(file, bytes);
  std::filesystem::last_write_time(file, written);
  EXPECT_EQ(changed_links(step).size(), 1U) << "with the same size and time";
  EXPECT_EQ(catch_error([&] { open(step); }).code(), ErrorCode::corrupt);
}

TEST(ChangedLinks, AnOlderLinkIsKnownByItsSizeAndTime) {
  const TempDir dir;
  link_fixture(dir);
  const std::string step = dir / "out/0";
  const std::string record = step + "/hfshard.links.json";
  Json links = parse_json(read_file(record), record);
  for (Json& file : links["files"].array()) {
    EXPECT_EQ(file.object().erase("header_sha256"), 1U);
  }
  write_text(record, dump_json(links));
  EXPECT_TRUE(changed_links(step).empty());
  EXPECT_EQ(check_linked(StorePath(step)), "");
}

TEST(CheckLinked, AMissingFileIsLeftToItsReader) {
  const TempDir dir;
  const std::string source = link_fixture(dir, ShardLinks::symbolic);
  std::filesystem::remove(source + "/model-00002-of-00002.safetensors");
  EXPECT_EQ(check_linked(StorePath(dir / "out/0")), "");
  EXPECT_EQ(changed_links(dir / "out/0").size(), 1U);
}

TEST(OpenLinked, EachReaderSaysHowToGetAFileThatIsAwaited) {
  const TempDir dir;
  const std::string source = link_fixture(dir, ShardLinks::symbolic);
  const std::string record = dir / "out/0/hfshard.links.json";
  Json links = parse_json(read_file(record), record);
  for (Json& file : links["files"].array()) file["source"] = "org/model@0123/a.safetensors";
  write_text(record, dump_json(links));
  std::filesystem::remove(source + "/model-00002-of-00002.safetensors");
  Reporter quiet;
  PlanOptions names;
  names.target = "safetensors";
  names.mapping.scheme = "hf";
  const std::string out = dir / "out";
  const std::string hint = "it isn't in the cache yet; run: hfshard fetch org/model@0123";
  EXPECT_EQ(catch_error([&] { plan({out}, names, {}, {}); }).hint_text(), hint);
  EXPECT_EQ(catch_error([&] { inspect({out}, {}, quiet); }).hint_text(), hint);
  EXPECT_EQ(catch_error([&] { open({out}); }).hint_text(), hint);
}

}  // namespace
}  // namespace hfshard
