// Checkpoints that are laid out again keep their arrays and names.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class AnewTest : public testing::Test {
 protected:
  RunOptions run_to(const std::string& out) const {
    RunOptions run = to_output(out);
    run.limits = &limits_;
    return run;
  }
  std::string reshard(const std::string& source, const std::string& target) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    const RunOptions run = run_to(dir_ / target);
    hfshard::convert(source, options, run, quiet_);
    return run.out;
  }

  // Reshards a tree of another program.
  ConvertReport reshard_foreign(const std::vector<std::string>& names, const std::string& target,
                                const std::string& out, const std::vector<std::string>& exclude) {
    TorchCheckpoint torch;
    for (const std::string& name : names)
      torch.tensor(name, DType::u8, {4}).part({0}, {4}, "abcd", false);
    torch.write(out + "-torch");
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.mapping.exclude = exclude;
    options.tree.same = true;
    return hfshard::convert(out + "-torch", options, run_to(out), quiet_);
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
};

TEST_F(AnewTest, NumbersOfAStateAreNamedIfTheirDtypeWouldBecomeNarrower) {
  TorchCheckpoint torch;
  torch.tensor("count", DType::f32, {}).part({}, {}, std::string(4, '\1'), false);
  torch.tensor("w", DType::f32, {2}).part({0}, {2}, std::string(8, '\1'), false);
  torch.write(dir_ / "state");
  const auto noted = [&](DType dtype) {
    PlanOptions options;
    options.target = "orbax";
    options.mapping.scheme = "hf";
    options.mapping.dtype = dtype;
    options.tree.same = true;
    const RunOptions run = run_to(dir_ / std::string(to_string(dtype)));
    const auto notes = hfshard::convert(dir_ / "state", options, run, quiet_).plan.notes;
    return std::ranges::count(notes, "numbers keep their dtype: \"count\"");
  };
  EXPECT_EQ(noted(DType::bf16), 1);
  EXPECT_EQ(noted(DType::f32), 0);
}

// Orbax can hold both names, because a key of a tree can have a dot.
TEST_F(AnewTest, ANameCanBeginWithTheNameOfAnotherArray) {
  const std::string bytes(16, '\1');
  TorchCheckpoint torch;
  for (const char* name : {"a", "a.b"})
    torch.tensor(name, DType::u8, {16}).part({0}, {16}, bytes, false);
  torch.write(dir_ / "torch");
  const std::string tree = reshard(dir_ / "torch", "orbax");
  const DiffResult found = diff(dir_ / "torch", tree, {}, run_to(""), quiet_);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.compared_tensors, 2U);
}

TEST_F(AnewTest, ATreeThatBecomesPlainArraysIsVerified) {
  const std::string tree = dir_ / "tree";
  hfshard::convert(copy_fixture("qwen3", dir_ / "source"), small_options(), run_to(tree), quiet_);
  for (const char* target : {"dcp", "safetensors"}) {
    const std::string out = reshard(tree, target);
    const VerifyResult alone = verify(out, {}, run_to(""), quiet_);
    EXPECT_TRUE(alone.differences.empty()) << target << ": " << alone.differences[0].what;
    EXPECT_GT(alone.tensors, 10U);
    EXPECT_TRUE(verify(out, tree, run_to(""), quiet_).differences.empty()) << target;
  }
}

TEST_F(AnewTest, ATreeOfARecordedModelStillBecomesThatModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  hfshard::convert(source, small_options(), run_to(dir_ / "tree"), quiet_);
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  hfshard::convert(reshard(dir_ / "tree", "orbax"), back, run_to(dir_ / "back"), quiet_);
  const DiffResult found = diff(source, dir_ / "back", {}, run_to(""), quiet_);
  EXPECT_TRUE(found.equal());
  EXPECT_TRUE(found.through.empty());
  EXPECT_EQ(read_file(dir_ / "back/config.json"), read_file(source + "/config.json"));
}

// A step of 257 would become 256 in bf16.
TEST_F(AnewTest, ADtypeLeavesTheNumbersOfAStateAsTheyAre) {
  const auto f32 = [](float value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  };
  TorchCheckpoint torch;
  torch.tensor("w", DType::f32, {1}).part({0}, {1}, f32(1), false);
  torch.tensor("step", DType::f32, {}).part({}, {}, f32(257), false);
  torch.tensor("rate", DType::f32, {}).part({}, {}, f32(0.1F), false);
  torch.write(dir_ / "torch");
  for (const char* target : {"dcp", "orbax", "safetensors"}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.mapping.dtype = DType::bf16;
    options.mapping.casts = {{"rat?", DType::f16}};
    options.tree.same = true;
    const ConvertReport report =
        hfshard::convert(dir_ / "torch", options, run_to(dir_ / target), quiet_);
    EXPECT_NE(std::ranges::find(report.plan.notes, "numbers keep their dtype: \"step\""),
              report.plan.notes.end())
        << target;
    for (const StoredArray& array : inspect(dir_ / target, {}, quiet_).checkpoint.arrays) {
      const DType wanted = array.name == "w"      ? DType::bf16
                           : array.name == "step" ? DType::f32
                                                  : DType::f16;
      EXPECT_EQ(array.dtype, wanted) << target << " " << array.name;
    }
  }
}

// Only such a tree gets the empty node that MaxText looks for, and a step.
TEST_F(AnewTest, AForeignTreeIsMaxTextsIfItHasItsParametersAndAStepOnly) {
  const std::string norm = "params.params.decoder.decoder_norm.scale";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{norm, "step"}, "maxtext"},
      {{norm}, "hf"},
      {{"opt_state.mu.w", norm, "step"}, "hf"},
      {{"step", "tok_embeddings.weight"}, "hf"},
  };
  for (const auto& [names, scheme] : cases) {
    const std::string out = dir_ / ("out" + std::to_string(&names - &cases[0].first));
    const ConvertReport report = reshard_foreign(names, "orbax", out, {});
    EXPECT_EQ(report.plan.scheme, scheme) << names.back();
    std::vector<std::string> kept;
    for (const StoredArray& array : inspect(out, {}, quiet_).checkpoint.arrays)
      kept.push_back(array.name);
    EXPECT_EQ(kept, names);
  }
}

TEST_F(AnewTest, NoLoaderIsNamedForATreeThatLacksAParameter) {
  struct Case {
    std::vector<std::string> names;
    std::string target;
  };
  const Case cases[] = {
      {{"params.params.decoder.decoder_norm.scale", "params.params.w.kernel", "step"}, "orbax"},
      {{"layers.0.w.weight", "tok_embeddings.weight"}, "dcp"}};
  for (const Case& item : cases) {
    const std::string out = dir_ / item.target;
    EXPECT_NE(reshard_foreign(item.names, item.target, out, {}).plan.load_path, "");
    const PlanSummary part =
        reshard_foreign(item.names, item.target, out + "-part", {"*.w.*"}).plan;
    EXPECT_EQ(part.load_path, "") << item.target;
    EXPECT_EQ(part.warnings.size(), 1U) << item.target;
  }
}

TEST_F(AnewTest, ADtypeLeavesArraysWideThatTheFamilyKeepsWide) {
  const std::string source = copy_fixture("deepseek4", dir_ / "source");
  PlanOptions wide;
  wide.mapping.dtype = DType::f32;
  hfshard::convert(source, wide, run_to(dir_ / "wide"), quiet_);
  PlanOptions narrow;
  narrow.mapping.dtype = DType::bf16;
  hfshard::convert(source, narrow, run_to(dir_ / "wanted"), quiet_);
  const auto dtypes_in = [&](const std::string& place) {
    std::map<std::string, DType> out;
    for (const StoredArray& array : inspect(place, {}, quiet_).checkpoint.arrays)
      out.emplace(array.name, array.dtype);
    return out;
  };
  const std::map<std::string, DType> wanted = dtypes_in(dir_ / "wanted");
  EXPECT_TRUE(
      std::ranges::any_of(wanted, [](const auto& one) { return one.second == DType::f32; }));
  for (const bool by_config : {false, true}) {
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.mapping.dtype = DType::bf16;
    options.tree.same = true;
    if (by_config) {
      options.tree.config_text = read_file(source + "/config.json");
      options.tree.config_name = "config.json";
    }
    const std::string out = dir_ / (by_config ? "by-config" : "by-record");
    hfshard::convert(dir_ / "wide", options, run_to(out), quiet_);
    EXPECT_EQ(dtypes_in(out), wanted) << by_config;
  }
}

TEST_F(AnewTest, AFewMissingArraysAreToldFromAnotherModel) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  const auto code_without = [&](const std::string& name, const std::string& excluded) {
    PlanOptions part;
    part.target = "dcp";
    part.mapping.exclude = {excluded};
    const std::string tree = dir_ / name;
    hfshard::convert(source, part, run_to(tree), quiet_);
    std::filesystem::remove(tree + "/hfshard.json");
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.tree.same = true;
    options.tree.config_text = read_file(source + "/config.json");
    options.tree.config_name = "config.json";
    return catch_error([&] { hfshard::convert(tree, options, run_to(tree + "-out"), quiet_); })
        .code();
  };
  EXPECT_EQ(code_without("most", "*mlp*"), ErrorCode::not_found);
  EXPECT_EQ(code_without("few", "*layers*"), ErrorCode::bad_input);
}

}  // namespace
}  // namespace hfshard
