#pragma once

// Checkpoints that are laid out again keep their arrays and names.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {

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

  // Writes the arrays of a scheme's model of the qwen3 example, as another program names them.
  std::string write_arrays(const std::string& out, const std::string& scheme,
                           const std::function<std::string(const std::string&)>& name,
                           const std::vector<std::string>& numbers = {}) const {
    MappingOptions mapping;
    mapping.scheme = scheme;
    TorchCheckpoint torch;
    const CompiledModel model = compile_model(files_of("qwen3"), mapping);
    for (const Leaf& leaf : model.leaves) torch.whole(name(leaf.name), leaf.dtype, leaf.shape);
    for (const std::string& number : numbers) torch.whole(number, DType::f32, {});
    torch.write(dir_ / out);
    return dir_ / out;
  }
  // Reshards with the config of the qwen3 example.
  PlanSummary reshard_with_config(const std::string& source, const std::string& target,
                                  std::optional<DType> dtype = {}) {
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    options.mapping.dtype = dtype;
    options.tree.same = true;
    options.tree.config_text = files_of("qwen3").config_text;
    options.tree.config_name = "config.json";
    return hfshard::convert(source, options, run_to(source + "-out"), quiet_).plan;
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
};

}  // namespace hfshard
