#include "service/prepare.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "mapping/resolve/bindings.h"
#include "service/header_size.h"
#include "service/objects.h"
#include "service/source.h"
#include "service/structure.h"
#include "service/with_config.h"
#include "service/written_config.h"

namespace hfshard {

Limits limits_of(const RunOptions& run) { return run.limits != nullptr ? *run.limits : Limits{}; }

namespace {

std::vector<std::string> dims_of(const Leaf& leaf) {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) out.push_back(fmt::format("dim_{}", d));
  return out;
}

void name_dims(CompiledModel& model) {
  for (Leaf& leaf : model.leaves) leaf.axes = dims_of(leaf);
}

// Returns whether no leaf has logical axes other than its plain dimensions.
bool names_no_dims(const CompiledModel& model) {
  return std::ranges::all_of(model.leaves, [](const Leaf& leaf) {
    return leaf.axes.empty() || leaf.axes == dims_of(leaf);
  });
}

// Says which arrays --mesh doesn't cut. A smaller one is one chunk on any mesh.
void note_uncut(const PlanOptions& options, const Limits& limits, CompiledModel& model) {
  if (options.meshes.empty() || !options.tree.same) return;
  const std::uint64_t floor = std::min(limits.floor_bytes, options.chunk_bytes);
  const auto is_uncut = [&](const Leaf& leaf) {
    return leaf.axes.empty() && leaf.shape.numel() * size_bits(leaf.dtype) / 8 > floor;
  };
  const auto count = std::ranges::count_if(model.leaves, is_uncut);
  if (count == 0) return;
  const std::string& first = std::ranges::find_if(model.leaves, is_uncut)->name;
  model.notes.push_back(fmt::format(
      "--mesh doesn't cut {} without logical axes, {}; hfshard cuts such arrays by size: pass "
      "--axes{}",
      count == 1 ? "1 array" : fmt::format("{} arrays", count),
      count == 1 ? quote(first) : fmt::format("such as {}", quote(first)),
      options.tree.config_text ? "" : ", or --config DIR for a model"));
}

// Says which arrays were sharded on axes that --mesh doesn't have.
void note_unsharded(const PlanOptions& options, CompiledModel& model) {
  if (options.meshes.empty() || !options.tree.same) return;
  std::set<std::string> given;
  for (const std::string& axis : split(options.meshes.front(), ','))
    given.insert(axis.substr(0, axis.find('=')));
  std::set<std::string> missing;
  std::vector<std::string> arrays;
  for (const Leaf& leaf : model.leaves) {
    std::set<std::string> axes;
    for (const std::string& axis : leaf.axes)
      for (std::string& name : mesh_axes_of(axis)) axes.insert(std::move(name));
    const auto is_given = [&](const std::string& name) { return given.contains(name); };
    if (axes.empty() || std::ranges::any_of(axes, is_given)) continue;
    arrays.push_back(leaf.name);
    missing.merge(axes);
  }
  if (arrays.empty()) return;
  model.notes.push_back(fmt::format(
      "--mesh doesn't shard {}{}: in the source, {} sharded on {}, so add {} to --mesh, or pass "
      "--axes",
      arrays.size() == 1 ? "" : fmt::format("{} arrays, such as ", arrays.size()),
      quote(arrays.front()), arrays.size() == 1 ? "it is" : "they are",
      quoted_list({missing.begin(), missing.end()}), missing.size() == 1 ? "it" : "one"));
}

// Refuses an option that has no effect on a format. An empty `why` means that it has one.
void refuse_encoding(const std::string& option, const Format& format, const std::string& why) {
  if (why.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} has no effect on format {}: {}", option, quote(format.name()), why))
      .hint("leave out " + option.substr(0, option.find(' ')));
}

}  // namespace

void take_axis_rules(const FileLayout& files, CompiledModel& model) {
  if (files.axis_rules.empty() || !model.axis_rules.empty() || !names_no_dims(model)) return;
  name_dims(model);
  model.axis_rules = files.axis_rules;
}

PlanOptions with_target(const StorePath& source, const PlanOptions& options) {
  PlanOptions out = options;
  const bool follows = out.target.empty() && out.tree.same;
  const Format* own = follows ? tree_format(source) : nullptr;
  if (own != nullptr && own->writes()) {
    out.target = own->name();
    out.mapping.scheme = own->scheme();
  }
  const Format& target = format_of(out.target);
  out.target = target.name();
  if (options.step && !target.layout().has_steps) {
    throw Error(ErrorCode::usage,
                fmt::format("--output-step has no effect on format {}: OUT is the checkpoint",
                            quote(target.name())))
        .hint("leave out --output-step");
  }
  return out;
}

PlanOptions with_step(const StepChoice& step, PlanOptions options) {
  options.tree.step = step.taken;
  return options;
}

namespace {

// Managers of a run find its steps only by name, and some a tree only at its top. Sources:
// google/orbax checkpoint/orbax/checkpoint/_src/path/step.py (standard_name_format); google/flax
// flax/training/checkpoints.py (restore_checkpoint).
void keep_step(const OpenedSource& opened, TreeOptions& tree) {
  const TreeStructure* structure = opened.model.structure.get();
  tree.direct = !opened.step_name.empty() && structure != nullptr && structure->item.empty();
  const std::string name = entry_name(opened.step_name);
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::string number = last == std::string::npos ? name : name.substr(last + 1);
  if (number.empty()) return;
  tree.step_prefix = name.substr(0, name.size() - number.size());
  if (number.size() > 1 && number.front() == '0')
    tree.step_digits = static_cast<unsigned>(number.size());
}

}  // namespace

FileLayout layout_of(const Format& target, const TreeOptions& tree) {
  FileLayout out = target.layout();
  if (!tree.item_name.empty()) out.item = tree.item_name;
  if (tree.direct) out.item.clear();
  if (!tree.step_prefix.empty()) out.step_prefix = tree.step_prefix;
  out.step_digits = tree.step_digits;
  return out;
}

Plan make_plan(const StorePath& source, const PlanOptions& options, const Format& target,
               const Limits& limits) {
  FileLayout files = target.layout();
  if (options.link && !files.linked_prefix) {
    throw Error(ErrorCode::unsupported,
                fmt::format("format {} can't link the source's files", quote(target.name())));
  }
  if (options.in_place && options.mapping.num_layers) {
    throw Error(ErrorCode::usage, "--num-layers can't be used with --in-place")
        .hint("the config.json next to the index sets the number of layers; pass an OUT instead");
  }
  if (options.in_place && options.mapping.untie) {
    throw Error(ErrorCode::usage, "--untie can't be used with --in-place")
        .hint("the config.json next to the index ties the embeddings; pass an OUT instead");
  }
  PlanOptions wanted = options;
  wanted.mapping.flat_names = files.flat_names;
  OpenedSource opened = open_source_model(source, wanted);
  CompiledModel& model = opened.model;
  opened.checkpoint = with_files_of_codes(std::move(opened.checkpoint), model);
  if (options.mapping.scheme == "hf" && options.rules_text) name_dims(model);
  if (!options.rules_text) take_axis_rules(files, model);
  note_uncut(options, limits, model);
  note_unsharded(options, model);
  choose_objects(opened.checkpoint->catalog(), options.mapping, target, model);
  const bool is_model = options.mapping.scheme == "hf" && !options.tree.same;
  if (files.whole_arrays || is_model) {
    write_without_codes(opened.checkpoint->catalog(), model);
    write_dtype(opened.checkpoint->catalog(), options.mapping.dtype, model);
  }
  if (options.encoding.zstd_level != 0) refuse_encoding("--compress", target, files.uncompressed);
  if (!options.encoding.checksum) refuse_encoding("--checksum none", target, files.fixed_checksum);
  // The plan records only the one user family that it was made with.
  PlanOptions recorded = options;
  recorded.target = target.name();
  if (model.keeps_codes) recorded.mapping.options.emplace(kCodesOption, kKept);
  // A tree that stays the same keeps its step number.
  if (!recorded.step) recorded.step = options.tree.same ? opened.step.value_or(0) : 0;
  if (options.tree.same && files.has_steps && tree_format(source) == &target)
    keep_step(opened, recorded.tree);
  std::erase_if(recorded.mapping.files,
                [&](const MappingFile& file) { return file.family != model.family; });
  if (model.structure && !files.item.empty() && !model.structure->item.empty() &&
      model.structure->item != files.item) {
    recorded.tree.item_name = model.structure->item;
  }
  files = layout_of(target, recorded.tree);
  check_beside(opened.checkpoint->catalog(), files.item);
  const auto form = [&](const Leaf& leaf, const Grid& grid) {
    return target.form(leaf, grid, options.encoding);
  };
  ArrayFilesFunction put;
  if (files.whole_arrays) {
    put = [&](const std::vector<Leaf>& leaves, std::span<const std::uint32_t> order) {
      return target.array_files(leaves, order, options.shard_bytes);
    };
  }
  return build_plan(make_model(std::move(opened.checkpoint), std::move(model)), recorded, form,
                    files, limits, put);
}

Plan make_plan(const StorePath& source, const PlanOptions& options, const Format& target,
               const RunOptions& run) {
  check_header_size(source, options, run);
  return make_plan(source, options, target, limits_of(run));
}

}  // namespace hfshard
