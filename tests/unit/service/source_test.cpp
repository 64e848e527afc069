// Tests the sources that convert and link accept.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/mapping/families.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class SourceTest : public testing::Test {
 protected:
  ConvertReport convert_from(const std::string& source, const std::string& out) {
    QuietReporter reporter;
    const Limits limits = small_limits();
    RunOptions run = to_output(out);
    run.limits = &limits;
    return hfshard::convert(source, small_options(), run, reporter);
  }

  // Makes a DCP with the names of the model's files and without a config, as torch saves it.
  std::string saved_by_torch() { return saved_by_torch(source_); }
  std::string saved_by_torch(const std::string& source) {
    const std::string tree = source + "-tree";
    const Limits limits = small_limits();
    QuietReporter reporter;
    PlanOptions options;
    options.target = "dcp";
    options.mapping.scheme = "hf";
    RunOptions run = to_output(tree);
    run.limits = &limits;
    hfshard::convert(source, options, run, reporter);
    for (const char* name : {"hfshard.json", "config.json"})
      std::filesystem::remove(tree + "/" + name);
    return tree;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

TEST_F(SourceTest, ACheckpointOfAnotherFormatIsNotLinked) {
  convert_from(source_, dir_ / "out");
  QuietReporter reporter;
  const Limits limits = small_limits();
  RunOptions run = to_output(dir_ / "again");
  run.limits = &limits;
  for (const std::string& place : {dir_ / "out", dir_ / "out/0", dir_ / "out/0/items"}) {
    const Error error = catch_error([&] { link(place, small_options(), {}, run, reporter); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << place;
    EXPECT_EQ(error.file(), place);
    EXPECT_NE(error.sentence().find("format orbax"), std::string::npos) << error.sentence();
    EXPECT_FALSE(exists(dir_ / "again"));
  }
}

// The source can be any of its directories, and goes through the model. Another program's
// checkpoint needs a config.
TEST_F(SourceTest, ACheckpointBecomesWhatItsModelWould) {
  convert_from(source_, dir_ / "out");
  int number = 0;
  for (const std::string& place : {dir_ / "out", dir_ / "out/0"}) {
    const std::string again = dir_ / ("again" + std::to_string(number++));
    PlanOptions options = small_options();
    options.mapping.stacked = false;
    const Limits limits = small_limits();
    QuietReporter reporter;
    for (const auto& [from, to] :
         {std::pair{source_, again + "-direct"}, std::pair{place, again}}) {
      RunOptions run = to_output(to);
      run.limits = &limits;
      hfshard::convert(from, options, run, reporter);
    }
    const DiffResult found = diff(again + "-direct", again, {}, {}, reporter);
    EXPECT_TRUE(found.equal());
    EXPECT_GT(found.compared_tensors, 10U);
    const Error error = catch_error([&] { convert_from(place, dir_ / "other"); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(error.hint_text().find("reshard"), std::string::npos) << error.hint_text();
  }
  std::filesystem::remove(dir_ / "out/0/hfshard.json");
  const Error error = catch_error([&] { convert_from(dir_ / "out", dir_ / "other"); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(error.hint_text().find("--config"), std::string::npos) << error.hint_text();
  EXPECT_FALSE(exists(dir_ / "other"));
}

// An index in place makes the directory a checkpoint of both formats. It stays a source.
TEST_F(SourceTest, ADirectoryWithAnIndexInPlaceIsStillASource) {
  const std::string before = convert_from(source_, dir_ / "one").run.root_digest;
  QuietReporter reporter;
  const Limits limits = small_limits();
  RunOptions run;
  run.limits = &limits;
  PlanOptions options;
  options.mapping.scheme = "hf";
  link(source_, options, {.in_place = true}, run, reporter);
  ASSERT_TRUE(exists(join_path(source_, "manifest.ocdbt")));
  EXPECT_EQ(convert_from(source_, dir_ / "two").run.root_digest, before);
}

TEST_F(SourceTest, AFileAboutCodesStaysBehindIfTheOutputHasNone) {
  for (const char* name : {"quantize_config.json", "tokenizer.json"})
    write_text(join_path(source_, name), "{}");
  const ConvertReport report = convert_from(source_, dir_ / "out");
  const std::string note = "not copied, since the output has no codes: \"quantize_config.json\"";
  EXPECT_NE(std::ranges::find(report.plan.notes, note), report.plan.notes.end());
  EXPECT_TRUE(exists(dir_ / "out/hf/tokenizer.json"));
  EXPECT_FALSE(exists(dir_ / "out/hf/quantize_config.json"));
}

// If a config counts MTP layers, vLLM and others look for their tensors.
TEST_F(SourceTest, AModelThatComesBackCountsTheMtpLayersThatItHas) {
  const std::string model = copy_fixture("deepseek3-mtp", dir_ / "model");
  const auto back_of = [&](const std::string& out, bool with_mtp, bool recorded) {
    PlanOptions options = small_options();
    if (with_mtp) options.mapping.options["mtp"] = "true";
    const Limits limits = small_limits();
    QuietReporter reporter;
    RunOptions run = to_output(dir_ / out);
    run.limits = &limits;
    hfshard::convert(model, options, run, reporter);
    PlanOptions back;
    back.target = "safetensors";
    back.mapping.scheme = "hf";
    if (with_mtp) back.mapping.options["mtp"] = "true";
    if (!recorded) {
      std::filesystem::remove(dir_ / (out + "/0/hfshard.json"));
      back.tree.config_name = join_path(model, "config.json");
      back.tree.config_text = read_file(back.tree.config_name);
    }
    run.out = dir_ / (out + "-back");
    const ConvertReport report = hfshard::convert(dir_ / out, back, run, reporter);
    const bool said = std::ranges::any_of(report.plan.notes, [](const std::string& note) {
      return note.find("num_nextn_predict_layers in config.json becomes 0") != std::string::npos;
    });
    EXPECT_EQ(said, !with_mtp);
    return read_file(join_path(run.out, "config.json"));
  };
  const std::string config = read_file(join_path(model, "config.json"));
  EXPECT_EQ(back_of("with", true, true), config);
  Json without = parse_json(config, "config.json");
  ASSERT_EQ(without.at("num_nextn_predict_layers").as_int(), 1);
  without["num_nextn_predict_layers"] = std::int64_t{0};
  EXPECT_EQ(parse_json(back_of("without", false, true), "config.json"), without);
  EXPECT_EQ(parse_json(back_of("unknown", false, false), "config.json"), without);
}

TEST_F(SourceTest, ACheckpointWithoutAConfigSaysSo) {
  const std::string tree = saved_by_torch();
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  const auto says = [&] {
    const PlanReport report = hfshard::plan(tree, back, to_output({}));
    return std::ranges::any_of(report.summary.warnings, [](const std::string& note) {
      return note.find("no config.json") != std::string::npos;
    });
  };
  EXPECT_TRUE(says());
  back.tree.config_name = join_path(source_, "config.json");
  back.tree.config_text = read_file(back.tree.config_name);
  EXPECT_FALSE(says());
}

// Stops a run as soon as it has committed something.
class StopsSoon final : public Reporter {
 public:
  void advanced(std::uint64_t /*bytes*/) override { stop_ = true; }
  const std::atomic<bool>* stop() const { return &stop_; }

 private:
  std::atomic<bool> stop_ = false;
};

// A tree has many files. Its record has the inode of each.
TEST_F(SourceTest, AStoppedExportGoesOnUnlessAFileOfTheTreeChanged) {
  convert_from(source_, dir_ / "tree");
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  Limits limits = small_limits();
  limits.merge_bytes = limits.commit_bytes = std::uint64_t{4} << 10;
  QuietReporter quiet;
  RunOptions run = to_output(dir_ / "back");
  run.limits = &limits;
  run.jobs = 1;
  const auto stopped = [&] {
    StopsSoon soon;
    RunOptions first = run;
    first.stop = soon.stop();
    return catch_error([&] { hfshard::convert(dir_ / "tree", back, first, soon); }).code();
  };
  run.resume = true;
  EXPECT_EQ(stopped(), ErrorCode::cancelled);
  const ConvertReport report = hfshard::convert(dir_ / "tree", back, run, quiet);
  EXPECT_TRUE(report.run.published);
  EXPECT_GT(report.run.skipped_bytes, 0U);

  run.out = dir_ / "other";
  EXPECT_EQ(stopped(), ErrorCode::cancelled);
  const std::string data = dir_ / "tree/0/items/d/00000";
  write_text(data + ".new", read_file(data));
  std::filesystem::rename(data + ".new", data);
  const Error changed = catch_error([&] { hfshard::convert(dir_ / "tree", back, run, quiet); });
  EXPECT_EQ(changed.code(), ErrorCode::conflict) << changed.format();
}

TEST_F(SourceTest, AConfigSaysHowLargeArraysWithTheModelsNamesAre) {
  const std::string tree = saved_by_torch();
  const Limits limits = small_limits();
  QuietReporter reporter;
  PlanOptions anew;
  anew.target = "dcp";
  anew.mapping.scheme = "hf";
  anew.tree.same = true;
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  const std::string own = join_path(source_, "config.json");
  Json other = parse_json(read_file(own), own);
  other["vocab_size"] = other.at("vocab_size").as_int() + 1;
  const std::string text = dump_json(other);
  for (PlanOptions* options : {&anew, &back}) {
    options->tree.config_name = "config.json";
    options->tree.config_text = text;
    const auto made = [&] {
      RunOptions again = to_output(dir_ / (options == &anew ? "anew" : "back"));
      again.limits = &limits;
      return hfshard::convert(tree, *options, again, reporter);
    };
    const Error error = catch_error(made);
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(error.tensor().find("weight"), std::string::npos) << error.format();
    options->tree.config_text = read_file(own);
    EXPECT_TRUE(made().run.published);
  }
}

// Torch has these experts in another order than the files have. A tree can have either order.
TEST_F(SourceTest, ExpertsOfATreeGetTheOrderOfTheFiles) {
  QuietReporter reporter;
  for (const char* fixture : {"qwen3-vl-moe", "qwen3-vl-moe-out-in"}) {
    const std::string model = copy_fixture(fixture, dir_ / fixture);
    PlanOptions back;
    back.target = "safetensors";
    back.mapping.scheme = "hf";
    back.tree.config_name = join_path(model, "config.json");
    back.tree.config_text = read_file(back.tree.config_name);
    const std::string out = dir_ / (std::string(fixture) + "-back");
    hfshard::convert(saved_by_torch(model), back, to_output(out), reporter);
    EXPECT_TRUE(diff(model, out, {}, {}, reporter).equal()) << fixture;
    const Json config = parse_json(*back.tree.config_text, "config.json");
    for (const StoredArray& array : inspect(out, {}, reporter).checkpoint.arrays) {
      if (!array.name.ends_with("experts.gate_up_proj")) continue;
      EXPECT_EQ(array.shape[1], config.at("text_config").at("hidden_size").as_uint()) << fixture;
    }
  }
}

// Globs are names below the root.
TEST_F(SourceTest, AnArrayThatCannotBeReadIsExcludedByName) {
  TorchCheckpoint torch;
  for (const char* name : {"model.odd", "model.w"})
    torch.tensor(name, name == std::string("model.odd") ? DType::f64 : DType::u8, {8})
        .part({0}, {8}, std::string(64, 'x'), false);
  torch.write(dir_ / "torch");
  const std::string metadata = dir_ / "torch/.metadata";
  std::string text = read_file(metadata);
  text.replace(text.find("float64"), 7, "octuple");
  write_text(metadata, text);
  QuietReporter reporter;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const auto made = [&](const std::string& out) {
    return hfshard::convert(dir_ / "torch", options, to_output(dir_ / out), reporter);
  };
  const Error error = catch_error([&] { made("all"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.format();
  EXPECT_EQ(error.tensor(), "model.odd");
  options.mapping.exclude = {"model.odd"};
  EXPECT_EQ(made("whole").plan.leaves, 1U);
  options.tree.root = "model";
  options.mapping.exclude = {"odd"};
  EXPECT_EQ(made("below").plan.leaves, 1U);
}

// They aren't the checkpoint's own leaves.
TEST_F(SourceTest, ACheckpointBecomesOneOfItsSchemeWithOtherDtypes) {
  convert_from(source_, dir_ / "out");
  QuietReporter reporter;
  PlanOptions wide = small_options();
  wide.mapping.dtype = DType::f32;
  const ConvertReport cast =
      hfshard::convert(dir_ / "out", wide, to_output(dir_ / "wide"), reporter);
  EXPECT_TRUE(cast.run.published);
  for (const StoredArray& array : inspect(dir_ / "wide", {}, reporter).checkpoint.arrays) {
    EXPECT_EQ(array.dtype == DType::f32, array.name != "step") << array.name;
  }
}

TEST_F(SourceTest, AFileThatIsntATreeIsNotResharded) {
  write_text(dir_ / "notes.txt", "no tree");
  PlanOptions options;
  options.tree.same = true;
  QuietReporter reporter;
  const Error error = catch_error(
      [&] { hfshard::convert(dir_ / "notes.txt", options, to_output(dir_ / "again"), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "reshard can't read this checkpoint");
}

// The tree has the model's names with a prefix, as a trainer's module saves them.
TEST_F(SourceTest, APrefixOfATreeIsRemovedOnTheWayToAnotherScheme) {
  QuietReporter reporter;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  options.mapping.prefix = "net.";
  hfshard::convert(source_, options, to_output(dir_ / "torch"), reporter);
  for (const char* name : {"hfshard.json", "config.json"})
    std::filesystem::remove(dir_ / (std::string("torch/") + name));
  PlanOptions onward = small_options();
  onward.mapping.prefix = "net.";
  onward.tree.config_name = join_path(source_, "config.json");
  onward.tree.config_text = read_file(onward.tree.config_name);
  hfshard::convert(dir_ / "torch", onward, to_output(dir_ / "maxtext"), reporter);
  convert_from(source_, dir_ / "direct");
  const DiffResult same = diff(dir_ / "direct", dir_ / "maxtext", {}, {}, reporter);
  EXPECT_TRUE(same.equal());
  EXPECT_GT(same.compared_tensors, 10U);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  hfshard::convert(dir_ / "maxtext", back, to_output(dir_ / "back"), reporter);
  EXPECT_TRUE(diff(source_, dir_ / "back", {}, {}, reporter).equal());
}

TEST_F(SourceTest, AReshardToAModelsFilesNamesTheCommandThatKnowsTheModel) {
  convert_from(source_, dir_ / "out");
  QuietReporter reporter;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  options.tree.same = true;
  const auto says = [&](const std::string& end) {
    const PlanReport report = hfshard::plan(dir_ / "out", options, to_output({}));
    return std::ranges::any_of(report.summary.warnings, [&](const std::string& text) {
      return text.ends_with("run hfshard convert SOURCE OUT --to safetensors" + end);
    });
  };
  EXPECT_TRUE(says(""));
  std::filesystem::remove(dir_ / "out/0/hfshard.json");
  EXPECT_TRUE(says(" --config DIR"));
}

TEST_F(SourceTest, AModelWithAPrefixIsCheckedUnderItsOwnNames) {
  SafetensorsBuilder files;
  for (const TensorInfo& info : open_catalog(source_).tensors)
    files.tensor("net." + info.name, info.dtype, info.shape);
  const std::string model = dir_ / "prefixed";
  write_text(model + "/config.json", read_file(source_ + "/config.json"));
  files.write(model + "/model.safetensors");
  MappingOptions options;
  options.prefix = "net.";
  EXPECT_TRUE(check_mapping(model, options, {}).problems.empty());
}

TEST_F(SourceTest, OnlyJsonFilesOfADirectoryAreMappings) {
  const std::string text(family_by_name("qwen3").text);
  write_text(dir_ / "maps/a.json", text);
  write_text(dir_ / "maps/b.json.old", text);
  const std::vector<MappingFile> found = read_mappings({}, dir_ / "maps");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, dir_ / "maps/a.json");
}

TEST_F(SourceTest, ATreeOfTorchtitanIsSplitByTheDefaultRules) {
  QuietReporter reporter;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "torchtitan";
  hfshard::convert(source_, options, to_output(dir_ / "titan"), reporter);
  InspectOptions asked;
  asked.load_meshes = {"fsdp=2"};
  const LoadReport found = inspect(dir_ / "titan", asked, reporter).loads.at(0);
  EXPECT_EQ(found.hosts.size(), 2U);
}

// Less than 8 times the data is on disk.
TEST_F(SourceTest, AFewTimesTheDataAsPaddingIsAllowed) {
  ExampleOptions example;
  example.family = "qwen3";
  example.out = dir_ / "large";
  example.sparse = true;
  Json config = family_info("qwen3").example;
  config["vocab_size"] = (std::uint64_t{32} << 20) / config.at("hidden_size").as_uint();
  example.config_text = dump_json(config);
  QuietReporter reporter;
  write_example(example, reporter);
  PlanOptions options;
  options.chunk_bytes = 1024;
  const PlanReport report = hfshard::plan(example.out, options, to_output({}));
  EXPECT_GT(report.summary.output_bytes, std::uint64_t{256} << 20);
  EXPECT_TRUE(report.summary.warnings.empty());
}

TEST_F(SourceTest, ATreeOfATiedModelIsExportedUntied) {
  const std::string model = copy_fixture("qwen3-untied", dir_ / "model");
  Json tied = parse_json(read_file(model + "/config.json"), "config.json");
  tied["tie_word_embeddings"] = true;
  write_text(model + "/config.json", dump_json(tied));
  QuietReporter reporter;
  PlanOptions untie = small_options();
  untie.mapping.untie = true;
  hfshard::convert(model, untie, to_output(dir_ / "tree"), reporter);
  untie.mapping.stacked = false;
  hfshard::convert(dir_ / "tree", untie, to_output(dir_ / "other"), reporter);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  back.mapping.untie = true;
  for (const char* from : {"tree", "other"}) {
    const std::string out = dir_ / (std::string(from) + "-back");
    hfshard::convert(dir_ / from, back, to_output(out), reporter);
    const Json config = parse_json(read_file(out + "/config.json"), "config.json");
    EXPECT_EQ(config.at("tie_word_embeddings"), Json(false)) << from;
    EXPECT_TRUE(open_catalog(out).find("lm_head.weight")) << from;
    EXPECT_EQ(open_catalog(out).tensors.size(), open_catalog(model).tensors.size()) << from;
  }
}

TEST_F(SourceTest, APartOfATreeOfCodesLacksWhatItsRecordNames) {
  const std::string model = copy_fixture("qwen3-moe-fp8", dir_ / "model");
  QuietReporter reporter;
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  hfshard::convert(model, options, to_output(dir_ / "codes"), reporter);
  options.tree.same = true;
  options.mapping.include = {"lm_head.weight"};
  hfshard::convert(dir_ / "codes", options, to_output(dir_ / "part"), reporter);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  const Error error = catch_error([&] { hfshard::plan(dir_ / "part", back, to_output({})); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
}

// The index and the config would name tensors that the output doesn't have.
TEST_F(SourceTest, OneFileOfAModelIsWrittenWithoutTheFilesOfTheWhole) {
  QuietReporter reporter;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const std::string file = source_ + "/model-00001-of-00002.safetensors";
  options.tree.config_name = dir_ / "other/config.json";
  options.tree.config_text = R"({"another": 1,)" + read_file(source_ + "/config.json").substr(1);
  write_text(options.tree.config_name, *options.tree.config_text);
  const ConvertReport report = hfshard::convert(file, options, to_output(dir_ / "out"), reporter);
  EXPECT_EQ(list_directory(dir_ / "out"),
            (std::vector<std::string>{"hfshard.json", "model.safetensors"}));
  ASSERT_FALSE(report.plan.warnings.empty());
  EXPECT_TRUE(report.plan.warnings[0].starts_with("the output is a part of the model: "))
      << report.plan.warnings[0];
}

TEST_F(SourceTest, OnlyNamesOfTheModelHaveAPrefixToRemove) {
  convert_from(source_, dir_ / "out");
  PlanOptions onward;
  onward.target = "dcp";
  onward.mapping.scheme = "torchtitan";
  onward.mapping.prefix = "net.";
  const Error error = catch_error([&] { hfshard::plan(dir_ / "out", onward, to_output({})); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--prefix requires --scheme hf, which keeps the model's own names");
}

}  // namespace
}  // namespace hfshard
