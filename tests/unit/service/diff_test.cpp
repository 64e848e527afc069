#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/json.h"
#include "plan/pair_layout.h"
#include "service/diff_open.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Changes a file as soon as both sides are open.
class ChangesFile final : public Reporter {
 public:
  explicit ChangesFile(std::string file) : file_(std::move(file)) {}
  void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) override {
    std::ofstream(file_, std::ios::app) << "more";
  }

 private:
  std::string file_;
};

// One model in every form that hfshard writes. Each form equals every other.
TEST_F(DiffTest, EveryFormOfAModelIsEqualToEveryOther) {
  std::vector<std::string> forms{source_, convert_to("stacked")};
  PlanOptions options = small_options();
  options.mapping.stacked = false;
  options.meshes = {"fsdp=2"};
  forms.push_back(convert_to("separate", options));
  options = small_options();
  options.encoding.zstd_level = 1;
  options.meshes.clear();
  options.chunk_bytes = 1 << 20;
  forms.push_back(convert_to("packed", options));
  link(source_, {}, {}, run_to("linked"), quiet_);
  forms.push_back(dir_ / "linked");
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  back.shard_bytes = 4096;
  hfshard::convert(dir_ / "stacked", back, run_to("back"), quiet_);
  forms.push_back(dir_ / "back");
  for (const std::string& a : forms) {
    for (const std::string& b : forms) {
      const DiffResult found = compare(a, b);
      EXPECT_TRUE(found.equal()) << a << " " << b;
      EXPECT_GT(found.compared_tensors, 10U);
      EXPECT_GT(found.compared_bytes, 20000U);
    }
  }
}

// Arrays that are larger than the memory are unpacked.
TEST_F(DiffTest, WhatIsOneLargePieceIsUnpacked) {
  PlanOptions options;
  options.encoding.zstd_level = 1;
  const Limits usual;
  const Limits small = limits_;
  limits_ = usual;
  const std::string whole = convert_to("whole", options);
  limits_ = small;
  const std::string cut = convert_to("cut");
  limits_.merge_bytes = 1024;
  limits_.slab_bytes = 4096;  // for both; less than the pieces
  EXPECT_TRUE(compare(cut, whole).equal());
  EXPECT_TRUE(compare(whole, source_).equal());
  const std::string data = whole + "/0/items/d/00000";
  const std::string name = "params.params.decoder.layers.mlp.wo.kernel";
  InspectOptions asked;
  asked.pieces = true;
  asked.filter = name;
  const InspectReport seen = inspect(whole, asked, quiet_);
  flip(data, seen.checkpoint.arrays.at(0).pieces.at(0).range->begin + 30);
  for (const bool swap : {false, true}) {
    const DiffResult found = swap ? compare(cut, whole) : compare(whole, cut);
    EXPECT_EQ(found.differing_tensors, 1U);
    const TensorDiff* item = find(found, name);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->kind, Kind::damaged);
    EXPECT_EQ(item->damage.at(0).in_a, !swap);
    EXPECT_EQ(item->damage.at(0).tensor, name);
    EXPECT_EQ(item->damage.at(0).file, data);
    EXPECT_EQ(found.differing_elements, 0U);
  }
  const DiffResult both = compare(whole, whole);
  const TensorDiff* item = find(both, name);
  ASSERT_TRUE(item != nullptr && item->damage.size() == 2);
  EXPECT_NE(item->damage[0].in_a, item->damage[1].in_a);
}

// Nothing hashes rows here. Pieces that split rows are held one at a time, so nothing is unpacked
// for them.
TEST_F(DiffTest, PiecesThatAreAlikeAreComparedOneByOne) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  limits_.merge_bytes = 1;
  limits_.slab_bytes = 256;  // less than a row of embedding pieces
  SidesTogether sides = bring_together(open_side(find_side(a, quiet_), a, b, {}),
                                       open_side(find_side(b, quiet_), b, a, {}), {});
  const ModelPair pair =
      pair_models(std::move(sides.a), std::move(sides.b), false, [](auto) { return true; });
  const PairLayout layout(pair.left, pair.right, limits_);
  EXPECT_TRUE(layout.left().unpacked().empty());
  EXPECT_TRUE(layout.right().unpacked().empty());
  const DiffResult found = compare(a, b);
  EXPECT_TRUE(found.equal());
  EXPECT_GT(found.compared_tensors, 10U);
}

// One changed bit of a tensor, anywhere: name, index, file and byte on both sides.
TEST_F(DiffTest, OneBitIsNamed) {
  PlanOptions options = small_options();
  options.encoding.checksum = false;
  const std::string out = convert_to("out", options);
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const std::string other = copy_fixture("qwen3", dir_ / "other");
  const InspectReport seen = inspect(other, {false, false, name}, quiet_);
  const StoredArray& array = seen.checkpoint.arrays.at(0);
  const std::uint64_t element = 13 * array.shape[1] + 17;
  const std::string file = seen.checkpoint.files.at(array.file).name;
  flip(join_path(other, file), array.begin_bytes + element * 2);
  const DiffResult same = compare(source_, other);
  ASSERT_EQ(same.differing_elements, 1U);
  const TensorDiff* item = find(same, name);
  ASSERT_TRUE(item != nullptr && item->values);
  EXPECT_EQ(item->kind, Kind::values);
  EXPECT_EQ(item->values->first, (Shape{13, 17}));
  EXPECT_EQ(item->values->largest_ulps, 1U);
  EXPECT_EQ(item->values->b.file, file);
  EXPECT_EQ(item->values->b.byte, array.begin_bytes + element * 2);
  EXPECT_NE(item->values->a.value, item->values->b.value);

  const DiffResult across = compare(out, other);
  ASSERT_EQ(across.differing_tensors, 1U);
  const ValueDifferences& values =
      *std::ranges::find(across.tensors, Kind::values, &TensorDiff::kind)->values;
  EXPECT_EQ(values.first, (Shape{17, 1, 13}));
  EXPECT_EQ(values.b.tensor, name);
  EXPECT_EQ(values.b.index, (Shape{13, 17}));
  EXPECT_EQ(values.b.byte, array.begin_bytes + element * 2);
  // It also names the element's place in the tree. Correcting that byte makes them equal.
  ASSERT_TRUE(values.a.byte);
  EXPECT_EQ(values.a.tensor, "params.params.decoder.layers.mlp.wo.kernel");
  EXPECT_EQ(values.a.index, values.first);
  flip(join_path(out, values.a.file), *values.a.byte);
  EXPECT_TRUE(compare(out, other).equal());
}

// An array is compared in many parts. The report is about the first difference.
TEST_F(DiffTest, TheValuesAreThoseOfTheFirstDifference) {
  constexpr std::uint64_t kRows = 500;
  std::string bytes(kRows * 100, '\1');
  SafetensorsBuilder().tensor("w", DType::u8, {kRows, 100}, bytes).write(dir_ / "a.safetensors");
  for (const auto& [at, value] :
       {std::pair<std::size_t, char>{1234, '\7'}, {25000, '\2'}, {49999, '\3'}}) {
    bytes[at] = value;
  }
  SafetensorsBuilder().tensor("w", DType::u8, {kRows, 100}, bytes).write(dir_ / "b.safetensors");
  RunOptions run = run_to("");
  run.jobs = 1;
  const DiffResult found =
      diff(dir_ / "a.safetensors", dir_ / "b.safetensors", DiffOptions{}, run, quiet_);
  ASSERT_EQ(found.tensors.size(), 1U);
  ASSERT_TRUE(found.tensors[0].values);
  const ValueDifferences& values = *found.tensors[0].values;
  EXPECT_EQ(values.count, 3U);
  EXPECT_EQ(values.first, (Shape{12, 34}));
  EXPECT_EQ(values.a.value, "1");
  EXPECT_EQ(values.b.value, "7");
  EXPECT_EQ(values.largest_absolute, 6.0);
}

// Otherwise, the differences would be those of two versions at once.
TEST_F(DiffTest, AFileOfEitherSideThatChangesMeanwhileIsAnError) {
  const std::string other = copy_fixture("qwen3", dir_ / "other");
  for (const std::string& side : {source_, other}) {
    const std::string file = side + "/model-00002-of-00002.safetensors";
    const std::string text = read_text(file);
    ChangesFile changes(file);
    const Error error = catch_error([&] { diff(source_, other, {}, run_to(""), changes); });
    EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
    EXPECT_EQ(error.file(), file);
    write_text(file, text);
  }
  EXPECT_TRUE(compare(source_, other).equal());
}

TEST_F(DiffTest, NamesShapesAndDtypesAreDifferences) {
  SafetensorsBuilder a;
  a.tensor("both", DType::f32, {4}).tensor("dtype", DType::f32, {4}, std::string(16, '\0'));
  a.tensor("shape", DType::f32, {4}).tensor("there", DType::u8, {2});
  a.tensor("two", DType::f32, {4});
  SafetensorsBuilder b;
  b.tensor("both", DType::f32, {4}).tensor("dtype", DType::bf16, {4}, std::string(8, '\0'));
  b.tensor("here", DType::i8, {}).tensor("shape", DType::f32, {2, 2});
  b.tensor("two", DType::bf16, {2});
  a.write(dir_ / "a.safetensors");
  b.write(dir_ / "b.safetensors");
  const DiffResult found = compare(dir_ / "a.safetensors", dir_ / "b.safetensors");
  EXPECT_EQ(found.differing_tensors, 5U);
  EXPECT_EQ(found.compared_tensors, 1U);
  ASSERT_EQ(found.tensors.size(), 6U);
  EXPECT_EQ(find(found, "both")->kind, Kind::equal);
  EXPECT_EQ(find(found, "dtype")->kind, Kind::dtype);
  EXPECT_EQ(find(found, "shape")->kind, Kind::shape);
  EXPECT_EQ(find(found, "two")->kind, Kind::shape) << "the shape comes before the dtype";
  EXPECT_EQ(find(found, "two")->a->dtype, DType::f32);
  EXPECT_EQ(find(found, "two")->b->shape, (Shape{2}));
  EXPECT_EQ(find(found, "there")->kind, Kind::only_a);
  EXPECT_FALSE(find(found, "there")->b);
  EXPECT_EQ(find(found, "here")->kind, Kind::only_b);
  DiffOptions options;
  options.include = {"*h*"};
  options.exclude = {"both"};
  EXPECT_EQ(compare(dir_ / "a.safetensors", dir_ / "b.safetensors", options).tensors.size(), 3U);
}

// The wider value is rounded to nearest even: half an ulp rounds to 1.0, and more rounds up.
TEST_F(DiffTest, DtypeAwareRoundsTheWiderOne) {
  const float ulp = std::ldexp(1.0F, -7);
  const auto write = [&](const std::string& name, DType dtype, const std::string& bytes) {
    const std::uint64_t count = bytes.size() * 8 / size_bits(dtype);
    SafetensorsBuilder().tensor("w", dtype, {count}, bytes).write(dir_ / (name + ".safetensors"));
    return dir_ / (name + ".safetensors");
  };
  const std::string wide =
      write("wide", DType::f32, f32_bytes({1, 1 + ulp / 2, 1 + ulp * 1.5F, 1 + ulp / 3}));
  const std::string same = write("same", DType::bf16, bf16_bytes({0x3f80, 0x3f80, 0x3f82, 0x3f80}));
  const std::string off = write("off", DType::bf16, bf16_bytes({0x3f80, 0x3f81, 0x3f82, 0x3f80}));
  DiffOptions aware;
  aware.dtype_aware = true;
  EXPECT_EQ(compare(wide, same).tensors.at(0).kind, Kind::dtype);
  EXPECT_TRUE(compare(wide, same, aware).equal());
  EXPECT_TRUE(compare(same, wide, aware).equal());
  const DiffResult found = compare(wide, off, aware);
  EXPECT_EQ(found.differing_elements, 1U);
  EXPECT_EQ(found.tensors.at(0).values->first, (Shape{1}));
  EXPECT_EQ(found.tensors.at(0).a->dtype, DType::f32);
  EXPECT_EQ(found.tensors.at(0).b->dtype, DType::bf16);
  // f16 and bf16 each have numbers that the other lacks, so both become f32.
  const std::string half = write("half", DType::f16, bf16_bytes({0x3c00, 0x3c01}));
  const std::string brain = write("brain", DType::bf16, bf16_bytes({0x3f80, 0x3f80}));
  EXPECT_EQ(compare(half, brain, aware).differing_elements, 1U);
  aware.tolerance.absolute = 0.001;
  EXPECT_TRUE(compare(half, brain, aware).equal());
}

// Under a checksum it is damage, named with its file and bytes. All else is still compared.
TEST_F(DiffTest, EveryFlippedBitIsFound) {
  const std::string out = convert_to("out");
  const InspectReport seen = inspect(out, {false, true, {}}, quiet_);
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same flips each time
  for (int i = 0; i < 24; ++i) {
    const StoredArray& array = seen.checkpoint.arrays[random() % seen.checkpoint.arrays.size()];
    const StoredPiece& piece = array.pieces[random() % array.pieces.size()];
    if (array.name == "step") continue;
    const std::uint64_t at =
        piece.range->begin + random() % (piece.range->end - piece.range->begin);
    const std::string path = join_path(out, piece.file);
    const char bit = static_cast<char>(1 << random() % 8);
    flip(path, at, bit);
    const DiffResult found = i % 2 == 0 ? compare(out, source_) : compare(source_, out);
    ASSERT_EQ(found.differing_tensors, 1U) << array.name << " at " << at;
    const auto item = std::ranges::find(found.tensors, Kind::damaged, &TensorDiff::kind);
    ASSERT_NE(item, found.tensors.end());
    EXPECT_EQ(item->name, array.name);
    EXPECT_EQ(item->damage.at(0).file, path);
    EXPECT_EQ(item->damage.at(0).in_a, i % 2 == 0);
    flip(path, at, bit);
  }
  EXPECT_TRUE(compare(out, source_).equal());
}

// The parts are stored in reverse order, so the first one in the file is compared last.
TEST_F(DiffTest, OfEqualDamagesTheFirstInTheFileIsNamed) {
  const std::string elements(4000, '\1');
  TorchCheckpoint torch;
  torch.tensor("w", DType::u8, {4, 1000});
  for (const std::uint64_t row : {3U, 2U, 1U, 0U}) torch.part({row, 0}, {1, 1000}, elements, false);
  for (const char* name : {"a", "b"}) torch.write(dir_ / name);
  const std::string file = join_path(dir_ / "b", TorchCheckpoint::kDataFile);
  const std::string bytes = read_text(file);
  const std::size_t first = bytes.find(elements.substr(0, 1000));
  flip(file, first);
  flip(file, first + bytes.size() / 2);  // the same element of another part
  limits_.merge_bytes = 1;               // the parts are read one by one
  RunOptions run = run_to("");
  run.jobs = 1;
  const DiffResult found = diff(dir_ / "a", dir_ / "b", DiffOptions{}, run, quiet_);
  ASSERT_EQ(found.tensors.size(), 1U);
  ASSERT_EQ(found.tensors[0].damage.size(), 1U);
  const DiffDamage& damage = found.tensors[0].damage[0];
  EXPECT_EQ(damage.places, 2U);
  ASSERT_TRUE(damage.range);
  EXPECT_LE(damage.range->begin, first);
}

// The arrays in a tree's other files are still compared.
TEST_F(DiffTest, ADataFileThatIsShortOrGoneIsADifference) {
  PlanOptions torch;
  torch.target = "dcp";
  torch.mapping.scheme = "hf";
  torch.meshes = {"fsdp=2"};
  const std::string orbax = convert_to("out");
  const std::string dcp = convert_to("torch", torch);
  for (const std::string& data : {orbax + "/0/items/d/00001", dcp + "/__00001_0.distcp"}) {
    const std::string& out = data.starts_with(dcp) ? dcp : orbax;
    const std::string bytes = read_text(data);
    const auto check = [&](const DiffResult& found, bool in_a) {
      EXPECT_GT(found.differing_tensors, 0U);
      EXPECT_LT(found.differing_tensors, found.tensors.size()) << "the others were compared";
      for (const TensorDiff& item : found.tensors) {
        if (item.kind == Kind::equal) continue;
        EXPECT_EQ(item.kind, Kind::damaged) << item.name;
        EXPECT_EQ(item.damage.at(0).in_a, in_a);
        EXPECT_EQ(item.damage.at(0).file, data);
        EXPECT_FALSE(item.values) << item.name << ": only what both sides have is compared";
      }
    };
    write_text(data, bytes.substr(0, 1000));
    check(compare(out, source_), true);
    std::remove(data.c_str());
    check(compare(source_, out), false);
    write_text(data, bytes);
    EXPECT_TRUE(compare(out, source_).equal());
  }
}

TEST_F(DiffTest, AFileOfAModelThatIsGoneIsAnErrorWithItsName) {
  const std::string shard = source_ + "/model-00001-of-00002.safetensors";
  ASSERT_EQ(std::remove(shard.c_str()), 0);
  const Error gone = catch_error([&] { compare(source_, source_); });
  EXPECT_EQ(gone.code(), ErrorCode::not_found);
  EXPECT_EQ(gone.file(), shard);
}

// Codes with scales equal their decoded values.
TEST_F(DiffTest, AQuantizedModelIsWhatItDecodesTo) {
  for (const std::string name : {"qwen3-moe-fp8", "gpt-oss-mxfp4"}) {
    const std::string coded = copy_fixture(name, dir_ / name);
    source_ = coded;
    PlanOptions options = small_options();
    options.meshes.clear();
    const std::string tree = convert_to("tree-" + name, options);
    PlanOptions back;
    back.target = "safetensors";
    back.mapping.scheme = "hf";
    hfshard::convert(tree, back, run_to("back-" + name), quiet_);
    EXPECT_TRUE(compare(coded, tree).equal()) << name;
    const DiffResult found = compare(dir_ / ("back-" + name), coded);
    EXPECT_TRUE(found.equal()) << name;
    // Each side is named as the one that it is.
    const std::string through = compare(coded, dir_ / ("back-" + name)).through;
    EXPECT_TRUE(found.through.starts_with("B is ")) << found.through;
    EXPECT_TRUE(through.starts_with("A is ")) << through;
  }
}

// The rule for Gemma's norms adds 1 to bf16 values, and its result is f32.
TEST_F(DiffTest, AComputedArrayHasTheDtypeOfItsResultAndNotOfTheComparison) {
  source_ = copy_fixture("gemma2", dir_ / "gemma");
  PlanOptions wide;
  wide.target = "safetensors";
  wide.mapping.scheme = "hf";
  wide.mapping.dtype = DType::f32;
  hfshard::convert(source_, wide, run_to("wide"), quiet_);
  DiffOptions aware;
  aware.dtype_aware = true;
  const DiffResult found = compare(dir_ / "wide", convert_to("out"), aware);
  EXPECT_TRUE(found.equal());
  const auto dtypes = [&](const std::string& name) {
    const TensorDiff* item = find(found, "params.params." + name);
    return std::pair(item->a->dtype, item->b->dtype);
  };
  EXPECT_EQ(dtypes("decoder.decoder_norm.scale"), std::pair(DType::f32, DType::f32));
  EXPECT_EQ(dtypes("token_embedder.embedding"), std::pair(DType::f32, DType::bf16));
}

TEST_F(DiffTest, AMemoryBoundThatIsTooSmallIsRefused) {
  RunOptions run = run_to("");
  run.max_memory_bytes = 1 << 20;
  EXPECT_EQ(catch_error([&] { diff(source_, source_, {}, run, quiet_); }).code(), ErrorCode::limit);
}

TEST_F(DiffTest, ANameThatFitsNothingIsAnError) {
  DiffOptions options;
  options.include = {"nothing.*"};
  EXPECT_EQ(catch_error([&] { compare(source_, source_, options); }).code(), ErrorCode::not_found);
}

TEST_F(DiffTest, TwoTreesOfOtherProgramsAreComparedByNames) {
  const std::string out = convert_to("out");
  PlanOptions options = small_options();
  options.mapping.stacked = false;
  const std::string other = convert_to("other", options);
  for (const std::string& place : {out, other}) std::remove((place + "/0/hfshard.json").c_str());
  const DiffResult found = compare(out, other);
  EXPECT_FALSE(found.equal());
  EXPECT_TRUE(found.through.empty());
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_NE(found.notes[0].find("--config DIR"), std::string::npos);
  DiffOptions with_config;
  with_config.config_name = source_ + "/config.json";
  with_config.config_text = read_text(with_config.config_name);
  EXPECT_TRUE(compare(out, other, with_config).equal());
  EXPECT_TRUE(compare(other, source_).equal()) << "the model says what it is itself";
}

// torch.save of {"model": model.state_dict()} has the model's names below a key, and no record.
TEST_F(DiffTest, NamesOfTorchBelowAKeyAreFound) {
  source_ = copy_fixture("qwen3-moe", dir_ / "experts");
  std::vector<std::string> made;
  for (const char* dialect : {"files", "modules"}) {
    for (const char* prefix : {"", "model.", "state.model."}) {
      PlanOptions options;
      options.target = "dcp";
      options.mapping.scheme = "hf";
      options.mapping.dialect = dialect;
      options.mapping.prefix = prefix;
      const std::string out = convert_to(fmt::format("{}{}", dialect, made.size()), options);
      for (const char* file : {"/hfshard.json", "/config.json"}) std::remove((out + file).c_str());
      for (const DiffResult& found : {compare(source_, out), compare(out, source_)}) {
        EXPECT_TRUE(found.equal()) << dialect << " " << prefix;
        EXPECT_EQ(says(found, "begin with"), *prefix != 0);
      }
      made.push_back(out);
    }
  }
  EXPECT_TRUE(says(compare(made[1], made[2]), "--config DIR"));
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  options.mapping.dialect = "modules";
  const std::string modules = convert_to("modules", options);  // its record has the dialect
  EXPECT_TRUE(compare(modules, made[3]).equal());
  EXPECT_TRUE(compare(made[3], modules).equal());
  EXPECT_FALSE(compare(copy_fixture("qwen3", dir_ / "other"), made[1]).equal());
}

}  // namespace
}  // namespace hfshard
