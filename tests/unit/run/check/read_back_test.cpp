// Verifying finds errors that checksums can't: chunks that are intact but not the source's.

#include "run/check/read_back.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/text.h"
#include "run/check/output_manifest.h"
#include "support/catch_error.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

void flip(const std::string& path, std::size_t at) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  write_text(path, bytes);
}

// Only verify detects a wrong byte.
PlanOptions unguarded() {
  PlanOptions options = small_options();
  options.encoding.checksum = false;
  return options;
}

std::set<std::string> leaves_of(const std::vector<Difference>& found) {
  std::set<std::string> out;
  for (const Difference& difference : found) out.insert(difference.leaf);
  return out;
}

class VerifyTest : public testing::Test {
 protected:
  Manifest manifest() const { return read_manifest(join_path(out_, "0/hfshard.json")); }
  std::vector<Difference> digests(const Manifest& manifest) const {
    return verify_digests(*format_of("orbax").open(out_), manifest, to_output(out_), reporter_)
        .differences;
  }
  std::vector<Difference> digests() const { return digests(manifest()); }
  std::vector<Difference> against(const Plan& plan) const {
    return verify_source(*format_of("orbax").open(out_), plan, to_output(out_), reporter_)
        .differences;
  }
  std::vector<Difference> against(const std::string& source) const {
    return against(small_plan(source));
  }

  // Returns the place of the stored element. `at` has its coordinates in the leaf.
  std::pair<std::string, std::size_t> place_of(const Plan& plan, std::uint32_t leaf,
                                               const Shape& at) const {
    const Shape& chunk = plan.grids()[leaf].chunk;
    Shape index = at;
    std::uint64_t within = 0;
    for (std::size_t d = 0; d < at.rank(); ++d) {
      index[d] = at[d] / chunk[d];
      within = within * chunk[d] + at[d] % chunk[d];
    }
    const Place place = plan.place(leaf, index);
    return {join_path(out_, "0/items/" + plan.file_path(place.file)),
            place.offset_bytes + within * size_bits(plan.model().leaves[leaf].dtype) / 8};
  }

  // Changes the first or last byte of every chunk. Returns the number of chunks.
  std::size_t flip_every_chunk(const Plan& plan, bool last) const {
    std::map<std::string, std::string> files;
    std::size_t count = 0;
    for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
      for_each_chunk(
          chunk_counts(plan.model().leaves[leaf].shape, plan.grids()[leaf].chunk),
          [&](const Shape& chunk) {
            const Place place = plan.place(leaf, chunk);
            const std::string path = join_path(out_, "0/items/" + plan.file_path(place.file));
            std::string& bytes = files.try_emplace(path, "").first->second;
            if (bytes.empty()) bytes = read_file(path);
            char& byte = bytes.at(place.offset_bytes + (last ? place.length_bytes - 1 : 0));
            byte = static_cast<char>(byte ^ 1);
            ++count;
            return true;
          });
    }
    for (const auto& [path, bytes] : files) write_text(path, bytes);
    return count;
  }

  std::uint32_t leaf_number(const Model& model, const std::string& path) const {
    for (std::uint32_t leaf = 0; leaf < model.leaves.size(); ++leaf) {
      if (model.leaves[leaf].name == path) return leaf;
    }
    ADD_FAILURE() << path;
    return 0;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
  mutable QuietReporter reporter_;
};

TEST_F(VerifyTest, ASourceThatDiffersInOneBitIsSeenInTheChunkThatItFeeds) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  EXPECT_TRUE(against(source_).empty());
  const std::string other = copy_fixture("qwen3", dir_ / "other");
  const TensorInfo& tensor =
      plan.catalog().tensors[plan.catalog().find("model.embed_tokens.weight").value()];
  const std::string& file = plan.catalog().files[tensor.file].name;
  flip(join_path(other, file), tensor.begin_bytes + tensor.size_bytes - 2);
  const std::vector<Difference> found = against(other);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].leaf, "params.params.token_embedder.embedding");
  EXPECT_FALSE(found[0].chunk.empty());
  EXPECT_TRUE(digests().empty());
}

TEST_F(VerifyTest, DigestsSeeADamageThatNoChecksumGuards) {
  convert(small_plan(source_, unguarded()), to_output(out_));
  EXPECT_TRUE(digests().empty());
  flip(join_path(out_, "0/items/d/00000"), 0);
  const std::vector<Difference> found = digests();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].leaf.empty());
  EXPECT_FALSE(found[0].tensor.empty());
}

// A comparison or hash that stops one byte early wouldn't detect it.
TEST_F(VerifyTest, TheFirstAndTheLastByteOfEveryChunkCount) {
  const Plan plan = small_plan(source_, unguarded());
  convert(plan, to_output(out_));
  std::set<std::string> all;
  for (const Leaf& leaf : plan.model().leaves) all.insert(leaf.name);
  for (const bool last : {true, false}) {
    const std::size_t chunks = flip_every_chunk(plan, last);
    EXPECT_GT(chunks, 100U);
    const std::vector<Difference> found = against(plan);
    EXPECT_EQ(found.size(), chunks) << last;
    for (const Difference& difference : found) {
      EXPECT_FALSE(difference.chunk.empty());
      const std::uint32_t leaf = leaf_number(plan.model(), difference.leaf);
      Shape element;
      for (const std::string& place : split(difference.chunk, ',')) {
        const std::uint64_t extent = plan.grids()[leaf].chunk[element.rank()];
        element.push_back(std::stoull(place) * extent + (last ? extent - 1 : 0));
      }
      EXPECT_EQ(difference.first, element) << difference.what;
    }
    EXPECT_EQ(leaves_of(digests()), all) << last;
    flip_every_chunk(plan, last);
    EXPECT_TRUE(against(plan).empty());
  }
}

// One bit of either half of the record is wrong, and the root digest matches the record.
TEST_F(VerifyTest, EveryBitOfARecordedDigestIsCompared) {
  convert(small_plan(source_), to_output(out_));
  const Manifest good = manifest();
  for (const std::size_t slot : {std::size_t{0}, good.digests.sums.size() - 1}) {
    for (const unsigned bit : {0U, 31U, 32U, 63U}) {
      for (const bool high : {true, false}) {
        Manifest bad = good;
        (high ? bad.digests.sums[slot].high : bad.digests.sums[slot].low) ^= std::uint64_t{1}
                                                                             << bit;
        bad.digests.root = root_digest(*bad.model, bad.digests);
        const std::vector<Difference> found = digests(bad);
        ASSERT_EQ(found.size(), 1U) << slot << " " << bit << " " << high;
        EXPECT_FALSE(found[0].tensor.empty());
        EXPECT_NE(found[0].what.find(to_hex(bad.digests.sums[slot])), std::string::npos);
      }
    }
  }
}

TEST_F(VerifyTest, ARootDigestThatTheDigestsDoNotMakeIsADifference) {
  convert(small_plan(source_), to_output(out_));
  const Manifest good = manifest();
  EXPECT_TRUE(digests(good).empty());
  for (const std::size_t at : {std::size_t{0}, good.digests.root.size() - 1}) {
    Manifest bad = good;
    bad.digests.root[at] = bad.digests.root[at] == '0' ? '1' : '0';
    const std::vector<Difference> found = digests(bad);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].leaf, "");
    EXPECT_EQ(found[0].what, "the recorded digests do not add up to the root digest");
  }
  Manifest shorter = good;
  shorter.digests.root.pop_back();
  EXPECT_EQ(digests(shorter).size(), 1U);
}

// bf16 and f16 can have equal bits, and so can [2, 3] and [3, 2].
TEST_F(VerifyTest, ALeafOfAnotherDtypeOrShapeIsADifferenceAndSoIsAMissingOne) {
  convert(small_plan(source_), to_output(out_));
  const Manifest good = manifest();
  const std::uint32_t leaf = leaf_number(*good.model, "params.params.token_embedder.embedding");
  const auto found_with = [&](const auto& change) {
    Manifest bad = good;
    CompiledModel changed = *good.model;
    change(changed.leaves[leaf]);
    bad.model = make_model(good.model->catalog(), changed);
    bad.digests.root = root_digest(*bad.model, bad.digests);
    std::vector<Difference> found = digests(bad);
    EXPECT_EQ(found.size(), 1U);
    found.resize(1);
    EXPECT_EQ(found[0].leaf, bad.model->leaves[leaf].name);
    return found[0].what;
  };
  EXPECT_NE(found_with([](Leaf& item) { item.dtype = DType::f16; }).find("bf16"),
            std::string::npos);
  EXPECT_NE(found_with([](Leaf& item) { std::swap(item.shape[0], item.shape[1]); }).find("20"),
            std::string::npos);
  PlanParts parts(small_plan(source_));
  parts.model.leaves[leaf].dtype = DType::i16;
  EXPECT_EQ(leaves_of(against(parts.build())),
            (std::set<std::string>{parts.model.leaves[leaf].name}));
}

TEST_F(VerifyTest, ALeafThatIsMissingOrThatNothingIsKnownOfIsADifference) {
  convert(small_plan(source_), to_output(out_));
  PlanOptions options = small_options();
  options.mapping.exclude = {"model.norm.weight"};
  const Plan fewer = small_plan(source_, options);
  const std::string norm = "params.params.decoder.decoder_norm.scale";
  const std::vector<Difference> extra = against(fewer);
  ASSERT_EQ(extra.size(), 1U);
  EXPECT_EQ(extra[0].leaf, norm);
  const Manifest whole = manifest();
  out_ = dir_ / "fewer";
  convert(fewer, to_output(out_));
  EXPECT_EQ(leaves_of(against(source_)), (std::set<std::string>{norm}));
  EXPECT_EQ(leaves_of(digests(whole)), (std::set<std::string>{norm}));
  const Manifest less = manifest();
  EXPECT_TRUE(digests(less).empty());
  out_ = dir_ / "out";
  const std::vector<Difference> unknown = digests(less);
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].leaf, norm);
}

// Fills have no source, so digests don't cover them.
TEST_F(VerifyTest, EveryElementOfAFillIsComparedWithItsConstant) {
  PlanOptions options = unguarded();
  options.mapping.options["vocab"] = "56";
  const Plan plan = small_plan(source_, options);
  convert(plan, to_output(out_));
  EXPECT_TRUE(digests().empty());
  const std::uint32_t leaf = leaf_number(plan.model(), "params.params.token_embedder.embedding");
  ASSERT_EQ(plan.model().leaves[leaf].shape, (Shape{56, 20}));
  for (const Shape& at : {Shape{50, 0}, Shape{53, 7}, Shape{55, 19}}) {
    for (const std::size_t byte : {0U, 1U}) {
      const auto [file, offset] = place_of(plan, leaf, at);
      flip(file, offset + byte);
      const std::vector<Difference> found = digests();
      ASSERT_EQ(found.size(), 1U);
      EXPECT_EQ(found[0].leaf, plan.model().leaves[leaf].name);
      EXPECT_EQ(found[0].tensor, "");
      EXPECT_EQ(against(plan).size(), 1U);
      flip(file, offset + byte);
    }
  }
  EXPECT_TRUE(digests().empty());
}

// An unreadable chunk is reported once, and its contents don't count for the digests.
TEST_F(VerifyTest, ADamagedChunkIsOneDifference) {
  convert(small_plan(source_), to_output(out_));
  flip(join_path(out_, "0/items/d/00000"), 0);
  const std::vector<Difference> found = digests();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].chunk.empty());
  EXPECT_EQ(found[0].tensor, "");
  EXPECT_EQ(against(source_).size(), 1U);
}

// A checkpoint that lacks one chunk.
class LackingFile final : public Checkpoint {
 public:
  explicit LackingFile(std::unique_ptr<Checkpoint> whole) : whole_(std::move(whole)) {}
  const Catalog& catalog() const override { return whole_->catalog(); }
  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    return whole_->has_piece(array, piece);
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    if (array == 1 && piece[0] == 0) throw Error(ErrorCode::not_found, "the chunk is missing");
    return whole_->open_piece(array, piece, steps, scratch);
  }
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const override {
    return whole_->scratch_bytes(array, steps);
  }

 private:
  std::unique_ptr<Checkpoint> whole_;
};

TEST_F(VerifyTest, AMissingChunkIsADifferenceAndNoError) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  const LackingFile opened(format_of("orbax").open(out_));
  const std::set<std::string> lacking{opened.catalog().tensors[1].name};
  EXPECT_EQ(leaves_of(verify_source(opened, plan, to_output(out_), reporter_).differences),
            lacking);
  EXPECT_EQ(leaves_of(verify_digests(opened, manifest(), to_output(out_), reporter_).differences),
            lacking);
}

TEST_F(VerifyTest, WhatIsOnlyLinkedIsCountedAsUnrecordedAndNotRead) {
  PlanOptions options = small_options();
  options.link = true;
  options.digests = false;
  options.mapping.scheme = "hf";
  const Plan plan = small_plan(source_, options);
  RunOptions run = to_output(out_);
  run.shards = ShardLinks::hard;
  convert(plan, run);
  const auto opened = format_of("orbax").open(out_);
  const VerifyResult result = verify_digests(*opened, manifest(), to_output(out_), reporter_);
  EXPECT_TRUE(result.differences.empty());
  std::uint64_t linked = 0;
  std::uint64_t converted = 0;
  for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    const Leaf& info = plan.model().leaves[leaf];
    (plan.grids()[leaf].linked ? linked : converted) +=
        packed_bytes(info.dtype, info.shape.numel());
  }
  EXPECT_GT(linked, 0U);
  EXPECT_EQ(result.unrecorded_bytes, linked);
  EXPECT_EQ(result.checked_bytes, converted);
}

// The index of a model isn't published with digests of what can't be read.
TEST_F(VerifyTest, LinkedDataThatIsDamagedHasNoDigests) {
  PlanOptions options = small_options();
  options.link = true;
  options.mapping.scheme = "hf";
  const Plan plan = small_plan(source_, options);
  const Model& model = plan.model();
  convert(plan, to_output(out_));
  const std::vector<Digest128> recorded = manifest().digests.sums;
  const Digest128 untouched{1, 2};
  std::vector<Digest128> sums(model.digest_slots(), untouched);
  digest_linked(*format_of("orbax").open(out_), plan, to_output(out_), sums, reporter_);
  ASSERT_EQ(recorded.size(), sums.size());
  for (std::uint32_t t = 0; t < model.transfers.size(); ++t) {
    const std::uint64_t slot = model.digest_slot(t, 0);
    EXPECT_EQ(sums[slot],
              plan.grids()[model.transfers[t].target].linked ? recorded[slot] : untouched);
  }
  const LackingFile opened(format_of("orbax").open(out_));
  const std::string lacking = opened.catalog().tensors[1].name;
  ASSERT_TRUE(plan.grids()[leaf_number(model, lacking)].linked);
  std::ranges::fill(sums, untouched);
  const Error error =
      catch_error([&] { digest_linked(opened, plan, to_output(out_), sums, reporter_); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the chunk is missing");
  EXPECT_EQ(error.file(), opened.catalog().location);
  EXPECT_EQ(error.tensor(), lacking);
  EXPECT_EQ(std::ranges::count(sums, untouched), std::ssize(sums));
}

TEST_F(VerifyTest, DifferencesSayWhichSideHasWhat) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  const std::string norm = "params.params.decoder.decoder_norm.scale";
  PlanOptions options = small_options();
  options.mapping.exclude = {"model.norm.weight"};
  const Plan fewer = small_plan(source_, options);
  EXPECT_EQ(against(fewer).at(0).what, "the source has nothing for this leaf");
  const Manifest whole = manifest();
  out_ = dir_ / "fewer";
  convert(fewer, to_output(out_));
  EXPECT_EQ(against(source_).at(0).what, "the leaf is missing");
  EXPECT_EQ(digests(whole).at(0).what, "the leaf is missing");
  const Manifest less = manifest();
  out_ = dir_ / "out";
  EXPECT_EQ(digests(less).at(0).what, "the manifest does not have this leaf");
  PlanParts parts(plan);
  parts.model.leaves[leaf_number(plan.model(), norm)].dtype = DType::i16;
  const std::vector<Difference> other = against(parts.build());
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].what, "the leaf is bf16 20, not i16 20");
  EXPECT_EQ(other[0].chunk, "");
}

TEST_F(VerifyTest, ACheckedOutputIsCountedInChunksBytesAndTensors) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(out_));
  const auto opened = format_of("orbax").open(out_);
  std::uint64_t bytes = 0;
  for (const Leaf& leaf : plan.model().leaves)
    bytes += packed_bytes(leaf.dtype, leaf.shape.numel());
  const Manifest whole = manifest();
  for (const VerifyResult& result : {verify_source(*opened, plan, to_output(out_), reporter_),
                                     verify_digests(*opened, whole, to_output(out_), reporter_)}) {
    EXPECT_EQ(result.chunks, plan.totals().chunks);
    EXPECT_EQ(result.checked_bytes, bytes);
    EXPECT_EQ(result.tensors, plan.catalog().tensors.size());
    EXPECT_EQ(result.unrecorded_bytes, 0U);
  }
  // A leaf that the output lacks isn't checked.
  Manifest more = whole;
  CompiledModel changed = *whole.model;
  Leaf& leaf = changed.leaves[leaf_number(*whole.model, "params.params.token_embedder.embedding")];
  leaf.dtype = DType::f16;
  more.model = make_model(whole.model->catalog(), changed);
  const VerifyResult result = verify_digests(*opened, more, to_output(out_), reporter_);
  EXPECT_EQ(result.checked_bytes, bytes - packed_bytes(leaf.dtype, leaf.shape.numel()));
  EXPECT_EQ(result.tensors, plan.catalog().tensors.size() - 1);
}

TEST_F(VerifyTest, AWrongFillAndAWrongElementAreNamedWithTheirValueAndPlace) {
  PlanOptions options = unguarded();
  options.mapping.options["vocab"] = "56";
  const Plan plan = small_plan(source_, options);
  convert(plan, to_output(out_));
  const std::uint32_t leaf = leaf_number(plan.model(), "params.params.token_embedder.embedding");
  for (const Shape& at : {Shape{55, 19}, Shape{50, 1}}) {
    const auto [file, offset] = place_of(plan, leaf, at);
    flip(file, offset);
  }
  const Fill& fill = plan.model().fills.at(plan.model().fills_of(leaf)[0]);
  const std::vector<Difference> found = digests();
  ASSERT_EQ(found.size(), 1U) << "one for each fill";
  EXPECT_EQ(found[0].what, "elements that " + plan.model().rules[fill.rule] + " fills are not 0");
  const std::vector<Difference> compared = against(plan);
  ASSERT_EQ(compared.size(), 2U);
  EXPECT_EQ(compared[0].what, "differs from the source's, first at element [50, 1]");
  EXPECT_EQ(compared[1].what, "differs from the source's, first at element [55, 19]");
  EXPECT_EQ(compared[1].first, (Shape{55, 19}));
}

// Two rules fill this leaf.
TEST_F(VerifyTest, AnUnrecordedLeafIsCountedOnce) {
  convert(small_plan(copy_fixture("qwen3.5", dir_ / "hybrid")), to_output(out_));
  Manifest made = manifest();
  const Model& model = *made.model;
  const std::uint32_t leaf =
      leaf_number(model, "params.params.decoder.layers.layer_0.attention.in_proj_ba.kernel");
  ASSERT_EQ(model.transfers_of(leaf).size(), 2U);
  for (const std::uint32_t t : model.transfers_of(leaf)) made.digests.recorded[t] = false;
  made.digests.root = root_digest(model, made.digests);
  const auto opened = format_of("orbax").open(out_);
  const VerifyResult result = verify_digests(*opened, made, to_output(out_), reporter_);
  EXPECT_TRUE(result.differences.empty());
  const Leaf& info = model.leaves[leaf];
  EXPECT_EQ(result.unrecorded_bytes, packed_bytes(info.dtype, info.shape.numel()));
}

}  // namespace
}  // namespace hfshard
