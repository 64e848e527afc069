#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "service/diff_parts.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_fixture.h"
#include "unit/service/named_checkpoint.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// These modules have the names and shapes of the files, but a record can give them another meaning.
TEST_F(DiffTest, ArraysThatAreNamedAlikeAreComparedByTheirRecords) {
  source_ = copy_fixture("qwen3-untied", dir_ / "untied");
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  const std::string files = convert_to("files", options);
  options.mapping.dialect = "modules";
  const std::string modules = convert_to("modules", options);
  const std::string both = "both are converted to Hugging Face models";
  for (const DiffResult& found : {compare(files, modules), compare(modules, files)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.through, both);
  }
  std::remove((modules + "/hfshard.json").c_str());
  for (const DiffResult& found : {compare(files, modules), compare(modules, files)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.through, "") << "one record doesn't tell";
  }
}

// Most of the arrays that remain have the same names in both layouts.
TEST_F(DiffTest, RecordsTellLayoutsThatShareMostNames) {
  PlanOptions options = small_options();
  options.mapping.include = {"model.embed*", "model.norm*", "*.q_norm.weight"};
  const std::string stacked = convert_to("stacked", options);
  options.mapping.stacked = false;
  const std::string separate = convert_to("separate", options);
  EXPECT_TRUE(compare(stacked, separate).equal());
  EXPECT_TRUE(compare(separate, stacked).equal());
  std::remove((separate + "/0/hfshard.json").c_str());
  EXPECT_EQ(compare(stacked, separate).through, "") << "one record doesn't tell";
  EXPECT_EQ(compare(separate, stacked).through, "");
}

TEST_F(DiffTest, AStepThatBothTreesHaveIsCompared) {
  const std::string tree = convert_to("tree");
  const std::string item = tree + "/0/items";
  for (const DiffResult& found : {compare(tree, item), compare(item, tree)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.compared_tensors, found.a.tensors);
    EXPECT_EQ(found.notes, std::vector<std::string>());
  }
}

TEST_F(DiffTest, FilesOfUnknownModelsAreComparedByNames) {
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir_ / "a.safetensors");
  SafetensorsBuilder().tensor("y", DType::u8, {4}).write(dir_ / "b.safetensors");
  const DiffResult files = compare(dir_ / "a.safetensors", dir_ / "b.safetensors");
  EXPECT_EQ(files.differing_tensors, 2U);
  EXPECT_EQ(files.notes, std::vector<std::string>()) << "no --config helps";
  const std::string tree = convert_to("tree");
  std::remove((tree + "/0/hfshard.json").c_str());
  const DiffResult found = compare(dir_ / "a.safetensors", tree);
  EXPECT_EQ(found.compared_tensors, 0U);
  EXPECT_TRUE(found.through.empty()) << found.through;
}

// The family is unknown, so no rule helps either.
TEST_F(DiffTest, CodesThatCannotBeDecodedAreComparedAsTheyAre) {
  const auto write = [&](const std::string& name, const std::string& config, bool more) {
    SafetensorsBuilder builder;
    builder.tensor("w.qweight", DType::i32, {4, 4}).tensor("w.scales", DType::f16, {1, 4});
    if (more) builder.tensor("z", DType::u8, {4});
    write_text(dir_ / (name + "/model.safetensors"), builder.build());
    write_text(dir_ / (name + "/config.json"), config);
    return dir_ / name;
  };
  const std::string coded =
      write("coded", R"({"model_type": "nobody", "quantization_config": {"quant_method": "gptq"}})",
            false);
  for (const bool more : {false, true}) {
    const std::string plain = write("plain", R"({"model_type": "nobody"})", more);
    for (const DiffResult& found : {compare(coded, plain), compare(plain, coded)}) {
      EXPECT_EQ(found.compared_tensors, 2U);
      EXPECT_EQ(found.differing_tensors, more ? 1U : 0U);
    }
  }
}

TEST_F(DiffTest, ACastOfTheTreeIsADifferenceOfDtypes) {
  PlanOptions options = small_options();
  options.mapping.dtype = DType::f32;
  const std::string wide = convert_to("wide", options);
  for (const DiffResult& found : {compare(source_, wide), compare(wide, source_)}) {
    EXPECT_EQ(found.compared_tensors, 0U);
    EXPECT_GT(found.tensors.size(), 10U);
    for (const TensorDiff& item : found.tensors) EXPECT_EQ(item.kind, Kind::dtype) << item.name;
  }
  const std::string plain = convert_to("plain");
  EXPECT_EQ(compare(wide, plain).tensors.at(1).kind, Kind::dtype);
}

// The two forms give few tensors other names.
TEST_F(DiffTest, LayoutsThatShareMostNamesAreFoundWithOneRecord) {
  source_ = copy_fixture("deepseek4", dir_ / "deepseek4");
  PlanOptions options = small_options();
  options.meshes.clear();
  options.mapping.options["routers"] = "collections";
  const std::string known = convert_to("known", options);
  options.mapping.options["routers"] = "params";
  const std::string unknown = convert_to("unknown", options);
  std::remove((unknown + "/0/hfshard.json").c_str());
  for (const DiffResult& found : {compare(known, unknown), compare(unknown, known)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_FALSE(found.through.empty());
  }
}

TEST_F(DiffTest, CodesAreDecodedOnTheSideThatHasThem) {
  source_ = copy_fixture("qwen3-moe-fp8", dir_ / "coded");
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.mapping.dtype = DType::bf16;
  const std::string tree = convert_to("tree", options);
  for (const auto& [a, b, note] :
       {std::tuple(source_, tree, "A is decoded"), std::tuple(tree, source_, "B is decoded")}) {
    const DiffResult found = compare(a, b);
    EXPECT_TRUE(found.equal());
    EXPECT_TRUE(says(found, note));
  }
}

// Experts are stored one by one in the files, and together by modules.
TEST_F(DiffTest, AnElementOfAJoinedArrayHasThePlaceOfItsOwnTensor) {
  source_ = copy_fixture("qwen3-moe", dir_ / "experts");
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.mapping.dialect = "modules";
  const std::string modules = convert_to("modules", options);
  for (const char* projection : {"gate_proj", "up_proj"}) {
    const std::string name = fmt::format("model.layers.1.mlp.experts.2.{}.weight", projection);
    InspectOptions asked;
    asked.filter = name;
    const InspectReport seen = inspect(source_, asked, quiet_);
    const StoredArray& array = seen.checkpoint.arrays.at(0);
    const std::string file = join_path(source_, seen.checkpoint.files.at(array.file).name);
    const std::uint64_t at = array.begin_bytes + (3 * array.shape[1] + 5) * 2;
    flip(file, at);
    const DiffResult found = compare(source_, modules);
    ASSERT_EQ(found.differing_elements, 1U);
    const TensorDiff* item = find(found, "model.layers.1.mlp.experts.gate_up_proj");
    ASSERT_TRUE(item != nullptr && item->values);
    EXPECT_EQ(item->values->a.tensor, name);
    EXPECT_EQ(item->values->a.index, (Shape{3, 5}));
    EXPECT_EQ(item->values->a.byte, at);
    flip(file, at);
  }
}

TEST_F(DiffTest, AConfigThatIsNoObjectDescribesNoCodes) {
  for (const char* name : {"a", "b"}) {
    write_text(dir_ / (std::string(name) + "/model.safetensors"),
               SafetensorsBuilder().tensor("x", DType::u8, {4}).build());
    write_text(dir_ / (std::string(name) + "/config.json"), "[]");
  }
  EXPECT_TRUE(compare(dir_ / "a", dir_ / "b").equal());
}

// A part of a tree doesn't have to contain the step.
TEST_F(DiffTest, OnlyAStepThatATreeHasIsLeftOut) {
  const std::string tree = convert_to("tree");
  PlanOptions part;
  part.mapping.scheme = "hf";
  part.mapping.include = {"params.*"};
  part.tree.same = true;
  hfshard::convert(tree, part, run_to("part"), quiet_);
  const std::string made = dir_ / "part";
  for (const DiffResult& found :
       {compare(made, made + "/0/items"), compare(made + "/0/items", made)}) {
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.compared_tensors, found.a.tensors);
    EXPECT_EQ(found.notes, std::vector<std::string>());
  }
}

TEST_F(DiffTest, DecodedCodesWithOtherNamesAreComparedAsOneModel) {
  const std::string coded = copy_fixture("qwen3-moe-fp8", dir_ / "coded");
  source_ = coded;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  options.mapping.dtype = DType::bf16;
  const std::string plain = convert_to("plain", options);
  EXPECT_EQ(compare(coded, plain).through, "A is decoded");
  EXPECT_EQ(compare(plain, coded).through, "B is decoded");
  options.mapping.dialect = "modules";
  const std::string modules = convert_to("modules", options);
  EXPECT_TRUE(compare(coded, modules).equal());
  EXPECT_TRUE(compare(modules, coded).equal());

  add_zeros(plain + "/model.safetensors", "zeros.of.a.tune");
  const Error error = catch_error([&] { compare(coded, plain); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "zeros.of.a.tune");
  EXPECT_EQ(error.hint_text(), "pass --exclude zeros.of.a.tune to compare without it");
}

TEST_F(DiffTest, CodesWithWrongScalesAreAnError) {
  const auto write = [&](const std::string& name, const std::string& more, DType dtype) {
    SafetensorsBuilder builder;
    builder.tensor("w.weight", dtype, {4, 4});
    if (dtype != DType::bf16) builder.tensor("w.weight_scale_inv", DType::f32, {3, 3});
    write_text(dir_ / (name + "/model.safetensors"), builder.build());
    write_text(dir_ / (name + "/config.json"), R"({"model_type": "nobody")" + more + "}");
    return dir_ / name;
  };
  const std::string coded = write(
      "coded", R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]})",
      DType::f8_e4m3);
  const Error error = catch_error([&] { compare(coded, write("plain", "", DType::bf16)); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), R"(expected 1 scales for "w.weight" (4x4), found 3x3)");
}
// The error is about a shape, so leaving out the other tensor wouldn't help.
TEST_F(DiffTest, AnErrorOfATensorWithARuleKeepsItsHint) {
  source_ = copy_fixture("qwen3-untied", dir_ / "untied");
  const std::string tree = convert_to("tree");
  const std::string file = source_ + "/model.safetensors";
  add_zeros(file, "zeros.of.a.tune");
  edit_header(file, [](Json& header) {
    Json::Array& shape = header["model.norm.weight"]["shape"].array();
    shape.insert(shape.begin(), Json(std::uint64_t{1}));
  });
  const Error error = catch_error([&] { compare(source_, tree); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "model.norm.weight");
  EXPECT_EQ(error.hint_text().find("--exclude zeros"), std::string::npos) << error.hint_text();
}

// The model can be either side.
TEST_F(DiffTest, AModelWithoutAConfigIsComparedWithATreeByNames) {
  source_ = copy_fixture("qwen3-untied", dir_ / "untied");
  const std::string tree = convert_to("tree");
  const std::string bare = dir_ / "bare.safetensors";
  std::filesystem::copy_file(source_ + "/model.safetensors", bare);
  for (const DiffResult& found : {compare(bare, tree), compare(tree, bare)}) {
    EXPECT_EQ(found.compared_tensors, 0U);
    EXPECT_EQ(found.through, "");
    EXPECT_TRUE(says(found, "--config DIR"));
  }
}

// Each revision in the cache is named once.
TEST_F(DiffTest, TwoRevisionsOfAModelAreBothNamed) {
  const std::string folder = dir_ / "cache/models--org--name";
  const std::string commits[] = {std::string(40, 'c'), std::string(40, 'd')};
  for (const std::string& commit : commits)
    copy_fixture("qwen3", join_path(folder, "snapshots/" + commit));
  std::vector<std::string> notes;
  const auto revision = [&](const std::string& commit) {
    SourceName out("hf://org/name");
    out.revision = commit;
    out.hub.offline = true;
    out.hub.cache_directory = dir_ / "cache";
    out.hub.note = [&](const std::string& note) { notes.push_back(note); };
    return out;
  };
  const auto note_of = [](const std::string& commit) {
    return fmt::format("reading commit {} of org/name from the cache", commit);
  };
  const auto compare_revisions = [&](const std::string& a, const std::string& b) {
    notes.clear();
    return diff(revision(a), revision(b), {}, run_to(""), quiet_).equal();
  };
  EXPECT_TRUE(compare_revisions(commits[0], commits[1]));
  EXPECT_EQ(notes, (std::vector{note_of(commits[0]), note_of(commits[1])}));
  EXPECT_TRUE(compare_revisions(commits[1], commits[1]));
  EXPECT_EQ(notes, (std::vector{note_of(commits[1])}));
}

TEST(AddNotes, NotesOfTheTreeItselfAreNotRepeated) {
  Catalog catalog;
  catalog.notes = {"known"};
  DiffSide tree;
  tree.checkpoint = checkpoint_of(catalog);
  catalog.notes.emplace_back("more");
  SidesTogether out;
  add_notes(*checkpoint_of(catalog), tree, "B", out);
  EXPECT_EQ(out.notes, std::vector<std::string>{"B: more"});
}

}  // namespace
}  // namespace hfshard
