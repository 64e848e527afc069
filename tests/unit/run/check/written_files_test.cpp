#include "run/check/written_files.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/json.h"
#include "bytes/local/source.h"
#include "run/check/output_manifest.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

std::vector<std::string> sentences(const VerifyResult& result) {
  std::vector<std::string> out;
  for (const Difference& item : result.differences) out.push_back(item.what);
  return out;
}

std::string placed(const std::string& what, const std::string& path) {
  return what + " (" + path + ")";
}

TEST(VerifyFiles, EachFaultIsSaidWithItsFile) {
  const TempDir dir;
  const std::string sum = sha256_hex("abc");
  std::vector<FileRecord> files;
  for (const char* name : {"gone", "good", "other", "sub/short"}) {
    files.push_back({name, 3, sum});
    if (files.size() > 1) write_text(dir / name, "abc");
  }
  write_text(dir / "other", "abd");
  write_text(dir / "sub/short", "ab");
  VerifyResult result;
  verify_files(files, dir.path(), {}, result);
  EXPECT_EQ(result.files, 4U);
  EXPECT_EQ(sentences(result),
            (std::vector<std::string>{
                placed("the file is missing", dir / "gone"),
                placed("the file differs from what was written", dir / "other"),
                placed("the file has 2 bytes, 3 were written", dir / "sub/short")}));
  EXPECT_EQ(result.differences[2].file, dir / "sub/short");
}

TEST(ReadFiles, ReadWhatIsWrittenAndNothingOutside) {
  const std::vector<FileRecord> files{{"a/b", 5, ""}, {"c", 0, "00ff"}};
  Json list = Json::Array{};
  for (const FileRecord& file : files) list.array().push_back(json_file(file));
  EXPECT_EQ(dump_json(list),
            R"([{"path":"a/b","size_bytes":5},{"path":"c","sha256":"00ff","size_bytes":0}])");
  EXPECT_EQ(read_files(list), files);
  for (const char* path : {"../a", "/a", "a/../../b", ""}) {
    list.array()[1]["path"] = path;
    const Error error = catch_error([&] { read_files(list); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.sentence(), "a recorded file lies outside: \"" + std::string(path) + "\"");
  }
}

TEST(Sha256Of, CoversAFileOfSeveralParts) {
  const TempDir dir;
  for (const std::size_t size : {std::size_t{0}, std::size_t{kMiB}, std::size_t{2 * kMiB + 1}}) {
    std::string text(size, 'x');
    if (!text.empty()) text.back() = 'y';
    write_text(dir / "file", text);
    EXPECT_EQ(sha256_of(FileSource(dir / "file"), {}), sha256_hex(text)) << size;
  }
}

// A source with a tokenizer and an output of it.
class WrittenFilesTest : public testing::Test {
 protected:
  WrittenFilesTest() {
    write_text(join_path(source_, "tokenizer.json"), "{}");
    write_text(join_path(source_, "vocab.txt"), "a");
  }
  std::vector<std::string> against(const Plan& plan) const {
    VerifyResult result;
    verify_source_files(plan, step_, side_, {}, result);
    return sentences(result);
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
  std::string step_ = dir_ / "out/0";
  std::string side_ = dir_ / "out/hf";
};

TEST_F(WrittenFilesTest, CopiesAreComparedAndTheConfigByWhatItSays) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  EXPECT_EQ(against(plan), std::vector<std::string>{});
  const std::string config = join_path(side_, "config.json");
  Json changed = parse_json(read_file(config), config);
  write_text(config, dump_json(changed) + "\n\n");
  EXPECT_EQ(against(plan), std::vector<std::string>{}) << "spaces say nothing";
  changed["vocab_size"] = 49;
  write_text(config, dump_json(changed));
  write_text(join_path(side_, "tokenizer.json"), "[]");
  std::filesystem::remove(join_path(side_, "vocab.txt"));
  const std::string of_config =
      placed("config.json isn't what the source's gives: \"vocab_size\"", config);
  EXPECT_EQ(against(plan),
            (std::vector<std::string>{
                of_config,
                placed("the file differs from the source's", join_path(side_, "tokenizer.json")),
                placed("the source has this file, and the output lacks it",
                       join_path(side_, "vocab.txt"))}));
  // The other files are from elsewhere if the config is.
  PlanParts parts(plan);
  parts.facts.options.tree.config_text = plan.catalog().config_text;
  EXPECT_EQ(against(parts.build()), std::vector<std::string>{of_config});
  parts.facts.options.in_place = true;
  EXPECT_EQ(against(parts.build()), std::vector<std::string>{}) << "they are the source's files";
  std::filesystem::remove_all(side_);
  EXPECT_EQ(against(plan), std::vector<std::string>{}) << "without hf/, its record tells it";
}

TEST_F(WrittenFilesTest, ARecordHasAllFilesButDataAndItself) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  write_text(join_path(step_, "sub/more"), "abc");
  write_text(join_path(step_, "hfshard.json.tmp"), "left");
  std::filesystem::create_symlink(dir_ / "nowhere", join_path(step_, "dangling"));
  const WrittenFiles files = written_files(plan, step_, side_, out_, {});
  const auto paths = [](const std::vector<FileRecord>& list) {
    std::vector<std::string> out;
    for (const FileRecord& file : list) out.push_back(file.path);
    return out;
  };
  EXPECT_EQ(paths(files.side),
            (std::vector<std::string>{"config.json", "tokenizer.json", "vocab.txt"}));
  EXPECT_EQ(files.side[1], (FileRecord{"tokenizer.json", 2, sha256_hex("{}")}));
  EXPECT_TRUE(files.root.empty());
  EXPECT_EQ(files.data.size(), plan.data_files());
  for (const FileRecord& file : files.data) {
    EXPECT_TRUE(file.path.starts_with("items/d/")) << file.path;
    EXPECT_EQ(file.size_bytes, read_file(join_path(step_, file.path)).size());
    EXPECT_EQ(file.sha256, "");
  }
  bool has_more = false;
  for (const FileRecord& file : files.step) {
    has_more = has_more || file == FileRecord{"sub/more", 3, sha256_hex("abc")};
    EXPECT_FALSE(file.path.starts_with("items/d/0")) << file.path;
    EXPECT_NE(file.path, "hfshard.json");
    EXPECT_NE(file.path, "hfshard.json.tmp");
    EXPECT_NE(file.path, "dangling");
  }
  EXPECT_TRUE(has_more);
  EXPECT_TRUE(written_files(plan, step_, "", out_, {}).side.empty());
  EXPECT_TRUE(written_files(plan, step_, dir_ / "none", out_, {}).side.empty());
}

TEST_F(WrittenFilesTest, AFinishedOutputStillHasItsFiles) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  WrittenFiles files = written_files(plan, step_, side_, out_, {});
  const auto missing = [&](const WrittenFiles& recorded) {
    const Error error = catch_error([&] { check_still_there(plan, recorded, step_, side_, out_); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.sentence(), "the output was complete, but a file is missing");
    return error.file();
  };
  check_still_there(plan, files, step_, side_, out_);
  write_text(join_path(side_, "tokenizer.json"), "another size");
  check_still_there(plan, files, step_, side_, out_);  // a user may change these
  files.root = {{"root.txt", 1, ""}};
  EXPECT_EQ(missing(files), join_path(out_, "root.txt"));
  files.root.clear();
  std::filesystem::remove(join_path(side_, "vocab.txt"));
  EXPECT_EQ(missing(files), join_path(side_, "vocab.txt"));
  files.side.clear();
  const std::string data = join_path(step_, files.data.back().path);
  std::filesystem::remove(data);
  EXPECT_EQ(missing(files), data);
  files.data.clear();  // as before 0.2.0
  EXPECT_EQ(missing(files), data);
}

TEST_F(WrittenFilesTest, OtherItemsAndTheRunsMetadataAreCopiedAndCompared) {
  write_text(dir_ / "other/iter/state", "1");
  write_text(dir_ / "run/metrics/loss", "2");
  PlanParts parts(small_plan(source_));
  Beside& beside = parts.catalog.beside;
  beside.directory = StorePath(dir_ / "other");
  beside.files = {"iter/state"};
  beside.empty = {"none/below"};
  beside.root = StorePath(dir_ / "run");
  beside.root_files = {"metrics/loss"};
  const Plan plan = parts.build();
  convert(plan, to_output(out_));
  const std::string item = join_path(step_, "iter/state");
  const std::string metadata = join_path(out_, "metrics/loss");
  EXPECT_EQ(read_file(item), "1");
  EXPECT_EQ(read_file(metadata), "2");
  EXPECT_TRUE(is_directory(join_path(step_, "none/below")));
  const WrittenFiles files = read_manifest(join_path(step_, kManifestName)).files;
  EXPECT_EQ(files.root, (std::vector<FileRecord>{{"metrics/loss", 1, sha256_hex("2")}}));
  const FileRecord wanted{"iter/state", 1, sha256_hex("1")};
  EXPECT_NE(std::ranges::find(files.step, wanted), files.step.end());
  EXPECT_EQ(against(plan), std::vector<std::string>{});
  write_text(dir_ / "other/iter/state", "3");
  const std::string differs = "the file differs from the source's";
  EXPECT_EQ(against(plan), std::vector<std::string>{placed(differs, item)});
  write_text(dir_ / "run/metrics/loss", "22");
  EXPECT_EQ(against(plan),
            (std::vector<std::string>{placed(differs, item), placed(differs, metadata)}));
  std::filesystem::remove(item);
  EXPECT_EQ(against(plan), std::vector<std::string>{placed(differs, metadata)})
      << "its record tells that it is missing";
  write_text(metadata, "222");
  WrittenFiles lost = files;
  lost.step.clear();
  EXPECT_EQ(catch_error([&] { check_still_there(plan, lost, step_, side_, out_); }).sentence(),
            "the output was complete, but a file now has 3 bytes instead of 1");
}

}  // namespace
}  // namespace hfshard
