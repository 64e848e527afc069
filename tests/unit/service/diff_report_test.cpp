// The report of diff: its counts, notes and errors.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;

TEST(DiffKinds, EachHasAName) {
  Texts names;
  for (const Kind kind : {Kind::equal, Kind::values, Kind::damaged, Kind::dtype, Kind::shape,
                          Kind::only_a, Kind::only_b})
    names.emplace_back(to_string(kind));
  EXPECT_EQ(names, (Texts{"equal", "values", "damaged", "dtype", "shape", "only_a", "only_b"}));
}

TEST_F(DiffTest, NumbersThatDifferAreCountedOnTheirOwnSides) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string a = dir_ / "a.safetensors";
  const std::string b = dir_ / "b.safetensors";
  SafetensorsBuilder().tensor("w", DType::f32, {2, 3}, f32_bytes({1, 1, 2, 4, nan, nan})).write(a);
  SafetensorsBuilder()
      .tensor("w", DType::f32, {2, 3}, f32_bytes({1, nan, 2, 4.5, nan, 3}))
      .write(b);
  const DiffResult found = compare(a, b);
  ASSERT_EQ(found.tensors.size(), 1U);
  ASSERT_TRUE(found.tensors[0].values);
  const ValueDifferences& values = *found.tensors[0].values;
  EXPECT_EQ(values.count, 3U);
  EXPECT_EQ(found.differing_elements, 3U);
  EXPECT_EQ(values.a_nans, 1U);
  EXPECT_EQ(values.b_nans, 1U);
  EXPECT_EQ(values.largest_absolute, 0.5);
  EXPECT_EQ(values.largest_ulps, std::uint64_t{1} << 20);
  EXPECT_EQ(values.by_ulps.back(), 1U) << "more than 1024";
  EXPECT_EQ(values.first, (Shape{0, 1}));
  EXPECT_EQ(values.a.value, "1");
  EXPECT_EQ(values.b.value, "nan");
  EXPECT_EQ(values.a.file, "a.safetensors");
  EXPECT_EQ(values.b.file, "b.safetensors");
}

TEST_F(DiffTest, EachSideIsDescribedAsItself) {
  const std::string tree = convert_to("tree");
  std::filesystem::copy(tree + "/0", tree + "/5", std::filesystem::copy_options::recursive);
  const DiffResult found = compare(source_, tree);
  EXPECT_EQ(found.a.path, source_);
  EXPECT_EQ(found.a.kind, "huggingface");
  EXPECT_FALSE(found.a.step);
  EXPECT_EQ(found.b.path, tree);
  EXPECT_EQ(found.b.kind, "orbax");
  EXPECT_EQ(found.b.step, 5U);
  EXPECT_EQ(found.b.other_steps, std::vector<std::uint64_t>{0});
  EXPECT_NE(found.a.tensors, found.b.tensors);
  EXPECT_EQ(found.a.tensors, inspect(source_, {}, quiet_).checkpoint.arrays.size());
  EXPECT_EQ(found.b.tensors, inspect(tree, {}, quiet_).checkpoint.arrays.size());
}

TEST_F(DiffTest, AStepNeedsASideWithSteps) {
  DiffOptions options;
  options.step = 0;
  const Error error = catch_error([&] { compare(source_, source_, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--step 0 selects a step of the source, and the source has no steps");
  EXPECT_EQ(error.file(), source_);
  EXPECT_EQ(error.hint_text(), "leave out --step");
  const std::string tree = convert_to("tree");
  EXPECT_TRUE(compare(source_, tree, options).equal());
  EXPECT_EQ(compare(tree, source_, options).a.step, 0U);
  options.step = 3;
  EXPECT_EQ(catch_error([&] { compare(source_, tree, options); }).code(), ErrorCode::not_found);
}

TEST_F(DiffTest, APatternWithoutAMatchHasAHint) {
  DiffOptions options;
  options.include = {"nothing.*"};
  const Error error = catch_error([&] { compare(source_, source_, options); });
  EXPECT_EQ(error.sentence(), "no array of either checkpoint matches");
  EXPECT_EQ(error.hint_text(),
            "a glob must match a whole name, as hfshard inspect prints it; * matches anything");
  SafetensorsBuilder().tensor("a", DType::u8, {1}).write(dir_ / "a.safetensors");
  SafetensorsBuilder().tensor("b", DType::u8, {1}).write(dir_ / "b.safetensors");
  options.include = {"b"};  // of one side
  const DiffResult found = compare(dir_ / "a.safetensors", dir_ / "b.safetensors", options);
  ASSERT_EQ(found.tensors.size(), 1U);
  EXPECT_EQ(found.tensors[0].kind, Kind::only_b);
}

// A tree's record has the model's files, which can differ like those of a model.
TEST_F(DiffTest, FilesAndConfigsThatDifferAreNotedForATreeToo) {
  write_text(source_ + "/tokenizer.json", "{}");
  const std::string tree = convert_to("tree");
  EXPECT_EQ(compare(tree, source_).notes, compare(source_, tree).notes);
  EXPECT_FALSE(says(compare(tree, source_), "but different"));
  write_text(source_ + "/tokenizer.json", "[]");
  const std::string config = read_text(source_ + "/config.json");
  Json changed = parse_json(config, "config.json");
  changed["bos_token_id"] = 77;
  write_text(source_ + "/config.json", dump_json(changed));
  for (const DiffResult& found : {compare(tree, source_), compare(source_, tree)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_TRUE(says(found, "not an array, but different: config.json (\"bos_token_id\")"));
    EXPECT_TRUE(says(found, "no arrays, but different: \"tokenizer.json\""));
    EXPECT_FALSE(says(found, "\"config.json\""));
  }
  const std::string other = copy_fixture("qwen3", dir_ / "other");
  EXPECT_EQ(compare(other, source_).notes,
            (Texts{"not an array, but different: config.json (\"bos_token_id\")",
                   "no arrays, but different: \"tokenizer.json\""}));
  EXPECT_EQ(compare(source_, source_).notes, Texts());
}

TEST_F(DiffTest, NotesOfASideBeginWithItsName) {
  const std::string wrapped = copy_fixture("qwen3", dir_ / "wrapped");
  for (const char* file :
       {"/model-00001-of-00002.safetensors", "/model-00002-of-00002.safetensors"})
    edit_header(wrapped + file, [](Json& header) {
      Json::Object renamed;
      for (auto& [name, info] : header.object())
        renamed[name == "__metadata__" ? name : "_orig_mod." + name] = info;
      header = Json(std::move(renamed));
    });
  std::filesystem::remove(wrapped + "/model.safetensors.index.json");
  const std::string note =
      wrapped + ": hfshard removed the wrapper \"_orig_mod.\" from every tensor name";
  for (const DiffResult& found : {compare(wrapped, source_), compare(source_, wrapped)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(std::ranges::count(found.notes, note), 1);
  }
}

TEST_F(DiffTest, ARunIsNamedByItsCheckpoint) {
  const std::string tree = convert_to("tree");
  std::filesystem::create_directory(dir_ / "run");
  std::filesystem::rename(tree, dir_ / "run/checkpoints");
  const DiffResult found = compare(dir_ / "run", source_);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.a.path, dir_ / "run/checkpoints");
}

TEST_F(DiffTest, ATensorHasTheFormsOfTheSidesThatHaveIt) {
  const std::string a = dir_ / "a.safetensors";
  const std::string b = dir_ / "b.safetensors";
  SafetensorsBuilder()
      .tensor("here", DType::f32, {2, 3})
      .tensor("mine", DType::u8, {4})
      .tensor("same", DType::f16, {5})
      .write(a);
  SafetensorsBuilder()
      .tensor("here", DType::bf16, {2, 3})
      .tensor("same", DType::f16, {5})
      .tensor("yours", DType::i8, {6})
      .write(b);
  const DiffResult found = compare(a, b);
  ASSERT_EQ(found.tensors.size(), 4U);
  const auto form = [](const std::optional<TensorDiff::Form>& of) {
    return of ? std::string(to_string(of->dtype)) + " " + to_string(of->shape) : "none";
  };
  Texts forms;
  for (const TensorDiff& item : found.tensors)
    forms.push_back(std::string(to_string(item.kind)) + ": " + form(item.a) + ", " + form(item.b));
  EXPECT_EQ(forms, (Texts{"dtype: f32 2x3, bf16 2x3", "only_a: u8 4, none", "equal: f16 5, f16 5",
                          "only_b: none, i8 6"}));
}

// The step is hfshard's own. A tree without steps never has it.
TEST_F(DiffTest, AStepThatOnlyATreeOfStepsHasIsLeftOutAndNoted) {
  const std::string tree = convert_to("tree");
  PlanOptions options = small_options();
  options.target = "dcp";
  const std::string flat = convert_to("flat", options);
  for (const bool swap : {false, true}) {
    const DiffResult found = swap ? compare(flat, tree) : compare(tree, flat);
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.through, "");
    EXPECT_EQ(found.notes,
              Texts{std::string("not compared, because only a tree of steps has it: \"step\" of ") +
                    (swap ? "B" : "A")});
  }
}

// The last part is lost on one side, and the first one differs.
TEST_F(DiffTest, ADamagedTensorIsComparedWhereItCanBeRead) {
  std::string elements(4000, 'b');
  for (const char* name : {"a", "b"}) {
    TorchCheckpoint torch;
    torch.tensor("w", DType::u8, {4, 1000});
    for (const std::uint64_t row : {0U, 1U, 2U, 3U})
      torch.part({row, 0}, {1, 1000}, elements, false);
    torch.write(dir_ / name);
    elements[7] = 'X';
  }
  const std::string file = dir_ / "b" + "/" + TorchCheckpoint::kDataFile;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 4 * 3 + 100);
  limits_.merge_bytes = 1;  // the parts are read one by one
  for (const bool swap : {false, true}) {
    const DiffResult found =
        swap ? compare(dir_ / "b", dir_ / "a") : compare(dir_ / "a", dir_ / "b");
    ASSERT_EQ(found.tensors.size(), 1U);
    const TensorDiff& item = found.tensors[0];
    EXPECT_EQ(item.kind, Kind::damaged);
    ASSERT_EQ(item.damage.size(), 1U);
    EXPECT_EQ(item.damage[0].in_a, swap);
    EXPECT_EQ(item.damage[0].file, file);
    ASSERT_TRUE(item.values);
    EXPECT_EQ(item.values->count, 1U);
    EXPECT_EQ(item.values->first, (Shape{0, 7}));
    EXPECT_EQ(item.values->a.value, swap ? "88" : "98");
    EXPECT_EQ(item.values->b.value, swap ? "98" : "88");
    EXPECT_EQ(found.differing_tensors, 1U);
    EXPECT_EQ(found.differing_elements, 1U);
  }
}

TEST_F(DiffTest, TreesWithFewCommonNamesGetOneNote) {
  PlanOptions plain = small_options();
  plain.mapping.scheme = "hf";
  plain.meshes.clear();
  Texts trees;
  for (const char* name : {"x", "y"}) {
    const std::string file = dir_ / (std::string(name) + ".safetensors");
    SafetensorsBuilder().tensor(name, DType::u8, {4}).write(file);
    trees.push_back(dir_ / name);
    hfshard::convert(file, plain, run_to(name), quiet_);
  }
  const std::string note =
      "they have few names in common; pass --config DIR of their model to compare both as that "
      "model";
  EXPECT_EQ(compare(trees[0], trees[1]).notes, Texts{note});
  EXPECT_EQ(compare(trees[0], trees[0]).notes, Texts());
}

TEST_F(DiffTest, BytesOfDifferentTensorsAreCountedOnce) {
  SafetensorsBuilder()
      .tensor("a", DType::u8, {4}, "abcd")
      .tensor("b", DType::u8, {2}, "xy")
      .tensor("c", DType::u8, {3})
      .write(dir_ / "a.safetensors");
  SafetensorsBuilder()
      .tensor("a", DType::u8, {4}, "abXY")
      .tensor("b", DType::u8, {2}, "xY")
      .tensor("d", DType::u8, {3})
      .write(dir_ / "b.safetensors");
  const DiffResult found = compare(dir_ / "a.safetensors", dir_ / "b.safetensors");
  EXPECT_EQ(found.compared_tensors, 2U);
  EXPECT_EQ(found.compared_bytes, 6U);
  EXPECT_EQ(found.differing_tensors, 4U);
  EXPECT_EQ(found.differing_elements, 3U);
  Texts names;
  for (const TensorDiff& item : found.tensors) names.push_back(item.name);
  EXPECT_EQ(names, (Texts{"a", "b", "c", "d"}));
}

}  // namespace
}  // namespace hfshard
