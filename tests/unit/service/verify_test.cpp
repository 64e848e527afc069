// Differences beyond the data of an output: its record, its links, and tensors that were left out.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/as_stored.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

VerifyResult check(const std::string& out, const std::string& source = {}) {
  Reporter quiet;
  return verify(out, source, {}, quiet);
}

TEST(Verify, ARecordThatWasChangedIsADifference) {
  const TempDir dir;
  SafetensorsBuilder().tensor("w", DType::u8, {4}).write(dir / "x.safetensors");
  Reporter quiet;
  for (const std::string target : {"orbax", "dcp", "safetensors"}) {
    const std::string out = dir / target;
    hfshard::convert(dir / "x.safetensors", as_stored(target), to_output(out), quiet);
    const std::string record = out + (target == "orbax" ? "/0/hfshard.json" : "/hfshard.json");
    EXPECT_TRUE(check(out).differences.empty()) << target;
    write_text(record, read_file(record) + "\n");
    const std::vector<Difference> found = check(out).differences;
    ASSERT_EQ(found.size(), 1U) << target;
    EXPECT_EQ(found[0].what, "the record was changed after hfshard wrote it (" + record + ")");
    EXPECT_EQ(found[0].file, record);
  }
}

// The embedding alone is written. The source's head must still be its copy.
TEST(Verify, ATensorThatWasLeftOutAsACopyIsComparedWithTheSource) {
  const TempDir dir;
  const std::string model = copy_fixture("qwen2.5", dir / "model");
  Reporter quiet;
  hfshard::convert(model, {}, to_output(dir / "out"), quiet);
  EXPECT_TRUE(check(dir / "out", model).differences.empty());
  const Catalog catalog = open_catalog(model);
  const auto head = catalog.find("lm_head.weight");
  ASSERT_TRUE(head);
  const std::string file = model + "/model.safetensors";
  std::string bytes = read_file(file);
  char& last = bytes.at(catalog.tensors[*head].range().end - 1);
  last = static_cast<char>(last ^ 1);
  write_text(file, bytes);
  const std::vector<Difference> found = check(dir / "out", model).differences;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].leaf, "");
  EXPECT_EQ(found[0].tensor, "lm_head.weight");
  EXPECT_EQ(found[0].what,
            "this tensor would be dropped as a copy of \"model.embed_tokens.weight\", but differs "
            "from it");
  EXPECT_EQ(found[0].file, file);
  EXPECT_TRUE(check(dir / "out").differences.empty()) << "the output is as it was";
}

TEST(Verify, AChangedLinkIsADifferenceWithItsFile) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  RunOptions run = to_output(dir / "out");
  run.shards = ShardLinks::symbolic;
  link(source, as_stored("orbax"), {}, run, quiet);
  EXPECT_TRUE(check(dir / "out").differences.empty());
  const std::string name = "model-00002-of-00002.safetensors";
  const std::string file = join_path(source, name);
  set_later(file);
  for (const char* place : {"out", "out/0"}) {
    const std::vector<Difference> found = check(dir / place).differences;
    ASSERT_EQ(found.size(), 1U) << place;
    EXPECT_EQ(found[0].leaf + found[0].tensor, "");
    EXPECT_TRUE(found[0].file.ends_with(name)) << found[0].file;
    EXPECT_TRUE(found[0].what.ends_with(" (" + found[0].file + ")")) << found[0].what;
  }
}

TEST(Verify, AChangedObjectIsADifferenceAndAllAreCounted) {
  const TempDir dir;
  TorchCheckpoint torch;
  torch.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  torch.object("epoch", "object of a run");
  torch.object("rate", "another");
  torch.write(dir / "in");
  PlanOptions options = as_stored("dcp");
  options.tree.same = true;
  Reporter quiet;
  hfshard::convert(dir / "in", options, to_output(dir / "out"), quiet);
  EXPECT_EQ(check(dir / "out").objects, 2U);
  EXPECT_EQ(check(dir / "out", dir / "in").objects, 2U);
  const std::string file = dir / ("in/" + std::string(TorchCheckpoint::kDataFile));
  std::string bytes = read_file(file);
  bytes.replace(bytes.find("object of"), 6, "Object");
  write_text(file, bytes);
  const std::vector<Difference> found = check(dir / "out", dir / "in").differences;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].leaf, "epoch");
  EXPECT_TRUE(check(dir / "out").differences.empty());
}

TEST(Verify, TheCheckpointOfARunIsFound) {
  const TempDir dir;
  SafetensorsBuilder().tensor("w", DType::u8, {4}).write(dir / "x.safetensors");
  Reporter quiet;
  hfshard::convert(dir / "x.safetensors", as_stored("orbax"), to_output(dir / "run/checkpoints"),
                   quiet);
  write_text(dir / "run/logs/x", "");
  const VerifyResult found = check(dir / "run", dir / "x.safetensors");
  EXPECT_TRUE(found.differences.empty());
  EXPECT_EQ(found.path, dir / "run/checkpoints/0");
  EXPECT_EQ(found.step, 0U);
  EXPECT_EQ(found.checked_bytes, 4U);
  EXPECT_EQ(found.tensors, 1U);
}

}  // namespace
}  // namespace hfshard
