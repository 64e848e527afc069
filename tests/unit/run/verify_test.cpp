// Verifying finds what no checksum can: chunks that are whole, and are not the source's.

#include "run/verify.h"

#include <gtest/gtest.h>

#include "run/manifest.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

void flip(const std::string& path, std::size_t at) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  write_text(path, bytes);
}

class VerifyTest : public testing::Test {
 protected:
  std::vector<Difference> digests() const {
    const std::string step = join_path(out_, "0");
    return verify_digests(*make_target("orbax")->open(out_),
                          read_manifest(join_path(step, kManifestName)), to_output(out_), reporter_)
        .differences;
  }
  std::vector<Difference> against(const std::string& source) const {
    return verify_source(*make_target("orbax")->open(out_), small_plan(source), to_output(out_),
                         reporter_)
        .differences;
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
      plan.catalog.tensors[plan.catalog.find("model.embed_tokens.weight").value()];
  const std::string& file = plan.catalog.files[tensor.file].name;
  flip(join_path(other, file), tensor.begin_bytes + tensor.size_bytes - 2);
  const std::vector<Difference> found = against(other);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].leaf, "params.params.token_embedder.embedding");
  EXPECT_FALSE(found[0].chunk.empty());
  EXPECT_TRUE(digests().empty());
}

TEST_F(VerifyTest, DigestsSeeADamageThatNoChecksumGuards) {
  PlanOptions options = small_options();
  options.encoding.checksum = false;
  convert(small_plan(source_, options), to_output(out_));
  EXPECT_TRUE(digests().empty());
  flip(join_path(out_, "0/items/d/00000"), 0);
  const std::vector<Difference> found = digests();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].leaf.empty());
  EXPECT_FALSE(found[0].tensor.empty());
}

}  // namespace
}  // namespace hfshard
