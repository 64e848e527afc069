#include "service/prepare.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "service/source.h"

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

// Whether nothing says what dims mean, beyond which they are.
bool names_no_dims(const CompiledModel& model) {
  return std::ranges::all_of(model.leaves, [](const Leaf& leaf) {
    return leaf.axes.empty() || leaf.axes == dims_of(leaf);
  });
}

// What a format leaves no choice of. `why`: empty where it does.
void refuse_encoding(const std::string& option, const Format& format, const std::string& why) {
  if (why.empty()) return;
  throw Error(ErrorCode::usage, fmt::format("{} has no effect on checkpoints of the format {}: {}",
                                            option, quote(format.name()), why))
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
  out.target = format_of(out.target).name();
  return out;
}

Plan make_plan(const StorePath& source, const PlanOptions& options, const Format& target,
               const Limits& limits) {
  const FileLayout files = target.layout();
  if (options.link && !files.linked_prefix) {
    throw Error(ErrorCode::unsupported,
                fmt::format("checkpoints of the format {} cannot lie in the files of a source",
                            quote(target.name())));
  }
  if (options.in_place && options.mapping.num_layers) {
    throw Error(ErrorCode::usage, "--in-place takes no --num-layers")
        .hint("config.json beside the index says how many layers there are; link to an OUT");
  }
  PlanOptions wanted = options;
  wanted.mapping.flat_names = files.flat_names;
  OpenedSource opened = open_source_model(source, wanted);
  CompiledModel& model = opened.model;
  if (options.mapping.scheme == "hf" && options.rules_text) name_dims(model);
  if (!options.rules_text) take_axis_rules(files, model);
  if (options.encoding.zstd_level != 0) refuse_encoding("--compress", target, files.uncompressed);
  if (!options.encoding.checksum) refuse_encoding("--checksum none", target, files.fixed_checksum);
  // Of the user's own families, the plan records the one that it was made with.
  PlanOptions recorded = options;
  recorded.target = target.name();
  if (options.tree.same && opened.step) recorded.step = *opened.step;  // it stays that step
  std::erase_if(recorded.mapping.files,
                [&](const MappingFile& file) { return file.family != model.family; });
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

}  // namespace hfshard
