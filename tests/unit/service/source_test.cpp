// Tests the sources that convert and link accept.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
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

}  // namespace
}  // namespace hfshard
