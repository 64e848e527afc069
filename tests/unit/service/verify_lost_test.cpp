// Verify lists damaged, truncated and missing data files.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class VerifyLostTest : public testing::Test {
 protected:
  RunOptions run_to(const std::string& out) const {
    RunOptions run;
    run.out = out.empty() ? out : dir_ / out;
    run.jobs = 2;
    run.limits = &limits_;
    return run;
  }
  void make(const std::string& source, const std::string& out, const PlanOptions& options) {
    hfshard::convert(source, options, run_to(out), quiet_);
  }
  VerifyResult check(const std::string& out, const std::string& source = {}) {
    return verify(out, source, run_to(""), quiet_);
  }
  // Returns whether verify finds damage, or refuses a damaged record.
  bool is_noticed(const std::string& out) {
    try {
      return !check(out).differences.empty();
    } catch (const Error& error) {
      return error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported;
    }
  }
  static PlanOptions export_options() {
    PlanOptions out;
    out.target = "safetensors";
    out.mapping.scheme = "hf";
    out.shard_bytes = 6000;
    return out;
  }
  static PlanOptions reshard_options() {
    PlanOptions out = small_options();
    out.tree.same = true;
    out.mapping.scheme = "hf";
    out.meshes = {"fsdp=2"};
    out.encoding.checksum = false;
    return out;
  }

  static PlanOptions torch_options() {
    PlanOptions out;
    out.target = "dcp";
    out.mapping.scheme = "hf";
    out.meshes = {"fsdp=2"};
    return out;
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
  std::string model_ = copy_fixture("qwen3", dir_ / "model");
};

// The effect of `lose` on a file is found with and without the source. All else is verified, and
// the file is named.
void expect_found(const std::function<VerifyResult()>& check, const std::string& file) {
  const VerifyResult found = check();
  EXPECT_FALSE(found.differences.empty());
  EXPECT_TRUE(std::ranges::any_of(found.differences, [&](const Difference& item) {
    return item.file == file && item.what.find(file) != std::string::npos;
  })) << file;
  std::set<std::string> leaves;
  for (const Difference& item : found.differences) leaves.insert(item.leaf);
  EXPECT_GT(found.chunks, leaves.size()) << "the others were read";
}

TEST_F(VerifyLostTest, AFileThatIsShortOrGoneIsListedAndTheOthersAreVerified) {
  make(model_, "tree", small_options());
  make(dir_ / "tree", "back", export_options());
  make(dir_ / "tree", "other", reshard_options());
  make(model_, "torch", torch_options());
  const std::string tree = dir_ / "tree";
  struct Case {
    std::string out;
    std::string source;
    std::string file;
  };
  const Case cases[] = {{tree, model_, tree + "/0/items/d/00001"},
                        {dir_ / "other", tree, dir_ / "other/0/items/d/00001"},
                        {dir_ / "torch", model_, dir_ / "torch/__00001_0.distcp"},
                        {dir_ / "back", tree, dir_ / "back/model-00002-of-00004.safetensors"}};
  for (const Case& item : cases) {
    const std::string bytes = read_text(item.file);
    const auto with_source = [&] { return check(item.out, item.source); };
    const auto alone = [&] { return check(item.out); };
    write_text(item.file, bytes.substr(0, bytes.size() / 2));
    expect_found(alone, item.file);
    expect_found(with_source, item.file);
    write_text(item.file, bytes.substr(0, 3));  // not even a header
    expect_found(alone, item.file);
    std::remove(item.file.c_str());
    EXPECT_FALSE(alone().differences.empty());
    EXPECT_FALSE(with_source().differences.empty());
    for (const auto& check_it : {std::function(alone), std::function(with_source)}) {
      write_text(item.file, bytes + '\0');
      expect_found(check_it, item.file);
    }
    write_text(item.file, bytes);
    EXPECT_TRUE(alone().differences.empty());
  }
}

// Alignment between arrays counts too, and the ends of files.
TEST_F(VerifyLostTest, EachByteOfAnOutputCounts) {
  make(model_, "torch", torch_options());
  make(model_, "tree", small_options());
  PlanOptions compressed = small_options();
  compressed.encoding.zstd_level = 1;
  make(model_, "compressed", compressed);
  for (const char* out : {"torch", "tree", "compressed"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / out)) {
      if (!entry.is_regular_file() || entry.file_size() == 0) continue;
      const std::string path = entry.path().string();
      const std::string bytes = read_text(path);
      std::vector<std::size_t> places{bytes.size() - 1};
      for (std::size_t at = bytes.size() % 7; at < bytes.size(); at += bytes.size() / 3 + 1)
        places.push_back(at);
      for (const std::size_t at : places) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ 0x41);
        write_text(path, changed);
        EXPECT_TRUE(is_noticed(dir_ / out)) << path << " " << at;
      }
      write_text(path, bytes);
    }
    EXPECT_TRUE(check(dir_ / out).differences.empty()) << out;
  }
}

// Correcting the named byte makes it equal again.
TEST_F(VerifyLostTest, TheFirstElementIsNamedInTheOutputAndInItsSource) {
  make(model_, "tree", small_options());
  make(dir_ / "tree", "back", export_options());
  make(dir_ / "tree", "other", reshard_options());
  for (const std::string& name : {std::string("back"), std::string("other")}) {
    const std::string out = dir_ / name;
    const std::string leaf = name == "back" ? "model.layers.1.mlp.down_proj.weight"
                                            : "params.params.decoder.layers.mlp.wo.kernel";
    InspectOptions asked;
    asked.pieces = true;
    asked.filter = leaf;
    const InspectReport seen = inspect(out, asked, quiet_);
    const StoredPiece& piece = seen.checkpoint.arrays.at(0).pieces.back();
    const std::string file = join_path(out, piece.file);
    std::string bytes = read_text(file);
    const std::uint64_t at = piece.range->end - 2;  // the low byte of its last element
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    write_text(file, bytes);
    const VerifyResult found = check(out, dir_ / "tree");
    ASSERT_EQ(found.differences.size(), 1U);
    const Difference& item = found.differences.front();
    EXPECT_EQ(item.leaf, leaf);
    ASSERT_TRUE(item.first && item.out && item.source);
    EXPECT_EQ(item.out->index, *item.first);
    EXPECT_TRUE(file.ends_with(item.out->file)) << item.out->file;
    EXPECT_EQ(item.out->byte, at);
    EXPECT_EQ(item.source->tensor, "params.params.decoder.layers.mlp.wo.kernel");
    if (name == "back") {
      EXPECT_EQ(item.source->index, (Shape{(*item.first)[1], 1, (*item.first)[0]}));
    } else {
      EXPECT_EQ(item.source->index, *item.first);
    }
    EXPECT_FALSE(item.source->file.empty());
  }
}

TEST_F(VerifyLostTest, AnOutputThatDoesNotOpenIsADifferenceWithItsFile) {
  make(model_, "torch", torch_options());
  const std::string metadata = dir_ / "torch/.metadata";
  std::string bytes = read_text(metadata);
  bytes.replace(bytes.find("bfloat16"), 8, "bfloat17");
  write_text(metadata, bytes);
  const std::vector<Difference> found = check(dir_ / "torch").differences;
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].file, metadata);
  EXPECT_EQ(found[1].file, metadata);
  EXPECT_FALSE(found[1].tensor.empty());
}

// Padding at the end of an array has no element, in the output or in the source.
TEST_F(VerifyLostTest, DamagedPaddingHasNoPlace) {
  const std::string source = dir_ / "model.safetensors";
  SafetensorsBuilder().tensor("w", DType::u8, {101, 64}).write(source);
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.chunk_bytes = 60 * 64;
  options.encoding.checksum = false;
  make(source, "tree", options);
  InspectOptions asked;
  asked.pieces = true;
  const StoredArray array = inspect(dir_ / "tree", asked, quiet_).checkpoint.arrays.at(0);
  ASSERT_EQ(array.chunk, (Shape{51, 64}));
  const StoredPiece& last = array.pieces.back();
  const std::string file = join_path(dir_ / "tree", last.file);
  std::string bytes = read_text(file);
  const std::uint64_t at = last.range->begin + 50 * 64;
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  write_text(file, bytes);
  const std::vector<Difference> found = check(dir_ / "tree", source).differences;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].first, (Shape{101, 0}));
  EXPECT_FALSE(found[0].out);
  EXPECT_FALSE(found[0].source);
}

// The user wanted the highest step, and not the one that has a record.
TEST_F(VerifyLostTest, TheHighestStepNeedsARecord) {
  make(model_, "out", small_options());
  EXPECT_TRUE(check(dir_ / "out").differences.empty());
  std::filesystem::copy(dir_ / "out/0", dir_ / "out/5", std::filesystem::copy_options::recursive);
  std::filesystem::remove(dir_ / "out/5/hfshard.json");
  const Error error = catch_error([&] { check(dir_ / "out"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(),
            "step 5, the highest, has no hfshard.json, so hfshard can't verify it");
  EXPECT_EQ(error.hint_text(), "pass --step 0 to verify the highest step that has one");
  EXPECT_TRUE(check(dir_ / "out/0").differences.empty());
  SourceName named(dir_ / "out");
  named.step = 0;
  const VerifyResult found = verify(named, SourceName(), run_to(""), quiet_);
  EXPECT_TRUE(found.differences.empty());
  EXPECT_EQ(found.step, 0U);
  EXPECT_EQ(found.other_steps, std::vector<std::uint64_t>{5});
  named.step = 5;
  EXPECT_EQ(catch_error([&] { verify(named, SourceName(), run_to(""), quiet_); }).sentence(),
            "no hfshard.json here, so hfshard can't verify this");
}

TEST_F(VerifyLostTest, AMissingFileIsListedWithTheTensorsThatItHeld) {
  make(model_, "files", export_options());
  const std::string file = dir_ / "files/model-00002-of-00004.safetensors";
  std::vector<std::string> wanted;
  for (const TensorInfo& info : open_catalog(file).tensors)
    wanted.push_back(info.name + ": the leaf is missing");
  ASSERT_GT(wanted.size(), 1U);
  wanted.push_back(": no such file (" + file + ")");
  std::filesystem::remove(file);
  std::vector<std::string> found;
  for (const Difference& item : check(dir_ / "files").differences)
    found.push_back(item.leaf + ": " + item.what);
  EXPECT_EQ(found, wanted);
}

TEST_F(VerifyLostTest, OnlyAHigherStepWithoutARecordIsMissed) {
  PlanOptions options = small_options();
  options.step = 5;
  make(model_, "out", options);
  std::filesystem::copy(dir_ / "out/5", dir_ / "out/3", std::filesystem::copy_options::recursive);
  std::filesystem::remove(dir_ / "out/3/hfshard.json");
  const VerifyResult found = check(dir_ / "out");
  EXPECT_TRUE(found.differences.empty());
  EXPECT_EQ(found.step, 5U);
  EXPECT_EQ(found.other_steps, std::vector<std::uint64_t>{3});
}

// A copy of a step has no directory of the model's files, or that of another step.
TEST_F(VerifyLostTest, TheModelsFilesAreVerifiedWithAStepThatIsInItsPlace) {
  write_text(model_ + "/tokenizer.json", "{}");
  make(model_, "out", small_options());
  const auto copy_to = [&](const std::string& to) {
    std::filesystem::copy(dir_ / "out/0", dir_ / to, std::filesystem::copy_options::recursive);
  };
  for (const char* to : {"alone", "other"}) std::filesystem::create_directory(dir_ / to);
  copy_to("alone/0");
  copy_to("other/renamed");
  write_text(dir_ / "other/hf/tokenizer.json", "[]");
  const std::string file = dir_ / "out/hf/tokenizer.json";
  EXPECT_TRUE(check(dir_ / "out/0").differences.empty());
  write_text(file, "[]");
  for (const char* out : {"out", "out/0"}) {
    const std::vector<Difference> found = check(dir_ / out).differences;
    ASSERT_EQ(found.size(), 1U) << out;
    EXPECT_EQ(found[0].file, file);
  }
  EXPECT_TRUE(check(dir_ / "alone/0").differences.empty());
  EXPECT_TRUE(check(dir_ / "other/renamed").differences.empty());
  std::filesystem::remove_all(dir_ / "out/hf");
  EXPECT_TRUE(check(dir_ / "out/0").differences.empty());
  EXPECT_FALSE(check(dir_ / "out").differences.empty()) << "it is part of the output";
}

// An output that was made of an older step still equals that step.
TEST_F(VerifyLostTest, TheRecordedStepOfTheSourceIsCompared) {
  make(model_, "tree", small_options());
  const std::string file = model_ + "/model-00002-of-00002.safetensors";
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(file, bytes);
  PlanOptions other = small_options();
  other.step = 5;
  make(model_, "tree", other);
  PlanOptions options = export_options();
  options.tree.step = 0;
  make(dir_ / "tree", "back", options);
  EXPECT_TRUE(check(dir_ / "back", dir_ / "tree").differences.empty());
  EXPECT_TRUE(check(dir_ / "back", dir_ / "tree/0").differences.empty());
  EXPECT_EQ(check(dir_ / "back", dir_ / "tree/5").differences.size(), 1U);
}

TEST_F(VerifyLostTest, AFileOfTheModelThatTheSourceLacksIsADifference) {
  write_text(model_ + "/tokenizer.json", "{}");
  make(model_, "tree", small_options());
  std::filesystem::remove(model_ + "/tokenizer.json");
  const std::vector<Difference> found = check(dir_ / "tree", model_).differences;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].file, dir_ / "tree/hf/tokenizer.json");
  EXPECT_EQ(found[0].what, "the source lacks this file (" + found[0].file + ")");
  write_text(dir_ / "tree/hf/vocab.json", "{}");
  EXPECT_EQ(check(dir_ / "tree", model_).differences.size(), 1U) << "hfshard didn't copy this one";
}

// Its values can be compared without it.
TEST_F(VerifyLostTest, TheSourceCanLackItsConfig) {
  make(model_, "torch", torch_options());
  std::filesystem::remove(model_ + "/config.json");
  EXPECT_TRUE(check(dir_ / "torch", model_).differences.empty());
}

TEST_F(VerifyLostTest, AnotherConfigThanTheSourcesIsAllThatIsComparedOfTheModelsFiles) {
  write_text(model_ + "/tokenizer.json", "{}");
  make(model_, "tree", small_options());
  const auto notes_for = [&](const std::string& out, const PlanOptions& options) {
    make(dir_ / "tree", out, options);
    NotesReporter reporter;
    EXPECT_TRUE(verify(dir_ / out, dir_ / "tree", run_to(""), reporter).differences.empty());
    return reporter.notes;
  };
  PlanOptions options = export_options();
  EXPECT_EQ(notes_for("recorded", options), std::vector<std::string>());
  options.tree.config_text = read_text(model_ + "/config.json");
  options.tree.config_name = model_ + "/config.json";
  EXPECT_EQ(notes_for("named", options),
            std::vector<std::string>{"the model's files came with --config, so only its "
                                     "config.json is compared"});
}

TEST_F(VerifyLostTest, ADamagedIndexIsADifferenceAndANameThatItLacksIsAnError) {
  make(model_, "files", export_options());
  const std::string index = dir_ / "files/model.safetensors.index.json";
  const std::string text = read_text(index);
  write_text(index, R"({"weight_map": {}})");
  const std::vector<Difference> found = check(dir_ / "files").differences;
  ASSERT_EQ(found.size(), 2U);
  for (const Difference& item : found) EXPECT_EQ(item.file, index);
  EXPECT_EQ(found[1].what, "hfshard verified nothing else: the index doesn't list any tensors");
  write_text(index, text);
  const std::string file = dir_ / "files/model-00001-of-00004.safetensors";
  std::string bytes = read_text(file);
  bytes[bytes.find("weight\"")] = 'W';
  write_text(file, bytes);
  const Error error = catch_error([&] { check(dir_ / "files"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "the file holds a tensor that the index doesn't list");
}

TEST_F(VerifyLostTest, APlaceWithoutARecordIsToldFromNoPlace) {
  const Error none = catch_error([&] { check(dir_ / "none"); });
  EXPECT_EQ(none.code(), ErrorCode::not_found);
  EXPECT_EQ(none.sentence(), "no such file or directory");
  EXPECT_EQ(none.file(), dir_ / "none");
  const Error model = catch_error([&] { check(model_); });
  EXPECT_EQ(model.code(), ErrorCode::not_found);
  EXPECT_EQ(model.sentence(), "no hfshard.json here, so hfshard can't verify this");
  EXPECT_EQ(model.hint_text(),
            "pass an output of hfshard first, then its source; to read another program's "
            "checkpoint, run: hfshard inspect --data");
}

TEST_F(VerifyLostTest, AStepThatIsChosenIsVerifiedWithTheFilesAroundIt) {
  write_text(model_ + "/tokenizer.json", "{}");
  PlanOptions options = small_options();
  for (const std::uint64_t step : {3U, 5U}) {
    options.step = step;
    make(model_, "out", options);
  }
  SourceName name(dir_ / "out");
  name.step = 3;
  const VerifyResult chosen = verify(name, {}, run_to(""), quiet_);
  EXPECT_EQ(chosen.path, dir_ / "out/3");
  EXPECT_EQ(chosen.step, 3U);
  EXPECT_EQ(chosen.other_steps, std::vector<std::uint64_t>{5});
  EXPECT_TRUE(chosen.differences.empty());
  EXPECT_EQ(chosen.files, check(dir_ / "out").files);
  EXPECT_EQ(check(dir_ / "out/3").path, dir_ / "out/3");
  EXPECT_TRUE(check(dir_ / "out/3", model_).differences.empty());
  write_text(dir_ / "out/3/hfshard.json", read_text(dir_ / "out/3/hfshard.json") + "\n");
  const std::vector<Difference> changed = verify(name, {}, run_to(""), quiet_).differences;
  EXPECT_TRUE(check(dir_ / "out").differences.empty()) << "the other step";
  for (const Difference& item : changed) EXPECT_EQ(item.file, dir_ / "out/3/hfshard.json");
}

TEST_F(VerifyLostTest, MetadataOfTheRunIsVerifiedWithAStepThatIsChosenFromIt) {
  make(model_, "run", small_options());
  const std::string metadata = "metadata/_ROOT_METADATA";
  write_text(dir_ / ("run/" + metadata), R"({"custom_metadata": {"run": 1}})");
  PlanOptions options = reshard_options();
  options.tree.all_items = true;
  make(dir_ / "run", "out", options);
  SourceName name(dir_ / "out");
  name.step = 0;
  EXPECT_TRUE(verify(name, {}, run_to(""), quiet_).differences.empty());
  const std::string file = dir_ / ("out/" + metadata);
  write_text(file, R"({"custom_metadata": {"run": 2}})");
  const std::vector<Difference> found = verify(name, {}, run_to(""), quiet_).differences;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].file, file);
  EXPECT_TRUE(check(dir_ / "out/0").differences.empty()) << "only the step is named";
}

}  // namespace
}  // namespace hfshard
