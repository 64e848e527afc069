// A tensor that a rule drops as a copy of another is compared with it, every byte.

#include <gtest/gtest.h>

#include "format/safetensors/safetensors.h"
#include "service/example.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/mapping/families.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// A tied model that also stores its output head, in its own file.
class SameAs : public testing::Test {
 protected:
  void SetUp() override {
    Json config = family_info("qwen3").example;
    config["tie_word_embeddings"] = true;
    config["vocab_size"] = kVocab;
    config["hidden_size"] = kWidth;
    ExampleOptions options;
    options.family = "qwen3";
    options.out = source_;
    options.config_text = dump_json(config);
    QuietReporter reporter;
    write_example(options, reporter);
    const std::string file = join_path(source_, "model.safetensors");
    for (const TensorInfo& tensor : format::safetensors::parse_safetensors(file).tensors) {
      if (tensor.name == "model.embed_tokens.weight")
        embedding_ = read_file(file).substr(tensor.begin_bytes, tensor.size_bytes);
    }
    ASSERT_EQ(embedding_.size(), kVocab * kWidth * 2);
  }

  Plan with_head(const std::string& bytes) const {
    SafetensorsBuilder()
        .tensor("lm_head.weight", DType::bf16, {kVocab, kWidth}, bytes)
        .write(join_path(source_, "model-head.safetensors"));
    return small_plan(source_, {}, Limits());
  }

  static constexpr std::uint64_t kVocab = 40000;
  static constexpr std::uint64_t kWidth = 64;
  TempDir dir_;
  std::string source_ = dir_ / "source";
  std::string out_ = dir_ / "out";
  std::string embedding_;
};

TEST_F(SameAs, ACopyThatDiffersInOneByteAnywhereIsRefusedAndNothingIsPublished) {
  const std::uint64_t segment = Limits().segment_bytes;
  ASSERT_GT(embedding_.size(), 2 * segment) << "several segments are compared";
  for (const std::size_t at : {std::size_t{0}, std::size_t{segment - 1}, std::size_t{segment},
                               std::size_t{2 * segment}, embedding_.size() - 1}) {
    std::string copy = embedding_;
    copy[at] = static_cast<char>(copy[at] ^ 1);
    for (const char* target : {"orbax", "null"}) {
      PlanParts parts(with_head(copy));
      parts.facts.options.target = target;
      const Plan plan = parts.build();
      const Error error = catch_error([&] { convert(plan, to_output(out_)); });
      EXPECT_EQ(error.code(), ErrorCode::bad_input) << at << " " << target;
      EXPECT_EQ(error.tensor(), "lm_head.weight");
      EXPECT_EQ(error.file(), join_path(source_, "model-head.safetensors"));
      EXPECT_FALSE(error.rule().empty());
      const TensorInfo& head =
          plan.catalog().tensors[plan.catalog().find("lm_head.weight").value()];
      ASSERT_TRUE(error.range().has_value()) << at;
      EXPECT_LE(error.range()->begin, head.begin_bytes + at);
      EXPECT_GT(error.range()->end, head.begin_bytes + at);
      EXPECT_LE(error.range()->end - error.range()->begin, segment);
      EXPECT_FALSE(exists(out_));
    }
    remove_tree(out_paths(out_).staging);
  }
}

TEST_F(SameAs, AnEqualCopyIsDropped) {
  EXPECT_TRUE(convert(with_head(embedding_), to_output(out_)).published);
}

}  // namespace
}  // namespace hfshard
