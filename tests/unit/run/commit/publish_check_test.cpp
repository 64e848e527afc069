// A staged tree isn't published if its own reader misses a chunk.

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// A checkpoint without the first chunk of its second leaf.
class LackingChunk final : public Checkpoint {
 public:
  explicit LackingChunk(std::unique_ptr<Checkpoint> whole) : whole_(std::move(whole)) {}
  const Catalog& catalog() const override { return whole_->catalog(); }
  bool has_piece(std::uint32_t leaf, const Shape& chunk) const override {
    return whole_->has_piece(leaf, chunk) && (leaf != 1 || chunk[0] != 0);
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t leaf, const Shape& chunk, PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    return whole_->open_piece(leaf, chunk, steps, scratch);
  }
  std::uint64_t scratch_bytes(std::uint32_t leaf, PieceSteps steps) const override {
    return whole_->scratch_bytes(leaf, steps);
  }

 private:
  std::unique_ptr<Checkpoint> whole_;
};

class LackingTarget final : public Format {
 public:
  std::string_view name() const override { return real_.name(); }
  std::optional<Found> recognise(const StorePath& path) const override {
    return real_.recognise(path);
  }
  bool writes() const override { return true; }
  PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const override {
    return real_.form(leaf, grid, encoding);
  }
  std::uint64_t encode(const PieceForm& form, const ChunkOf& chunk, std::span<std::byte> stored,
                       std::span<std::byte> scratch) const override {
    return real_.encode(form, chunk, stored, scratch);
  }
  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    return real_.metadata(tree, placed);
  }
  FileLayout layout() const override { return real_.layout(); }
  std::unique_ptr<Checkpoint> open(const StorePath& path) const override {
    return std::make_unique<LackingChunk>(real_.open(path));
  }

 private:
  const Format& real_ = format_of("orbax");
};

void expect_lacking_chunk_named(const Plan& plan, const std::string& out) {
  QuietReporter reporter;
  const Error error =
      catch_error([&] { run_convert(plan, LackingTarget(), to_output(out), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_NE(error.sentence().find(plan.model().leaves[1].name), std::string::npos)
      << error.sentence();
  EXPECT_TRUE(exists(out_paths(out).staging));
}

TEST(PublishCheck, ATreeThatLacksAChunkStaysInStagingAndTheChunkIsNamed) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::string out = dir / "out";
  expect_lacking_chunk_named(plan, out);
  EXPECT_FALSE(exists(out));
  EXPECT_TRUE(convert(plan, to_output(out)).published);
}

TEST(PublishCheck, AnIndexThatLacksAChunkIsNotMovedBesideItsFiles) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  options.link = options.in_place = true;
  const Plan plan = small_plan(source, options);
  const auto before = tree_of(source);
  expect_lacking_chunk_named(plan, source);
  EXPECT_EQ(differing(before, tree_of(source)), "");
  EXPECT_TRUE(convert(plan, to_output(source)).published);
}

}  // namespace
}  // namespace hfshard
