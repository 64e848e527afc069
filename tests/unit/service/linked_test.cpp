#include "service/linked.h"

#include <filesystem>
#include <string>
#include <vector>

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
  const std::vector<LinkedFile> changed = changed_links(dir / "out/0");
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].fault, "the linked file is missing");
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

// A copy of a file, or one that was written again with the same bytes, has another time.
TEST(CheckLinked, OnlyFilesWithAnotherTimeAreNamed) {
  const TempDir dir;
  const std::string source = link_fixture(dir, ShardLinks::symbolic);
  const StorePath step(dir / "out/0");
  EXPECT_EQ(check_linked(step), "");
  const std::string name = "model-00001-of-00002.safetensors";
  const std::string file = source + "/" + name;
  set_later(file);
  const std::string note = check_linked(step);
  EXPECT_TRUE(note.starts_with("files were written to, or copied, since they were linked (\"" +
                               (dir / "out/0/items/d/")))
      << note;
  EXPECT_NE(note.find(name + "\"); their tensors lie where they did"), std::string::npos) << note;
  EXPECT_EQ(note.find("00002-of"), std::string::npos) << note;
  EXPECT_EQ(check_linked(StorePath(source)), "") << "no record";
  std::filesystem::remove(dir / "out/0/hfshard.links.json");
  EXPECT_EQ(check_linked(step), "");
}

// An older record has no digest of the header, so other tensors could lie there.
TEST(CheckLinked, AChangedFileOfAnOlderLinkIsRefused) {
  const TempDir dir;
  const std::string source = link_fixture(dir, ShardLinks::symbolic);
  const std::string record = dir / "out/0/hfshard.links.json";
  Json links = parse_json(read_file(record), record);
  for (Json& file : links["files"].array()) file.object().erase("header_sha256");
  write_text(record, dump_json(links));
  const std::string file = source + "/model-00001-of-00002.safetensors";
  set_later(file);
  const Error error = catch_error([&] { check_linked(StorePath(dir / "out/0")); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(),
            "the linked file was written to, or copied, since it was linked; its tensors can lie "
            "elsewhere now");
  EXPECT_TRUE(error.file().ends_with("model-00001-of-00002.safetensors")) << error.file();
  EXPECT_EQ(error.hint_text(), "run hfshard link again, or read the model's own files");
}

}  // namespace
}  // namespace hfshard
