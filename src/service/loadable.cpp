#include "service/loadable.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/scheme_defaults.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kConfig = "config.json";

// Source: huggingface/accelerate src/accelerate/utils/fsdp_utils.py (optimizer);
// pytorch/torchtitan torchtitan/components/checkpoint.py (optimizer); pytorch/pytorch
// torch/distributed/checkpoint examples (optim, optimizer); flax TrainState (opt_state).
constexpr std::array<std::string_view, 6> kOptimizerKeys{
    "optimizer", "optimizers", "optim", "opt_state", "optimizer_state", "optimizer_state_dict"};

// Returns whether a plan writes a Hugging Face directory: whole arrays under the model's names.
bool is_model_directory(const Plan& plan) {
  return plan.files().whole_arrays && plan.options().mapping.scheme == "hf";
}

bool has_config(const Plan& plan) {
  return !plan.model().config_text.empty() ||
         std::ranges::find(plan.catalog().side_files, kConfig) != plan.catalog().side_files.end();
}

// Returns the key above all other arrays, as in {"model": ..., "optimizer": ...}. Empty if the
// model's own names are next to the optimizer's.
std::string root_of_model(const std::vector<Leaf>& leaves) {
  std::set<std::string> keys;
  bool named_below = false;
  for (const Leaf& leaf : leaves) {
    if (is_optimizer_state(leaf.name)) continue;
    const std::string key = first_key(leaf.name);
    const std::string below = leaf.name.substr(std::min(leaf.name.size(), key.size() + 1));
    named_below = named_below || below.starts_with("model.") || below.starts_with("lm_head.");
    keys.insert(key);
  }
  return keys.size() == 1 && named_below ? *keys.begin() : std::string();
}

// Optimizer states among a model's tensors, and how to read the model alone. Nothing if the model
// is alone.
struct OptimizerStates {
  std::string text;
  std::string remedy;
  std::string first;
};
std::optional<OptimizerStates> optimizer_states(const Plan& plan) {
  const std::vector<Leaf>& leaves = plan.model().leaves;
  const auto is_state = [](const Leaf& leaf) { return is_optimizer_state(leaf.name); };
  const auto first = std::ranges::find_if(leaves, is_state);
  if (!is_model_directory(plan) || first == leaves.end()) return std::nullopt;
  OptimizerStates out;
  out.first = first->name;
  out.text = fmt::format("{} of {} tensors are optimizer states",
                         std::ranges::count_if(leaves, is_state), leaves.size());
  const std::string root = root_of_model(leaves);
  out.remedy = root.empty()
                   ? fmt::format("pass --exclude '{}.*' to leave them out", first_key(first->name))
                   : fmt::format("pass --root {} to read only the model", root);
  return out;
}

void refuse_optimizer(const Plan& plan) {
  if (!has_config(plan) || !plan.options().mapping.include.empty()) return;
  const auto found = optimizer_states(plan);
  if (!found) return;
  throw Error(ErrorCode::bad_input,
              found->text + ", which loaders of a Hugging Face model don't take")
      .in_file(plan.catalog().location)
      .in_tensor(found->first)
      .hint(found->remedy + "; pass --include '*' to write them anyway");
}

// Returns a warning about chunks that are mostly padding, if it's at least this many bytes. Each
// chunk begins at a multiple of the alignment. Padding that comes from small arrays or from the
// mesh isn't reported, since a larger --chunk-bytes wouldn't help.
std::string padding_text(const Plan& plan, std::uint64_t least_bytes) {
  constexpr std::uint64_t kMostShare = 8;
  if (plan.files().whole_arrays) return {};
  const std::uint64_t alignment = plan.limits().alignment_bytes;
  if (plan.options().chunk_bytes >= alignment) return {};
  std::uint64_t data = 0;
  for (const Leaf& leaf : plan.model().leaves) data += packed_bytes(leaf.dtype, leaf.shape.numel());
  const std::uint64_t aligned = data + plan.model().leaves.size() * alignment;
  const std::uint64_t output = plan.totals().output_bytes;
  if (output <= aligned + least_bytes || output / kMostShare <= aligned) return {};
  return fmt::format(
      "chunks of {} take {} on disk for {} of arrays: each begins at a multiple of {}",
      human_bytes(plan.options().chunk_bytes), human_bytes(output), human_bytes(data),
      human_bytes(alignment));
}

std::string larger_chunks(const Plan& plan) {
  return fmt::format("pass --chunk-bytes {} or more; the default is 64MiB",
                     plan.limits().alignment_bytes);
}

void refuse_padding(const Plan& plan) {
  constexpr std::uint64_t kRefusedBytes = std::uint64_t{64} << 20;
  const std::string text = padding_text(plan, kRefusedBytes);
  if (text.empty()) return;
  throw Error(ErrorCode::limit, text).in_file(plan.catalog().location).hint(larger_chunks(plan));
}

// Returns whether a plan writes a model's config.json next to names that transformers doesn't know.
bool has_other_names(const Plan& plan) {
  return plan.files().whole_arrays && plan.options().mapping.scheme != "hf" && has_config(plan);
}

std::string other_names_doubt(const Plan& plan) {
  return fmt::format(
      "the output has the names of {} next to the model's config.json: transformers fills such a "
      "model with random values; for the model's own names, pass --scheme hf",
      loader_options(plan.model().scheme).name);
}

// Explains why a Hugging Face directory gets no config.json, and how to get one.
std::string no_config_doubt(const Plan& plan) {
  const CompiledModel& model = plan.model();
  const std::string& scheme = model.loader.empty() ? model.scheme : model.loader;
  const std::string loader = loader_options(scheme).name;
  const bool asked = plan.options().tree.config_text.has_value();
  if (plan.options().tree.same && (asked || !loader.empty())) {
    const bool known = !asked && !model.origin.empty();  // convert finds the model in its record
    return fmt::format(
        "reshard keeps {}, so no config.json is written and transformers can't load the output; "
        "for the model's own names, run hfshard convert SOURCE OUT --to safetensors{}",
        loader.empty() ? "names that aren't the model's own" : "the names of " + loader,
        known ? "" : " --config DIR");
  }
  const bool is_tree = plan.catalog().wording.kind != "huggingface";
  if (asked && is_tree) {
    return "hfshard writes no config.json, because the output keeps names that aren't the model's "
           "own; transformers can't load it";
  }
  if (!plan.catalog().config_text.empty()) {
    return "hfshard writes no config.json, because the output is a part of the model; to convert "
           "all of it, pass its directory";
  }
  return fmt::format(
      "hfshard writes no config.json, because the source lacks one; transformers can't load the "
      "output; {}",
      is_tree ? "pass --config DIR of the model" : "put the model's config.json next to it");
}

}  // namespace

bool is_optimizer_state(std::string_view name) {
  return std::ranges::find(kOptimizerKeys, first_key(name)) != kOptimizerKeys.end();
}

bool is_state_anywhere(std::string_view name) {
  // Source: pytorch/pytorch torch/optim (adam.py, sgd.py, adagrad.py).
  constexpr std::array<std::string_view, 4> kMoments{"exp_avg", "exp_avg_sq", "max_exp_avg_sq",
                                                     "momentum_buffer"};
  const std::vector<std::string> keys = split(name, '.');
  return std::ranges::find(kMoments, keys.back()) != kMoments.end() ||
         std::ranges::any_of(keys, [](const std::string& key) { return is_optimizer_state(key); });
}

bool may_be_parameter(const std::string& name) {
  return name.find('.') != std::string::npos && !is_training_state(name);
}

std::uint64_t parameters_left_out(const CompiledModel& model, const Catalog& tree) {
  return static_cast<std::uint64_t>(std::ranges::count_if(model.drops, [&](const Drop& drop) {
    const std::string& rule = model.rules[drop.rule];
    return (rule == "--include" || rule == "--exclude") &&
           may_be_parameter(tree.tensors[drop.source].name);
  }));
}

std::vector<std::string> load_doubts(const Plan& plan) {
  constexpr std::uint64_t kDoubtedBytes = std::uint64_t{4} << 20;
  std::vector<std::string> out;
  if (const std::string padding = padding_text(plan, kDoubtedBytes); !padding.empty())
    out.push_back(padding + "; " + larger_chunks(plan));
  if (const std::uint64_t missing = plan.model().left_out_leaves; missing > 0) {
    out.push_back(
        fmt::format("--include and --exclude leave out {} of the model's {} arrays: the output is "
                    "incomplete, and loaders of the model refuse it",
                    missing, missing + plan.model().leaves.size()));
  }
  if (const auto states = optimizer_states(plan))
    out.push_back(fmt::format("{} (the first is {}); loaders of a model refuse them; {}",
                              states->text, states->first, states->remedy));
  if (is_model_directory(plan) && has_config(plan) && plan.model().left_out_leaves == 0) {
    const std::uint64_t all = parameters_left_out(plan.model(), plan.catalog());
    const std::uint64_t left_out = all - std::min(all, plan.model().left_out_others);
    if (left_out > 0) {
      out.push_back(
          fmt::format("--include and --exclude leave out {} of {} tensors: transformers "
                      "fills those that the model needs with random values",
                      left_out, plan.catalog().tensors.size()));
    }
  }
  if (is_model_directory(plan) && !has_config(plan)) out.push_back(no_config_doubt(plan));
  if (has_other_names(plan)) out.push_back(other_names_doubt(plan));
  return out;
}

void refuse_unloadable(const Plan& plan) {
  refuse_optimizer(plan);
  refuse_padding(plan);
}

}  // namespace hfshard
