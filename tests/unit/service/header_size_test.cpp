#include "service/header_size.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Writes a file with a header of that length, which can't be parsed.
void write_header(const std::string& path, std::uint64_t bytes) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(bytes >> (8 * i) & 0xff);
  write_text(path, length);
  std::filesystem::resize_file(path, 8 + bytes);  // sparse
}

// The needs of a plan with many tensors are known before they are parsed.
TEST(HeaderSize, TooMuchForTheBudgetIsRefusedUnread) {
  const TempDir dir;
  write_header(dir / "model-00001-of-00002.safetensors", 20 * kMiB);
  write_header(dir / "model-00002-of-00002.safetensors", 30 * kMiB);
  write_text(dir / "tokenizer.json", "{}");
  RunOptions run;
  run.max_memory_bytes = 512 * kMiB;
  const Error error = catch_error([&] { check_header_size(dir.path(), {}, run); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.hint_text(), "pass --max-memory 600MiB or more");
  EXPECT_EQ(error.sentence(),
            "--max-memory 512 MiB is too small: for headers of 50 MiB, a plan needs at least 600 "
            "MiB");
  run.max_memory_bytes = 600 * kMiB;
  EXPECT_NO_THROW(check_header_size(dir.path(), {}, run));
  run.max_memory_bytes = 256 * kMiB;
  EXPECT_NO_THROW(check_header_size(dir / "model-00001-of-00002.safetensors", {}, run));
  const StorePath second(dir / "model-00002-of-00002.safetensors");
  EXPECT_EQ(catch_error([&] { check_header_size(second, {}, run); }).hint_text(),
            "pass --max-memory 512MiB or more")
      << "not 360MiB, because commands need that much for usual headers";
  write_header(dir / "help.safetensors", 40 * kMiB);
  run.max_memory_bytes = 512 * kMiB;
  EXPECT_NO_THROW(check_header_size(dir / "help.safetensors", {}, run)) << "--help says so";
  run.max_memory_bytes = 256 * kMiB;
  std::filesystem::remove(dir / "help.safetensors");
  EXPECT_THROW(check_header_size(dir.path(), {}, run), Error);
  PlanOptions included;
  included.mapping.include = {"*.weight"};  // others are only looked at
  PlanOptions excluded;
  excluded.mapping.exclude = {"*.weight"};
  PlanOptions fewer;
  fewer.mapping.num_layers = 1;
  for (const PlanOptions& part : {included, excluded, fewer})
    EXPECT_NO_THROW(check_header_size(dir.path(), part, run));
}

// The reader reports the damage.
TEST(HeaderSize, DamagedFilesPass) {
  const TempDir dir;
  write_text(dir / "short.safetensors", "1234");
  write_text(dir / "wrong.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
  std::filesystem::create_directory(dir / "odd.safetensors");
  RunOptions run;
  run.max_memory_bytes = 1;
  EXPECT_NO_THROW(check_header_size(dir.path(), {}, run));
  EXPECT_NO_THROW(check_header_size(dir / "absent", {}, run));
}

// A tree's metadata are a file of their own, in the step or in its item.
TEST(HeaderSize, MetadataOfATreeCount) {
  const TempDir dir;
  RunOptions run;
  run.max_memory_bytes = 512 * kMiB;
  for (const char* name : {"dcp/.metadata", "step/_METADATA", "0/items/_METADATA",
                           "1/default/_METADATA", "2/pytree/_METADATA", "3/own_name/_METADATA"}) {
    SCOPED_TRACE(name);
    const std::string path = dir / name;
    write_text(path, "");
    const std::array places{
        StorePath(dir / std::string(name).substr(0, std::string(name).find('/')))};
    std::filesystem::resize_file(path, 128 * kMiB);  // sparse
    EXPECT_NO_THROW(check_header_size(places, false, run));
    std::filesystem::resize_file(path, 129 * kMiB);
    EXPECT_EQ(catch_error([&] { check_header_size(places, false, run); }).hint_text(),
              "pass --max-memory 516MiB or more");
    std::filesystem::resize_file(path, 129 * kMiB + 1);
    EXPECT_EQ(catch_error([&] { check_header_size(places, false, run); }).hint_text(),
              "pass --max-memory 517MiB or more")
        << "516MiB would be too small again";
  }
}

class HeadersOfCommands : public testing::Test {
 protected:
  HeadersOfCommands() {
    std::filesystem::create_directory(large_);
    write_header(large_ + "/model.safetensors", 50 * kMiB);
    run_.max_memory_bytes = 512 * kMiB;
    run_.out = dir_ / "out";
    run_.scratch_directory = dir_.path();
  }
  // Calls a command, which must refuse before it reads the header. The reader would call it bad.
  void expect_refused(const std::string& name, const std::function<void()>& command) const {
    SCOPED_TRACE(name);
    const Error error = catch_error(command);
    EXPECT_EQ(error.code(), ErrorCode::limit) << error.format();
    EXPECT_EQ(error.hint_text(), "pass --max-memory 600MiB or more");
    EXPECT_EQ(error.file(), large_);
  }
  // Writes the small model in a format.
  std::string written(const std::string& target) {
    RunOptions run;
    run.out = dir_ / target;
    PlanOptions options = small_options();
    options.target = target;
    options.mapping.scheme = "hf";
    hfshard::convert(small_, options, run, quiet_);
    return run.out;
  }

  TempDir dir_;
  RunOptions run_;
  Reporter quiet_;
  std::string small_ = copy_fixture("qwen3", dir_ / "small");
  std::string large_ = dir_ / "large";
};

TEST_F(HeadersOfCommands, EveryCommandThatPlansRefuses) {
  expect_refused("convert", [&] { hfshard::convert(large_, {}, run_, quiet_); });
  expect_refused("link", [&] { link(large_, {}, {}, run_, quiet_); });
  expect_refused("plan", [&] { plan(large_, {}, run_, {}); });
  const std::string out = written("orbax");
  expect_refused("verify", [&] { verify(out, large_, run_, quiet_); });
}

TEST_F(HeadersOfCommands, DiffCountsBothSides) {
  const auto code_of = [&](const std::string& a, const std::string& b) {
    return catch_error([&] { diff(a, b, {}, run_, quiet_); }).code();
  };
  EXPECT_EQ(code_of(large_, small_), ErrorCode::limit);
  EXPECT_EQ(code_of(small_, large_), ErrorCode::limit);
  write_header(large_ + "/model.safetensors", 25 * kMiB);
  EXPECT_NE(code_of(small_, large_), ErrorCode::limit);
  std::filesystem::copy(large_, dir_ / "also", std::filesystem::copy_options::recursive);
  expect_refused("both", [&] { diff(large_, dir_ / "also", {}, run_, quiet_); });
}

// Arrays that aren't selected are only looked at.
TEST_F(HeadersOfCommands, DiffOfAPartNeedsLess) {
  DiffOptions options;
  const auto code_of = [&] {
    return catch_error([&] { diff(large_, large_, options, run_, quiet_); }).code();
  };
  EXPECT_EQ(code_of(), ErrorCode::limit);
  options.include = {"*.weight"};
  EXPECT_NE(code_of(), ErrorCode::limit);
  options.include.clear();
  options.exclude = {"*.weight"};
  EXPECT_NE(code_of(), ErrorCode::limit);
}

TEST_F(HeadersOfCommands, VerifyLooksAtTheOutputToo) {
  const std::string out = written("safetensors");
  write_header(out + "/model.safetensors", 129 * kMiB);
  const Error error = catch_error([&] { verify(out, SourceName(""), run_, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::limit) << error.format();
}

TEST_F(HeadersOfCommands, ReshardReadsTheMetadataOfAStep) {
  const std::string out = written("orbax");
  std::filesystem::resize_file(out + "/0/items/_METADATA", 129 * kMiB);
  PlanOptions options;
  options.tree.same = true;
  run_.out = dir_ / "resharded";
  const Error error = catch_error([&] { hfshard::convert(out, options, run_, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::limit) << error.format();
  StepList all;
  all.all = true;
  const auto ignore = [](const ConvertReport& /*report*/) {};
  const Error again = catch_error([&] { convert_steps(out, options, all, run_, quiet_, ignore); });
  EXPECT_EQ(again.code(), ErrorCode::limit) << again.format();
}

TEST_F(HeadersOfCommands, TheMetadataOfTheSelectedItemCount) {
  const std::string out = written("orbax");
  std::filesystem::copy(out + "/0/items", out + "/0/average",
                        std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(out + "/0/average/_METADATA", 129 * kMiB);
  PlanOptions options;
  options.tree.same = true;
  EXPECT_NO_THROW(check_header_size(out, options, run_));
  options.tree.items = "average";
  const Error error = catch_error([&] { check_header_size(out, options, run_); });
  EXPECT_EQ(error.code(), ErrorCode::limit) << error.format();
}

}  // namespace
}  // namespace hfshard
