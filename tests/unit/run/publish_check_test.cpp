// A staged tree whose own reader misses a chunk is not published.

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// A checkpoint without the first chunk of its second leaf.
class Lacking final : public OpenedCheckpoint {
 public:
  explicit Lacking(std::unique_ptr<OpenedCheckpoint> whole) : whole_(std::move(whole)) {}
  const std::vector<OpenedLeaf>& leaves() const override { return whole_->leaves(); }
  const Json& custom_metadata() const override { return whole_->custom_metadata(); }
  bool has_chunk(std::uint32_t leaf, const Shape& chunk) const override {
    return whole_->has_chunk(leaf, chunk) && (leaf != 1 || chunk[0] != 0);
  }
  void read_chunk(std::uint32_t leaf, const Shape& chunk, std::span<std::byte> out,
                  std::span<std::byte> scratch) const override {
    whole_->read_chunk(leaf, chunk, out, scratch);
  }
  std::uint64_t scratch_bytes(std::uint32_t leaf) const override {
    return whole_->scratch_bytes(leaf);
  }

 private:
  std::unique_ptr<OpenedCheckpoint> whole_;
};

class LackingTarget final : public Target {
 public:
  std::string_view name() const override { return real_->name(); }
  ChunkForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const override {
    return real_->form(leaf, grid, encoding);
  }
  std::uint64_t encode(const ChunkForm& form, std::span<std::byte> stored,
                       std::span<std::byte> scratch) const override {
    return real_->encode(form, stored, scratch);
  }
  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    return real_->metadata(tree, placed);
  }
  std::string data_root() const override { return real_->data_root(); }
  std::string commit_file() const override { return real_->commit_file(); }
  std::unique_ptr<OpenedCheckpoint> open(const std::string& path) const override {
    return std::make_unique<Lacking>(real_->open(path));
  }

 private:
  std::unique_ptr<Target> real_ = make_target("orbax");
};

TEST(PublishCheck, ATreeThatLacksAChunkStaysInStagingAndTheChunkIsNamed) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::string out = dir / "out";
  QuietReporter reporter;
  const Error error =
      catch_error([&] { run_convert(plan, LackingTarget(), to_output(out), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_NE(error.sentence().find(plan.model.leaves[1].path), std::string::npos)
      << error.sentence();
  EXPECT_FALSE(exists(out));
  EXPECT_TRUE(exists(out_paths(out, 0).staging));
  EXPECT_TRUE(convert(plan, to_output(out)).published);
}

}  // namespace
}  // namespace hfshard
