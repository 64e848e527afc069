// Checkpoints in a store without paths, inodes and mappings.

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "format/formats.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "support/memory_store.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

class StoreTest : public testing::Test {
 protected:
  Plan plan_of(const StorePath& source, const PlanOptions& options = small_options()) const {
    return make_plan(source, options, format_of(options.target), small_limits());
  }
  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>(source_);
  StorePath place_{store_, "tree"};
};

TEST_F(StoreTest, ASourceIsConvertedToTheSameBytesWhereverItLies) {
  const Plan here = plan_of(source_);
  convert(here, to_output(dir_ / "here"));
  const Plan there = plan_of(place_);
  EXPECT_EQ(there.id(), here.id());
  std::filesystem::rename(source_, dir_ / "gone");
  EXPECT_TRUE(convert(there, to_output(dir_ / "there")).published);
  EXPECT_EQ(tree_of(dir_ / "there"), tree_of(dir_ / "here"));
  EXPECT_TRUE(exists(dir_ / "there/hf/config.json"));
}

TEST_F(StoreTest, OneFileIsASourceToo) {
  const std::string name = "model-00001-of-00002.safetensors";
  PlanOptions options;
  options.mapping.scheme = "hf";
  const Plan plan = plan_of(StorePath(store_, "tree/" + name), options);
  ASSERT_EQ(plan.catalog().files.size(), 1U);
  EXPECT_EQ(plan.catalog().files[0].path.text(), "memory://tree/" + name);
  EXPECT_EQ(plan.catalog().location, "memory://tree/" + name);
}

// Identity counts, as for local files: before each record and before publishing.
TEST_F(StoreTest, AFileOfAnotherVersionIsAChangedSource) {
  const std::string name = "model-00002-of-00002.safetensors";
  const Plan plan = plan_of(place_);
  bool changed = false;
  const Error error = catch_error([&] {
    convert(plan, to_output(dir_ / "out"), [&](Stage stage, const Tile& tile) {
      if (stage != Stage::commit || changed || tile.begin_address < plan.end_address() / 2) return;
      changed = true;
      store_->write(name, read_file(join_path(source_, name)));
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), "memory://tree/" + name);
  EXPECT_FALSE(exists(dir_ / "out"));

  const Error resumed = catch_error([&] {
    RunOptions options = to_output(dir_ / "out");
    options.resume = true;
    convert(plan_of(place_), options);
  });
  EXPECT_EQ(resumed.code(), ErrorCode::conflict) << resumed.format();
  EXPECT_EQ(resumed.file(), "memory://tree/" + name);
}

// The files of two commits can have the same names, shapes and sizes, and so the same plan id.
TEST_F(StoreTest, AnOutputFromAnotherCommitIsNotTheFinishedOne) {
  store_->set_commit("first");
  RunOptions again = to_output(dir_ / "out");
  again.resume = true;
  EXPECT_TRUE(convert(plan_of(place_), to_output(dir_ / "out")).published);
  EXPECT_TRUE(convert(plan_of(place_), again).already_done);
  store_->set_commit("second");
  const Error error = catch_error([&] { convert(plan_of(place_), again); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
  EXPECT_NE(error.sentence().find("from commit first"), std::string::npos) << error.sentence();
  EXPECT_NE(error.sentence().find("is at second"), std::string::npos) << error.sentence();
  store_->set_commit("");
  EXPECT_TRUE(convert(plan_of(place_), again).already_done) << "the source has no commit";
}

// Only a commit of both says that the values are the same.
TEST_F(StoreTest, WithoutTheSameCommitAFinishedOutputWasComparedByNamesAlone) {
  struct Noted : Reporter {
    void note(const std::string& text) override { notes.push_back(text); }
    std::vector<std::string> notes;
  };
  const auto noted = [&](const char* made_of, const char* asked) {
    RunOptions options = to_output(dir_ / fmt::format("out of {}", made_of));
    store_->set_commit(made_of);
    if (!exists(options.out)) convert(plan_of(place_), options);
    store_->set_commit(asked);
    options.resume = true;
    Noted reporter;
    const Plan plan = plan_of(place_);
    EXPECT_TRUE(run_convert(plan, format_of("orbax"), options, reporter, {}).already_done);
    return reporter.notes.size();
  };
  EXPECT_EQ(noted("first", "first"), 0U);
  EXPECT_EQ(noted("first", ""), 1U);
  EXPECT_EQ(noted("", "first"), 1U);
  EXPECT_EQ(noted("", ""), 1U);
}

TEST_F(StoreTest, WhatHasNoPathIsNotLinked) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.link = true;
  const Plan plan = plan_of(place_, options);
  const Error error = catch_error([&] { convert(plan, to_output(dir_ / "out")); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.format();
  EXPECT_NE(error.file().find("memory://tree/model-0000"), std::string::npos) << error.file();
  EXPECT_FALSE(exists(dir_ / "out"));
}

TEST_F(StoreTest, AnOrbaxCheckpointIsFoundAndReadInAStore) {
  const Plan plan = plan_of(source_);
  convert(plan, to_output(dir_ / "out"));
  const auto store = std::make_shared<MemoryStore>(dir_ / "out");
  const StorePath place(store, "tree");
  const Found found = format_of("orbax").recognise(place).value();
  EXPECT_EQ(found.plan_id, plan.id());
  EXPECT_EQ(found.directory, "tree/0");
  std::filesystem::rename(dir_ / "out", dir_ / "gone");
  QuietReporter reporter;
  for (const std::string name : {"tree", "tree/0", "tree/0/items"}) {
    const auto opened = open_checkpoint(StorePath(store, name));
    EXPECT_TRUE(verify_source(*opened, plan, to_output(dir_ / "out"), reporter).differences.empty())
        << name;
  }
  std::string damaged = read_file(dir_ / "gone/0/items/manifest.ocdbt");
  damaged.back() ^= 1;
  store->write("0/items/manifest.ocdbt", damaged);
  const Error error = catch_error([&] { open_checkpoint(place); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), "memory://tree/0/items/manifest.ocdbt");
}

}  // namespace
}  // namespace hfshard
