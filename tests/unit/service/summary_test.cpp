#include "service/summary.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "mapping/resolve/find.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/as_stored.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;

PlanSummary summary_of(const std::string& source, const PlanOptions& options) {
  return hfshard::plan(source, options, to_output({})).summary;
}

TEST(Summary, ObjectsAreAFileMoreAndTheirBytesAreOutput) {
  const TempDir dir;
  TorchCheckpoint torch;
  torch.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  torch.object("epoch", "seven b");
  torch.object("rate", "five.");
  torch.write(dir.path());
  PlanOptions options = as_stored("dcp");
  options.tree.same = true;
  const PlanSummary both = summary_of(dir.path(), options);
  EXPECT_EQ(both.objects, 2U);
  EXPECT_TRUE(both.drops.empty());
  options.mapping.exclude = {"rate"};
  const PlanSummary one = summary_of(dir.path(), options);
  EXPECT_EQ(one.objects, 1U);
  EXPECT_EQ(both.output_bytes - one.output_bytes, 5U);
  EXPECT_EQ(both.files, one.files);
  options.mapping.exclude = {"rate", "epoch"};
  const PlanSummary none = summary_of(dir.path(), options);
  EXPECT_EQ(none.objects, 0U);
  EXPECT_EQ(one.output_bytes - none.output_bytes, 7U);
  EXPECT_EQ(one.files, none.files + 1);
  ASSERT_EQ(none.drops.size(), 2U);
  EXPECT_EQ(none.drops[0].why, "--exclude \"epoch\"");
  EXPECT_EQ(none.drops[0].names, Texts{"epoch"});
  EXPECT_EQ(none.drops[1].names, Texts{"rate"});
}

TEST(Summary, DropsAreGroupedByTheirReason) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a.x", DType::u8, {2})
      .tensor("b.x", DType::u8, {2})
      .tensor("b.y", DType::u8, {2})
      .tensor("a.z", DType::u8, {2})
      .tensor("c", DType::u8, {3})
      .write(dir / "x.safetensors");
  PlanOptions options = as_stored("orbax");
  options.mapping.exclude = {"b.*", "a.*"};
  const PlanSummary found = summary_of(dir / "x.safetensors", options);
  ASSERT_EQ(found.drops.size(), 2U);
  EXPECT_EQ(found.drops[0].why, "--exclude \"a.*\"");
  EXPECT_EQ(found.drops[0].names, (Texts{"a.x", "a.z"}));
  EXPECT_EQ(found.drops[1].why, "--exclude \"b.*\"");
  EXPECT_EQ(found.drops[1].names, (Texts{"b.x", "b.y"}));
  EXPECT_EQ(found.dropped, 4U);
  EXPECT_EQ(found.tensors, 5U);
  EXPECT_EQ(found.source_bytes, 3U);
  EXPECT_EQ(found.source_files, 1U);
}

TEST(Summary, CastsHaveTheirBytesByPairOfDtypes) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::f32, {3})
      .tensor("b", DType::f32, {2, 2})
      .tensor("c", DType::f16, {5})
      .tensor("d", DType::bf16, {6})
      .tensor("e", DType::i32, {7})
      .write(dir / "x.safetensors");
  PlanOptions options = as_stored("orbax");
  EXPECT_TRUE(summary_of(dir / "x.safetensors", options).dtypes.empty());
  options.mapping.dtype = DType::bf16;
  options.mapping.casts = {{"b", DType::f16}};
  const PlanSummary found = summary_of(dir / "x.safetensors", options);
  Texts changes;
  for (const DTypeChange& change : found.dtypes) {
    EXPECT_FALSE(change.decoded);
    changes.push_back(change.from + " to " + change.to + ": " +
                      std::to_string(change.source_bytes) + " to " +
                      std::to_string(change.output_bytes));
  }
  EXPECT_EQ(changes,
            (Texts{"f16 to bf16: 10 to 10", "f32 to bf16: 12 to 6", "f32 to f16: 16 to 8"}));
  EXPECT_EQ(found.parameters, 18U) << "real numbers";
}

TEST(Summary, MeshesAndTheTokenizerHaveTheirPlace) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model"})
    std::filesystem::remove(source + "/" + name);
  EXPECT_FALSE(summary_of(source, options).carries_tokenizer);
  write_text(source + "/tokenizer.json", "{}");
  const PlanSummary chosen = summary_of(source, options);
  EXPECT_TRUE(chosen.carries_tokenizer);
  EXPECT_EQ(chosen.side_directory, "hf");
  EXPECT_TRUE(chosen.mesh_chosen);
  EXPECT_EQ(chosen.meshes.size(), 1U);
  EXPECT_EQ(chosen.source, source);
  EXPECT_FALSE(chosen.whole_arrays);
  options.meshes = {"fsdp=2", "tensor=2"};
  const PlanSummary asked = summary_of(source, options);
  EXPECT_FALSE(asked.mesh_chosen);
  EXPECT_EQ(asked.meshes, (Texts{"fsdp=2", "tensor=2"}));
  const PlanSummary files = summary_of(source, as_stored("safetensors"));
  EXPECT_EQ(files.side_directory, "");
  EXPECT_EQ(files.meshes, Texts());
  EXPECT_TRUE(files.whole_arrays);
  EXPECT_EQ(files.family, "hf");
  EXPECT_EQ(files.scheme, "hf");
}

// A copy with the stored names needs no family.
TEST(Summary, AConfigOfTwoFamiliesIsAWarningIfItsRulesAreUsed) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  EXPECT_EQ(summary_of(source, {}).warnings, Texts());
  Json config = parse_json(read_file(source + "/config.json"), "config.json");
  config["architectures"] = parse_json(R"(["MixtralForCausalLM"])", "");
  write_text(source + "/config.json", dump_json(config));
  const std::string doubt = config_doubt(config);
  ASSERT_NE(doubt, "");
  EXPECT_EQ(summary_of(source, {}).warnings, Texts{doubt});
  EXPECT_EQ(summary_of(source, as_stored("safetensors")).warnings, Texts());
}

TEST(Summary, ALoaderIsNamedForAWholeModelInItsFormatAlone) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  write_text(source + "/tokenizer.json", "{}");
  const auto load = [&](const std::string& target, const std::string& scheme,
                        const Texts& exclude = {}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = scheme;
    options.mapping.exclude = exclude;
    const PlanSummary found = summary_of(source, options);
    EXPECT_EQ(found.load_words.empty(), found.load_path.empty()) << target << scheme;
    EXPECT_TRUE(found.load_run.empty()) << "not a training state";
    if (found.load_path.empty()) {
      EXPECT_EQ(found.load_assets + found.load_note, "");
      EXPECT_TRUE(found.model_names.empty());
    }
    return found.load_path + " " + found.load_assets;
  };
  EXPECT_EQ(load("orbax", "maxtext"), "load_parameters_path ");
  EXPECT_EQ(load("null", "maxtext"), "load_parameters_path ");
  EXPECT_EQ(load("dcp", "maxtext"), " ");
  EXPECT_EQ(load("orbax", "maxtext", {"model.norm.weight"}), " ") << "a part";
  EXPECT_EQ(load("dcp", "torchtitan"), "--checkpoint.initial_load_path --hf_assets_path");
  EXPECT_EQ(load("orbax", "torchtitan"), " ");
  EXPECT_EQ(load("safetensors", "hf"), " ");
}

}  // namespace
}  // namespace hfshard
