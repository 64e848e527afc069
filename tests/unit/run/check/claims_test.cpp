#include "run/check/claims.h"

#include <atomic>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "run/engine/pipeline.h"
#include "service/example.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/mapping/families.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

constexpr const char* kEmbedding = "params.params.token_embedder.embedding";
constexpr const char* kHead = "params.params.decoder.logits_dense.kernel";

// Values in bf16.
const std::string kOne("\x80\x3F", 2);
const std::string kMinusZero("\x00\x80", 2);
const std::string kNaN("\xC0\x7F", 2);

// A tree with four rows of padding, which its export would leave out. It needs no checksums.
class ClaimsTest : public testing::Test {
 protected:
  void SetUp() override {
    Json config = family_info("qwen3").example;
    config["tie_word_embeddings"] = false;
    config["vocab_size"] = kVocab;
    ExampleOptions example;
    example.family = "qwen3";
    example.out = dir_ / "source";
    example.config_text = dump_json(config);
    QuietReporter reporter;
    write_example(example, reporter);
    PlanOptions options;
    options.encoding.checksum = false;
    options.mapping.options["vocab"] = std::to_string(kVocab + 4);
    convert(small_plan(example.out, options, Limits()), to_output(dir_ / "tree"));
  }

  // Writes to the last element of an array, which is padding.
  void set_last(const std::string& array, const std::string& value) const {
    const auto opened = open_checkpoint(dir_ / "tree/0/items");
    const std::uint32_t number = opened->catalog().find(array).value();
    const Shape& shape = opened->catalog().tensors[number].shape;
    const Shape counts = chunk_counts(shape, opened->catalog().grid_of(number).chunk);
    ASSERT_EQ(counts.numel(), 1U);
    const PiecePlace place = opened->find_piece(number, Shape{0, 0}).value();
    std::string text = read_file(place.file);
    ASSERT_EQ(place.range->end - place.range->begin, shape.numel() * 2);
    text.replace(place.range->end - 2, 2, value);
    write_text(place.file, text);
  }
  std::optional<Error> exported() const {
    PlanOptions options;
    options.target = "safetensors";
    options.mapping.scheme = "hf";
    try {
      convert(small_plan(dir_ / "tree", options, Limits()), to_output(dir_ / "back"));
    } catch (const Error& error) {  // what is tested
      return error;
    }
    remove_tree(dir_ / "back");
    return std::nullopt;
  }

  static constexpr std::uint64_t kVocab = 20;
  TempDir dir_;
};

TEST_F(ClaimsTest, PaddingThatIsNoLongerZeroIsNeverDropped) {
  EXPECT_FALSE(exported());
  for (const char* array : {kEmbedding, kHead}) {
    set_last(array, kMinusZero);
    EXPECT_FALSE(exported()) << array;
    for (const std::string& value : {kOne, kNaN}) {
      set_last(array, value);
      const auto error = exported();
      ASSERT_TRUE(error) << array;
      EXPECT_EQ(error->code(), ErrorCode::bad_input);
      EXPECT_EQ(error->tensor(), array);
      EXPECT_FALSE(error->rule().empty());
    }
    set_last(array, std::string(2, '\0'));
  }
}

TEST_F(ClaimsTest, EachArrayThatWouldLoseElementsIsNamed) {
  set_last(kEmbedding, kOne);
  set_last(kHead, kNaN);
  const auto error = exported();
  ASSERT_TRUE(error);
  for (const char* array : {kEmbedding, kHead})
    EXPECT_NE(error->hint_text().find(array), std::string::npos) << error->hint_text();
}

TEST_F(ClaimsTest, TheFirstElementIsNamedWithItsValueAndTheRule) {
  set_last(kEmbedding, kOne);
  const auto one = exported();
  ASSERT_TRUE(one);
  EXPECT_EQ(one->sentence(),
            "1 of 624 elements would be lost: element [23, 25] is 1, where hfshard fills in 0");
  EXPECT_EQ(one->file(), dir_ / "tree/0");
  EXPECT_NE(one->rule().find("qwen3"), std::string::npos) << one->rule();
  set_last(kHead, kNaN);
  const auto both = exported();
  ASSERT_TRUE(both);
  EXPECT_EQ(both->tensor(), kHead) << "the first by its name";
  EXPECT_EQ(both->sentence(),
            "1 of 624 elements would be lost: element [25, 23] is nan, where hfshard fills in 0; 1 "
            "other is similar");
}

TEST_F(ClaimsTest, PaddingThatCannotBeReadIsDamage) {
  PlanOptions options;
  options.mapping.options["vocab"] = std::to_string(kVocab + 4);
  convert(small_plan(dir_ / "source", options, Limits()), to_output(dir_ / "checked"));
  const auto opened = open_checkpoint(dir_ / "checked/0/items");
  for (const char* array : {kHead, kEmbedding}) {
    const std::uint32_t number = opened->catalog().find(array).value();
    const PiecePlace place = opened->find_piece(number, Shape{0, 0}).value();
    const std::string bytes = read_file(place.file);
    std::string damaged = bytes;
    damaged.at(place.range->begin) ^= 1;
    write_text(place.file, damaged);
    PlanOptions back;
    back.target = "safetensors";
    back.mapping.scheme = "hf";
    const Plan plan = small_plan(dir_ / "checked", back, Limits());
    const Error error = catch_error([&] { check_claims(plan, to_output(dir_ / "back")); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.format();
    EXPECT_EQ(error.tensor(), array);
    EXPECT_EQ(error.file(), place.file);
    write_text(place.file, bytes);
  }
}

// The comparison begins with exactly the memory with which its check, before the run, passes.
TEST_F(ClaimsTest, AreComparedInTheMemoryThatIsAllowed) {
  PlanOptions wanted;
  wanted.target = "safetensors";
  wanted.mapping.scheme = "hf";
  const Plan plan = small_plan(dir_ / "tree", wanted, Limits());
  RunOptions options = to_output(dir_ / "back");
  const unsigned threads = pipeline_threads(options);
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  const auto passes = [&](std::uint64_t bytes) {
    try {
      check_claims_budget(plan, bytes, threads);
    } catch (const Error& error) {  // what is tested
      EXPECT_EQ(error.code(), ErrorCode::limit);
      return false;
    }
    return true;
  };
  std::uint64_t least = kStep;
  while (!passes(least)) least += kStep;
  EXPECT_LE(least, claims_need_bytes(plan, threads));
  options.max_memory_bytes = least;
  check_claims(plan, options);
  options.max_memory_bytes = least - kStep;
  EXPECT_EQ(catch_error([&] { check_claims(plan, options); }).code(), ErrorCode::limit);
}

TEST_F(ClaimsTest, AStopWhileTheyAreComparedCanBeResumed) {
  PlanOptions wanted;
  wanted.target = "safetensors";
  wanted.mapping.scheme = "hf";
  const Plan plan = small_plan(dir_ / "tree", wanted, Limits());
  const std::atomic<bool> stop = true;
  RunOptions options = to_output(dir_ / "back");
  options.stop = &stop;
  const Error error = catch_error([&] { check_claims(plan, options); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_NE(error.hint_text().find("--resume"), std::string::npos) << error.hint_text();
}

// Drops of "shape" and "other", of which only the first states a shape.
Error refused_shape(const Shape& shape, const std::string& bytes) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("other", DType::f32, {2})
      .tensor("shape", DType::i32, shape, bytes)
      .tensor("weight", DType::f32, {3, 5})
      .write(dir / "source/model.safetensors");
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.exclude = {"shape", "other"};
  PlanParts parts(small_plan(dir / "source", options));
  for (Drop& drop : parts.model.drops) {
    if (parts.catalog.tensors[drop.source].name == "shape") drop.states = Shape{3, 5};
  }
  return catch_error([&] {
    check_claims({Layout(make_model(open_checkpoint(dir / "source"), parts.model), parts.cut,
                         parts.limits, parts.packed, parts.files),
                  parts.facts},
                 {});
  });
}

TEST(StatedShapes, AreOneListWithAnIntegerForEachDimension) {
  EXPECT_EQ(refused_shape({2}, std::string("\3\0\0\0\6\0\0\0", 8)).sentence(),
            "it says that the tensor is 3x6, and its codes give 3x5");
  EXPECT_EQ(refused_shape({2, 1}, std::string("\3\0\0\0\5\0\0\0", 8)).sentence(),
            "it should state a shape with 2 dimensions, and is i32 2x1");
  EXPECT_EQ(refused_shape({3}, std::string("\3\0\0\0\5\0\0\0\1\0\0\0", 12)).sentence(),
            "it should state a shape with 2 dimensions, and is i32 3");
}

// Compressed weights have a tensor that states the shape of the values.
TEST(StatedShapes, AreIntegersOfEitherSize) {
  const TempDir dir;
  for (const auto& [dtype, bytes] : {std::pair{DType::i32, std::string("\3\0\0\0\5\0\0\0", 8)},
                                     {DType::i64, std::string("\3\0\0\0\0\0\0\0"
                                                              "\5\0\0\0\0\0\0\0",
                                                              16)}}) {
    const std::string source = dir / std::string(to_string(dtype));
    SafetensorsBuilder()
        .tensor("shape", dtype, {2}, bytes)
        .tensor("weight", DType::f32, {3, 5})
        .write(join_path(source, "model.safetensors"));
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.mapping.exclude = {"shape"};
    PlanParts parts(small_plan(source, options));
    const auto check = [&](const Shape& states) {
      parts.model.drops.at(0).states = states;
      check_claims({Layout(make_model(open_checkpoint(source), parts.model), parts.cut,
                           parts.limits, parts.packed, parts.files),
                    parts.facts},
                   {});
    };
    EXPECT_NO_THROW(check({3, 5})) << to_string(dtype);
    const Error error = catch_error([&] { check({3, 6}); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.sentence().find("3x5"), std::string::npos) << error.sentence();
  }
}

}  // namespace
}  // namespace hfshard
