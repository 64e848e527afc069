#include "run/check/claims.h"

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/pair_layout.h"
#include "run/check/compare.h"
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

// The second array is claimed: its first row repeats its first element, its second row is that of
// the first array.
class RepeatedAndCopied : public testing::Test {
 protected:
  static std::string bytes(std::initializer_list<char> values) { return std::string(values); }
  Plan plan_of(const std::string& first, const std::string& second, DType dtype = DType::u8) const {
    SafetensorsBuilder()
        .tensor("a", dtype, {2, 2}, first)
        .tensor("b.head.weight", dtype, {2, 2}, second)
        .write(dir_ / "source/model.safetensors");
    CompiledModel claims;
    claims.rules = {"r0", "r1", "r2"};
    claims.leaves = {{{"b.head.weight", dtype, {2, 2}}, {}, {}}};
    Transfer repeat;
    repeat.rule = 1;
    repeat.sources = {1};
    repeat.source_shape = {2, 2};
    repeat.source_dtype = dtype;
    repeat.map.digits = {{2, 0, 1}};
    Transfer copy = repeat;
    copy.rule = 2;
    copy.sources = {0};
    copy.map.src_base = copy.map.dst_base = 2;
    copy.map.digits = {{2, 1, 1}};
    claims.transfers = {repeat, copy};
    PlanOptions options;
    options.mapping.scheme = "hf";
    PlanParts parts(small_plan(dir_ / "source", options));
    parts.model.claims = std::make_shared<const CompiledModel>(claims);
    return {Layout(make_model(open_checkpoint(dir_ / "source"), parts.model), parts.cut,
                   parts.limits, parts.packed, parts.files),
            parts.facts};
  }
  Error refused_for(const std::string& first, const std::string& second) const {
    const Plan plan = plan_of(first, second);
    return catch_error([&] { check_claims(plan, to_output(dir_ / "out")); });
  }

  TempDir dir_;
};

TEST_F(RepeatedAndCopied, ElementsAreNamedWithWhatTheyShouldBe) {
  const std::string first = bytes({9, 9, 3, 4});
  const Plan good = plan_of(first, bytes({1, 1, 3, 4}));
  EXPECT_NO_THROW(check_claims(good, to_output(dir_ / "out")));
  const std::string drop = "--drop 'b.head.weight' to accept the loss";
  const Error repeated = refused_for(first, bytes({1, 2, 3, 5}));
  EXPECT_EQ(repeated.code(), ErrorCode::bad_input);
  EXPECT_EQ(repeated.sentence(),
            "2 of 4 elements would be lost: element [0, 1] is 2, where the element that it should "
            "repeat has 1");
  EXPECT_EQ(repeated.tensor(), "b.head.weight");
  EXPECT_EQ(repeated.file(), dir_ / "source");
  EXPECT_EQ(repeated.rule(), "r1");
  EXPECT_EQ(repeated.hint_text(), "pass " + drop);
  const Error copied = refused_for(first, bytes({1, 1, 3, 5}));
  EXPECT_EQ(copied.sentence(),
            "1 of 4 elements would be lost: element [1, 1] is 5, where its copy \"a\" has 4");
  EXPECT_EQ(copied.rule(), "r2");
  EXPECT_EQ(copied.hint_text(),
            "pass --untie to keep the output head next to the embedding, or " + drop);
}

// Only padding that hfshard fills in again may have zeros of the other sign.
TEST_F(RepeatedAndCopied, ACopyWhoseZeroHasTheOtherSignIsRefused) {
  const std::string zeros(8, '\0');
  const Plan plan = plan_of(zeros, zeros.substr(2) + kMinusZero, DType::bf16);
  const Error error = catch_error([&] { check_claims(plan, to_output(dir_ / "out")); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "1 of 4 elements would be lost: element [1, 1] is -0, where its copy \"a\" has 0");
  EXPECT_EQ(error.tensor(), "b.head.weight");
  const Plan equal = plan_of(zeros, zeros, DType::bf16);
  EXPECT_NO_THROW(check_claims(equal, to_output(dir_ / "out")));
}

TEST_F(RepeatedAndCopied, BothSidesAreComparedElementByElement) {
  const Plan plan = plan_of(bytes({9, 9, 3, 4}), bytes({1, 2, 3, 5}));
  const PairLayout pair(plan.model().held(), plan.model().claimed(), plan.limits());
  struct Told final : Reporter {
    void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
      begun.emplace_back(total_bytes, already_done_bytes);
    }
    void advanced(std::uint64_t bytes) override { done += bytes; }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> begun;
    std::uint64_t done = 0;
  } told;
  RunOptions options = to_output("");
  const CompareResult found = compare_pair(pair, {}, options, told);
  EXPECT_EQ(found.compared_bytes, 4U);
  ASSERT_EQ(found.leaves.size(), 1U);
  EXPECT_EQ(found.leaves[0].elements.count, 2U);
  EXPECT_EQ(found.leaves[0].elements.first, 1U);
  EXPECT_EQ(found.leaves[0].left, std::vector{std::byte{2}});
  EXPECT_EQ(found.leaves[0].right, std::vector{std::byte{1}});
  EXPECT_TRUE(found.leaves[0].damage.empty());
  ASSERT_EQ(told.begun.size(), 1U);
  EXPECT_EQ(told.begun[0].second, 0U);
  EXPECT_EQ(told.done, told.begun[0].first);
  const std::atomic<bool> stop = true;
  options.stop = &stop;
  const Error error = catch_error([&] { compare_pair(pair, {}, options, told); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(error.sentence(), "stopped before everything was compared");
}

}  // namespace
}  // namespace hfshard
