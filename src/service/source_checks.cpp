#include "service/source_checks.h"

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "service/recorded.h"
#include "service/step.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {

void check_root(const StorePath& place, const std::string& root) {
  if (root.empty()) return;
  const auto recorded = recorded_at(place);
  // A reshard has the arrays of another program's checkpoint.
  if (!recorded || recorded->origin.model->family == kNoFamily) return;
  throw Error(ErrorCode::usage,
              "--root selects a subtree of a training state, and hfshard made this of a model")
      .in_file(place.text())
      .hint("pass --include to select arrays");
}

void check_recorded_options(const StorePath& place, const PlanOptions& options) {
  if (options.mapping.options.empty() || options.tree.config_text) return;
  const auto recorded = recorded_below(place, options.tree.root);
  if (!recorded) return;
  const auto made_with = mapping_of(*recorded).options;
  for (const auto& [name, value] : options.mapping.options) {
    const auto known = made_with.find(name);
    if (name == "vocab" || (known != made_with.end() && known->second == value)) continue;
    throw Error(ErrorCode::usage, fmt::format("hfshard.json says how this checkpoint was made, so "
                                              "an export can't use --option {}={}",
                                              name, value))
        .in_file(place.text())
        .hint("leave out the option, or pass --config DIR of the model as well");
  }
}

void check_no_files(const StorePath& place, const FileGlobs& asked) {
  if (asked.ignore_index) {
    throw Error(ErrorCode::usage,
                "--ignore-index requires a Hugging Face model, and this is a tree of arrays")
        .in_file(place.text())
        .hint("leave out --ignore-index");
  }
  if (asked.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} selects files of a model, and this is a tree of arrays",
                          quote((asked.take.empty() ? asked.leave : asked.take).front())))
      .in_file(place.text())
      .hint("pass globs of array names to --include and --exclude");
}

void check_no_tree(const StorePath& place, const TreeOptions& asked) {
  read_source_step(place, asked);
  if (!asked.root.empty() && !takes_root(place)) {
    throw Error(ErrorCode::usage,
                "--root requires a tree of arrays, or a file of torch.save with dicts in it")
        .in_file(place.text())
        .hint("pass --include to select tensors of a model");
  }
  if (!asked.items.empty() || asked.all_items) {
    throw Error(ErrorCode::usage, "--items requires a checkpoint that is a tree of arrays")
        .in_file(place.text());
  }
}

void check_elements(const Catalog& source) {
  const TensorInfo* first = nullptr;
  std::size_t count = 0;
  for (const TensorInfo& info : source.tensors) {
    if (info.shape.rank() != 1 || info.shape[0] != 0) continue;
    if (count++ == 0) first = &info;
  }
  if (2 * count <= source.tensors.size()) return;
  // Source: deepspeedai/DeepSpeed deepspeed/runtime/engine.py save_16bit_model,
  // deepspeed/utils/zero_to_fp32.py.
  throw Error(ErrorCode::bad_input,
              fmt::format("{} of {} tensors have no elements: the checkpoint was saved without "
                          "gathering its shards",
                          count, source.tensors.size()))
      .in_file(source.location)
      .in_tensor(first->name)
      .hint(
          "save it again with stage3_gather_16bit_weights_on_model_save (DeepSpeed), or run "
          "zero_to_fp32.py on the trainer's own checkpoint");
}

void warn_of_no_elements(const Catalog& source, std::vector<std::string>& warnings) {
  try {
    check_elements(source);
  } catch (const Error& error) {  // a copy of the files has them all
    warnings.push_back("the output is as empty as its source: " + error.sentence());
  }
}

}  // namespace hfshard
