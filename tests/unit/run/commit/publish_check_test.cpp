// A staged tree isn't published if its own reader misses a chunk.

#include <algorithm>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// A checkpoint without the first chunk of its second leaf, and of those up to `last`.
class LackingChunk final : public Checkpoint {
 public:
  LackingChunk(std::unique_ptr<Checkpoint> whole, std::uint32_t last)
      : whole_(std::move(whole)), last_(last) {}
  const Catalog& catalog() const override { return whole_->catalog(); }
  bool has_piece(std::uint32_t leaf, const Shape& chunk) const override {
    const auto is_zero = [](std::uint64_t at) { return at == 0; };
    const bool lacks = leaf >= 1 && leaf <= last_ && std::ranges::all_of(chunk, is_zero);
    return !lacks && whole_->has_piece(leaf, chunk);
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
  std::uint32_t last_;
};

class LackingTarget final : public Format {
 public:
  explicit LackingTarget(std::uint32_t last) : last_(last) {}
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
    return std::make_unique<LackingChunk>(real_.open(path), last_);
  }

 private:
  const Format& real_ = format_of("orbax");
  std::uint32_t last_;
};

std::string first_chunk(const Plan& plan) {
  Shape chunk = plan.model().leaves[1].shape;
  for (std::size_t d = 0; d < chunk.rank(); ++d) chunk[d] = 0;
  return plan.model().leaves[1].name + " chunk " + to_string(chunk);
}

void expect_lacking_chunk_named(const Plan& plan, const std::string& out) {
  QuietReporter reporter;
  for (const std::uint32_t last : {2U, 1U}) {
    const Error error =
        catch_error([&] { run_convert(plan, LackingTarget(last), to_output(out), reporter); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << last;
    const std::string first = first_chunk(plan);
    EXPECT_EQ(error.sentence(),
              last == 1 ? "the staged checkpoint lacks " + first
                        : "the staged checkpoint lacks 2 chunks, the first is " + first);
    EXPECT_EQ(error.file(), out_paths(plan, out).step);
    EXPECT_EQ(error.hint_text(),
              "this is a bug or a damaged file system; run hfshard clean, then convert again");
    EXPECT_TRUE(exists(out_paths(out).staging));
  }
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
