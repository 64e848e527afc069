#include "service/recorded.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Converts the qwen3 example in dir/source to a directory of torchtitan, dir/out.
void write_torchtitan(const TempDir& dir) {
  Reporter quiet;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "torchtitan";
  hfshard::convert(copy_fixture("qwen3", dir / "source"), options, to_output(dir / "out"), quiet);
}

TEST(RecordedBelow, ARecordSpeaksOfTheWholeTree) {
  const TempDir dir;
  Reporter quiet;
  hfshard::convert(copy_fixture("qwen3", dir / "source"), {}, to_output(dir / "out"), quiet);
  const StorePath step(dir / "out/0");
  EXPECT_TRUE(recorded_below(step, ""));
  EXPECT_FALSE(recorded_below(step, "params"));
}

TEST(RecordedAt, TheConfigOfTheStepComesBeforeTheOneNextToIt) {
  const TempDir dir;
  write_torchtitan(dir);
  write_text(dir / "hf/config.json", "{}");
  EXPECT_EQ(recorded_at(dir / "out")->model_files, dir / "out");
  std::filesystem::remove(dir / "out/config.json");
  EXPECT_EQ(recorded_at(dir / "out")->model_files, dir / "hf");
}

// Adds a number with two dimensions to a safetensors file.
void add_number(const std::string& path, const std::string& name) {
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  Json header = parse_json(bytes.substr(8, length), path);
  const std::uint64_t end = bytes.size() - 8 - length;
  header[name] = parse_json(
      fmt::format(R"({{"dtype": "F32", "shape": [1, 1], "data_offsets": [{}, {}]}})", end, end + 4),
      path);
  write_text(path, SafetensorsBuilder().raw_header(dump_json(header)).build() +
                       bytes.substr(8 + length) + std::string("\0\0\x80\x3f", 4));
}

// Returns the note of an export about tensors that were left out earlier.
std::string note_of_export(const std::string& tree, const PlanOptions& options) {
  for (const std::string& note : hfshard::plan(tree, options, to_output({})).summary.notes)
    if (note.starts_with("not in this checkpoint")) return note;
  return {};
}

TEST(CompileRecorded, TensorsThatWereLeftOutAreNamedWithTheirScalesUnlessTheyAreExcluded) {
  const TempDir dir;
  const std::string model = copy_fixture("deepseek3-fp8", dir / "model");
  add_number(model + "/model.safetensors", "model.layers.2.eh_proj.weight_scale_inv");
  Reporter quiet;
  hfshard::convert(model, {}, to_output(dir / "tree"), quiet);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  const std::string note = "not in this checkpoint, because they were left out when it was made: ";
  EXPECT_EQ(note_of_export(dir / "tree", back),
            note +
                "4 of 87 tensors (model.layers.2.eh_proj.weight, "
                "model.layers.2.eh_proj.weight_scale_inv, model.layers.2.embed_tokens.weight, "
                "...)");
  back.mapping.exclude = {"*embed*"};
  EXPECT_EQ(note_of_export(dir / "tree", back),
            note +
                "3 of 87 tensors (model.layers.2.eh_proj.weight, "
                "model.layers.2.eh_proj.weight_scale_inv, model.layers.2.enorm.weight)");
}

// Otherwise an export would have another config than its tensors.
TEST(RecordedConfig, AConfigThatWasChangedIsNotTaken) {
  const TempDir dir;
  Reporter quiet;
  hfshard::convert(copy_fixture("qwen3", dir / "source"), {}, to_output(dir / "out"), quiet);
  const auto text = [&] { return recorded_config(recorded_at(dir / "out").value()); };
  EXPECT_EQ(recorded_at(dir / "out")->model_files, dir / "out/hf");
  EXPECT_EQ(text(), read_file(dir / "source/config.json"));
  const std::string config = dir / "out/hf/config.json";
  write_text(config, text() + "\n");
  const Error error = catch_error([&] { text(); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "config.json isn't the one that hfshard wrote for this checkpoint");
  EXPECT_EQ(error.file(), config);
  EXPECT_EQ(error.hint_text(), "pass --config with the model's directory; --config " +
                                   (dir / "out/hf") + " takes this file");
}

TEST(RecordedAt, AReshardOfAReshardKeepsTheRecordOfTheModel) {
  const TempDir dir;
  Reporter quiet;
  PlanOptions options;
  options.target = "dcp";
  hfshard::convert(copy_fixture("qwen3", dir / "source"), options, to_output(dir / "a"), quiet);
  options.mapping.scheme = "hf";
  options.tree.same = true;
  options.mapping.dtype = DType::f32;
  hfshard::convert(dir / "a", options, to_output(dir / "b"), quiet);
  options.mapping.dtype.reset();
  hfshard::convert(dir / "b", options, to_output(dir / "c"), quiet);
  EXPECT_FALSE(exists(dir / "a/hfshard.origin.json"));
  const std::string record = read_file(dir / "a/hfshard.json");
  for (const char* out : {"b", "c"}) {
    EXPECT_EQ(read_file(dir / (std::string(out) + "/hfshard.origin.json")), record) << out;
    const Recorded found = recorded_at(dir / out).value();
    EXPECT_EQ(found.origin_path, dir / (std::string(out) + "/hfshard.origin.json"));
    EXPECT_EQ(found.tree->leaves.front().dtype, DType::f32) << out;
    EXPECT_EQ(found.origin.model->leaves.front().dtype, DType::bf16) << out;
    EXPECT_EQ(mapping_of(found).scheme, "maxtext") << out;
    EXPECT_EQ(recorded_mapping(dir / out)->scheme, "maxtext") << out;
  }
  EXPECT_FALSE(recorded_mapping(dir / "source"));
}

// The model's files are among those of the step.
TEST(RecordedConfig, AChangedConfigOfACheckpointWithoutStepsIsNotTaken) {
  const TempDir dir;
  write_torchtitan(dir);
  const auto text = [&] { return recorded_config(recorded_at(dir / "out").value()); };
  EXPECT_EQ(text(), read_file(dir / "source/config.json"));
  write_text(dir / "out/config.json", text() + "\n");
  EXPECT_EQ(catch_error([&] { text(); }).code(), ErrorCode::conflict);
}

TEST(ModelDirectory, AFileIsInItAndADirectoryIsIt) {
  const TempDir dir;
  write_text(dir / "model/a.safetensors", "");
  EXPECT_EQ(model_directory(dir / "model").name(), dir / "model");
  EXPECT_EQ(model_directory(dir / "model/a.safetensors").name(), dir / "model");
}

TEST(RecordedDialect, OnlyFilesThatHfshardWroteWithADialectHaveOne) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3-moe-fp8", dir / "source");
  Reporter quiet;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  hfshard::convert(source, options, to_output(dir / "plain"), quiet);
  options.mapping.dialect = "modules";
  hfshard::convert(source, options, to_output(dir / "modules"), quiet);
  options.target = "dcp";
  hfshard::convert(source, options, to_output(dir / "tree"), quiet);
  EXPECT_EQ(recorded_dialect(dir / "modules"), "modules");
  EXPECT_EQ(recorded_dialect(dir / "modules/model.safetensors"), "modules");
  EXPECT_EQ(recorded_dialect(dir / "plain"), "");
  EXPECT_EQ(recorded_dialect(dir / "tree"), "") << "a tree";
  EXPECT_EQ(recorded_dialect(dir / "source"), "");
  PlanOptions same;
  same.target = "safetensors";
  same.mapping.scheme = "hf";
  same.tree.same = true;
  hfshard::convert(dir / "tree", same, to_output(dir / "same"), quiet);
  EXPECT_EQ(recorded_dialect(dir / "same"), "modules") << "the tree's origin says it";
}

// Arrays with the model's own names are still codes.
TEST(CompileRecorded, ACastOfAnExportDecodesTheCodesOfATree) {
  const TempDir dir;
  Reporter quiet;
  PlanOptions torch;
  torch.target = "dcp";
  torch.mapping.scheme = "hf";
  hfshard::convert(copy_fixture("qwen3-moe-fp8", dir / "model"), torch, to_output(dir / "tree"),
                   quiet);
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const auto dtype = [&](const std::string& place, const std::string& array) {
    const Catalog catalog = open_catalog(place);
    const auto found = catalog.find(array);
    return found ? std::optional(catalog.tensors[*found].dtype) : std::nullopt;
  };
  ASSERT_EQ(dtype(dir / "model", name), DType::f8_e4m3);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  hfshard::convert(dir / "tree", back, to_output(dir / "same"), quiet);
  EXPECT_EQ(dtype(dir / "same", name), DType::f8_e4m3);
  EXPECT_TRUE(dtype(dir / "same", name + "_scale_inv"));
  back.mapping.casts = {{name, DType::f32}};
  hfshard::convert(dir / "tree", back, to_output(dir / "cast"), quiet);
  EXPECT_EQ(dtype(dir / "cast", name), DType::f32);
  EXPECT_FALSE(dtype(dir / "cast", name + "_scale_inv"));
  EXPECT_EQ(dtype(dir / "cast", "model.layers.0.self_attn.k_proj.weight"), DType::f8_e4m3);
  back.mapping.casts.clear();
  back.mapping.dtype = DType::bf16;
  hfshard::convert(dir / "tree", back, to_output(dir / "values"), quiet);
  EXPECT_EQ(dtype(dir / "values", name), DType::bf16);
  EXPECT_FALSE(dtype(dir / "values", name + "_scale_inv"));
}

}  // namespace
}  // namespace hfshard
