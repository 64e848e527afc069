#include "service/diff_open.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class DiffOpened : public DiffTest {
 protected:
  DiffOpened() { source_ = copy_fixture("qwen3-untied", dir_ / "untied"); }
  // Begins an output, and stops.
  void begin(const std::string& out, std::uint64_t step) {
    const std::atomic<bool> stop = true;
    RunOptions run = run_to(out);
    run.stop = &stop;
    PlanOptions options = small_options();
    options.step = step;
    const Error error = catch_error([&] { hfshard::convert(source_, options, run, quiet_); });
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
};

TEST_F(DiffOpened, AnUnfinishedOutputIsRefusedOnEitherSide) {
  begin("begun", 0);
  const std::string begun = dir_ / "begun";
  for (const bool swap : {false, true}) {
    const Error error =
        catch_error([&] { swap ? compare(begun, source_) : compare(source_, begun); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_TRUE(error.sentence().starts_with("the output isn't finished: ")) << error.sentence();
    EXPECT_EQ(error.file(), dir_ / ".begun.hfshard");
  }
}

TEST_F(DiffOpened, AnUnfinishedStepNextToTheComparedOneIsNoted) {
  const std::string tree = convert_to("tree");
  begin("tree", 7);
  const auto notes_of = [&](const std::string& a, const std::string& b) {
    NotesReporter noted;
    EXPECT_TRUE(diff(a, b, {}, run_to(""), noted).equal());
    return noted.notes;
  };
  for (const auto& notes : {notes_of(tree, source_), notes_of(source_, tree)}) {
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_TRUE(notes[0].starts_with("step 7 of " + tree + " isn't finished: ")) << notes[0];
  }
  EXPECT_EQ(notes_of(source_, source_), std::vector<std::string>());
}

TEST_F(DiffOpened, ALinkedFileThatWasCopiedIsNoted) {
  PlanOptions names;
  names.mapping.scheme = "hf";
  names.encoding.checksum = false;
  RunOptions run = run_to("linked");
  run.shards = ShardLinks::symbolic;
  link(source_, names, {}, run, quiet_);
  const std::string linked = dir_ / "linked";
  EXPECT_EQ(compare(linked, source_).notes, std::vector<std::string>());
  const std::string file = source_ + "/model.safetensors";
  std::filesystem::last_write_time(file,
                                   std::filesystem::last_write_time(file) + std::chrono::hours(1));
  for (const DiffResult& found : {compare(linked, source_), compare(source_, linked)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(
        std::ranges::count_if(found.notes,
                              [](const std::string& note) {
                                return note.starts_with(
                                    "files were written to, or copied, since they were linked (");
                              }),
        1);
  }
}

// Files of safetensors can hold a tree with the names of a loader.
TEST_F(DiffOpened, AModelsDirectoryWithALoadersNamesIsComparedAsATree) {
  const std::string tree = convert_to("tree");
  PlanOptions same;
  same.target = "safetensors";
  same.mapping.scheme = "hf";
  same.tree.same = true;
  hfshard::convert(tree, same, run_to("files"), quiet_);
  const std::string files = dir_ / "files";
  const DiffResult alike = compare(tree, files);
  EXPECT_TRUE(alike.equal());
  EXPECT_EQ(alike.through, "");
  EXPECT_EQ(alike.compared_tensors, alike.a.tensors);
  write_text(files + "/config.json", read_text(source_ + "/config.json"));
  const DiffResult model = compare(files, source_);
  EXPECT_TRUE(model.equal());
  EXPECT_EQ(model.through, "B is converted to the layout of A");
}

TEST_F(DiffOpened, ADirectoryWithALoadersNamesCanLackAnArray) {
  const std::string tree = convert_to("tree");
  PlanOptions same;
  same.target = "safetensors";
  same.mapping.scheme = "hf";
  same.mapping.exclude = {"*.mlp.wo.kernel"};
  same.tree.same = true;
  hfshard::convert(tree, same, run_to("files"), quiet_);
  const std::string files = dir_ / "files";
  write_text(files + "/config.json", read_text(source_ + "/config.json"));
  const DiffResult found = compare(source_, files);
  EXPECT_EQ(found.differing_tensors, 1U);
  const TensorDiff* lacking = find(found, "params.params.decoder.layers.mlp.wo.kernel");
  ASSERT_NE(lacking, nullptr);
  EXPECT_EQ(lacking->kind, Kind::only_a);
}

TEST_F(DiffOpened, AnIndexCanBeIgnoredOnEachSide) {
  source_ = copy_fixture("qwen3", dir_ / "good");
  SourceName other(copy_fixture("qwen3", dir_ / "other"));
  const std::string index = other.text + "/model.safetensors.index.json";
  Json listed = parse_json(read_text(index), index);
  listed["weight_map"]["gone"] = "gone.safetensors";
  write_text(index, dump_json(listed));
  const auto compared = [&](const SourceName& a, const SourceName& b) {
    return diff(a, b, {}, run_to(""), quiet_).equal();
  };
  EXPECT_EQ(catch_error([&] { compared(other, source_); }).code(), ErrorCode::not_found);
  EXPECT_EQ(catch_error([&] { compared(source_, other); }).code(), ErrorCode::not_found);
  other.ignore_index = true;
  EXPECT_TRUE(compared(other, source_));
  EXPECT_TRUE(compared(source_, other));
}

// A model can only be one of the step's trees.
TEST_F(DiffOpened, AModelIsComparedWithTheTreeThatIsSelected) {
  const std::string tree = convert_to("tree");
  std::filesystem::rename(tree + "/0/items", tree + "/0/one");
  std::filesystem::copy(tree + "/0/one", tree + "/0/two", std::filesystem::copy_options::recursive);
  const Error error = catch_error([&] { compare(tree, source_); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "the step has 2 items: one, two");
  EXPECT_EQ(error.hint_text(), "pass --items one to select one");
  EXPECT_EQ(catch_error([&] { compare(source_, tree); }).sentence(), error.sentence());
  DiffOptions options;
  options.items = "two";
  EXPECT_TRUE(compare(tree, tree, options).equal());
}

}  // namespace
}  // namespace hfshard
