// Verifying says where a difference is, in a tree or in arrays that are stored whole.

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "catalog/tree_structure.h"
#include "run/check/gaps.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

std::string output_of(const TempDir& dir) { return dir / "out"; }

// One array of 6 x 50 bytes, which is read in slices.
class WholeArray : public testing::Test {
 protected:
  WholeArray() {
    SafetensorsBuilder().tensor("w", DType::u8, {6, 50}).write(dir_ / "source/model.safetensors");
    PlanOptions options;
    options.target = "safetensors";
    options.mapping.scheme = "hf";
    plan_.emplace(small_plan(dir_ / "source", options));
    convert(*plan_, to_output(out_));
    const auto opened = open_checkpoint(out_);
    const TensorInfo& info = opened->catalog().tensors.at(0);
    file_ = opened->catalog().files.at(info.file).path.name();
    begin_ = info.begin_bytes;
  }
  void flip(std::size_t at) const {
    std::string bytes = read_file(file_);
    bytes.at(begin_ + at) = static_cast<char>(bytes.at(begin_ + at) ^ 1);
    write_text(file_, bytes);
  }
  std::vector<Difference> against_source() const {
    return verify_source(*open_checkpoint(out_), *plan_, to_output(out_), *reporter_).differences;
  }

  TempDir dir_;
  std::string out_ = output_of(dir_);
  std::optional<Plan> plan_;
  std::string file_;
  std::uint64_t begin_ = 0;
  std::unique_ptr<QuietReporter> reporter_ = std::make_unique<QuietReporter>();
};

TEST_F(WholeArray, ADifferenceIsNamedByItsElement) {
  EXPECT_TRUE(against_source().empty());
  for (const std::size_t at : {0U, 49U, 50U, 173U, 299U}) {
    flip(at);
    const std::vector<Difference> found = against_source();
    ASSERT_EQ(found.size(), 1U) << at;
    const Shape element{at / 50, at % 50};
    EXPECT_EQ(found[0].leaf, "w");
    EXPECT_EQ(found[0].chunk, "") << "it has no chunks";
    EXPECT_EQ(found[0].tensor, "");
    EXPECT_EQ(found[0].file, "");
    EXPECT_EQ(found[0].first, element);
    EXPECT_EQ(found[0].what, "differs from the source's, first at element [" +
                                 std::to_string(element[0]) + ", " + std::to_string(element[1]) +
                                 "]");
    flip(at);
  }
}

TEST_F(WholeArray, ADigestThatDiffersIsSaidWithTheRecordedOne) {
  const Manifest manifest = read_manifest(join_path(out_, "hfshard.json"));
  const auto digests = [&] {
    return verify_digests(*open_checkpoint(out_), manifest, to_output(out_), *reporter_);
  };
  const VerifyResult good = digests();
  EXPECT_TRUE(good.differences.empty());
  EXPECT_EQ(good.checked_bytes, 300U);
  EXPECT_EQ(good.tensors, 1U);
  flip(299);
  const VerifyResult bad = digests();
  ASSERT_EQ(bad.differences.size(), 1U);
  EXPECT_EQ(bad.differences[0].leaf, "w");
  EXPECT_EQ(bad.differences[0].tensor, "w");
  EXPECT_TRUE(bad.differences[0].what.ends_with(" differs from the recorded " +
                                                to_hex(manifest.digests.sums.at(0))))
      << bad.differences[0].what;
  Manifest other = manifest;
  other.digests.root = std::string(64, '0');
  flip(299);
  const VerifyResult root =
      verify_digests(*open_checkpoint(out_), other, to_output(out_), *reporter_);
  ASSERT_EQ(root.differences.size(), 1U);
  EXPECT_EQ(root.differences[0].what, "the recorded digests do not add up to the root digest");
}

TEST_F(WholeArray, AStoppedCheckSaysSo) {
  const Manifest manifest = read_manifest(join_path(out_, "hfshard.json"));
  const std::atomic<bool> stop = true;
  RunOptions options = to_output(out_);
  options.stop = &stop;
  const auto opened = open_checkpoint(out_);
  const Error digests =
      catch_error([&] { verify_digests(*opened, manifest, options, *reporter_); });
  const Error source = catch_error([&] { verify_source(*opened, *plan_, options, *reporter_); });
  for (const Error& error : {digests, source}) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
    EXPECT_EQ(error.sentence(), "stopped before everything was verified");
  }
}

// A checkpoint whose array was damaged on the disk.
class UnreadableArrays final : public Checkpoint {
 public:
  explicit UnreadableArrays(std::unique_ptr<Checkpoint> whole) : whole_(std::move(whole)) {}
  const Catalog& catalog() const override { return whole_->catalog(); }
  bool has_piece(std::uint32_t, const Shape&) const override { return true; }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t /*array*/, const Shape& /*piece*/,
                                          PieceSteps /*steps*/,
                                          std::span<std::byte> /*scratch*/) const override {
    throw Error(error, "can't be read").in_file("place").at({7, 9}, 100);
  }
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const override {
    return whole_->scratch_bytes(array, steps);
  }
  ErrorCode error = ErrorCode::corrupt;

 private:
  std::unique_ptr<Checkpoint> whole_;
};

TEST_F(WholeArray, DamageIsADifferenceAndAFailingDiskIsAnError) {
  UnreadableArrays opened(open_checkpoint(out_));
  const Manifest manifest = read_manifest(join_path(out_, "hfshard.json"));
  for (const ErrorCode code : {ErrorCode::corrupt, ErrorCode::not_found}) {
    opened.error = code;
    for (const VerifyResult& result :
         {verify_digests(opened, manifest, to_output(out_), *reporter_),
          verify_source(opened, *plan_, to_output(out_), *reporter_)}) {
      ASSERT_EQ(result.differences.size(), 1U);
      const Difference& found = result.differences[0];
      EXPECT_EQ(found.leaf, "w");
      EXPECT_EQ(found.tensor, "");
      EXPECT_EQ(found.what, "can't be read (place)");
      EXPECT_EQ(found.file, "place");
      EXPECT_EQ(found.range, (ByteRange{7, 9}));
    }
  }
  opened.error = ErrorCode::io;
  EXPECT_EQ(
      catch_error([&] { verify_digests(opened, manifest, to_output(out_), *reporter_); }).code(),
      ErrorCode::io);
  EXPECT_EQ(catch_error([&] { verify_source(opened, *plan_, to_output(out_), *reporter_); }).code(),
            ErrorCode::io);
}

// A tree is more than its arrays.
TEST(VerifyStructure, EachDifferenceSaysWhichSideHasIt) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  convert(plan, to_output(output_of(dir)));
  const auto opened = open_checkpoint(output_of(dir) + "/0");
  QuietReporter reporter;
  ASSERT_NE(opened->catalog().structure, nullptr);
  const auto against = [&](const TreeStructure& wanted) {
    PlanParts parts(plan);
    parts.model.structure = std::make_shared<const TreeStructure>(wanted);
    std::vector<std::string> out;
    for (const Difference& each :
         verify_source(*opened, parts.build(), to_output(""), reporter).differences)
      out.push_back(each.leaf + ": " + each.what);
    return out;
  };
  using Told = std::vector<std::string>;
  TreeStructure tree = *opened->catalog().structure;
  EXPECT_EQ(against(tree), Told{});
  TreeEntry& extra = tree.entries.emplace_back();
  extra.kind = TreeEntry::Kind::empty;
  extra.type = "Dict";
  extra.add_key("zeta", false);
  EXPECT_EQ(against(tree), Told{"zeta: an empty Dict only in the source"});
  tree.entries.pop_back();
  const auto empty = std::ranges::find(tree.entries, TreeEntry::Kind::empty, &TreeEntry::kind);
  ASSERT_NE(empty, tree.entries.end()) << "opt_state";
  const std::string path = empty->path;
  const std::string words = words_for(*empty);
  tree.entries.erase(empty);
  EXPECT_EQ(against(tree), Told{path + ": " + words + " only in the output"});
  tree = *opened->catalog().structure;
  const auto norm =
      std::ranges::find(tree.entries, "params.params.decoder.decoder_norm.scale", &TreeEntry::path);
  ASSERT_NE(norm, tree.entries.end());
  norm->type = "scalar";
  EXPECT_EQ(against(tree),
            Told{norm->path + ": a scalar in A, an array in B (A is the source, B the output)"});
}

// The header of a file belongs to no array, and isn't a gap between pieces.
TEST_F(WholeArray, FilesOfWholeArraysHaveNoGaps) {
  const Manifest manifest = read_manifest(join_path(out_, "hfshard.json"));
  ASSERT_EQ(manifest.files.data.size(), 1U);
  VerifyResult result;
  verify_gaps(*open_checkpoint(out_), manifest.files.data, out_, {}, result);
  EXPECT_TRUE(result.differences.empty());
}

}  // namespace
}  // namespace hfshard
