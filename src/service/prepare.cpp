#include "service/prepare.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "plan/compile/compile_model.h"

namespace hfshard {

Limits limits_of(const RunOptions& run) { return run.limits != nullptr ? *run.limits : Limits{}; }

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
  const std::shared_ptr<const Checkpoint> opened = open_source(source);
  CompiledModel model = compile_model(opened->catalog(), options.mapping);
  if (options.mapping.scheme == "hf" && options.rules_text) {
    for (Leaf& leaf : model.leaves) {
      for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
        leaf.axes.push_back(fmt::format("dim_{}", d));
      }
    }
  }
  // Of the user's own families, the plan records the one that it was made with.
  PlanOptions recorded = options;
  recorded.target = target.name();
  std::erase_if(recorded.mapping.files,
                [&](const MappingFile& file) { return file.family != model.family; });
  const auto form = [&](const Leaf& leaf, const Grid& grid) {
    return target.form(leaf, grid, options.encoding);
  };
  return build_plan(make_model({opened, &opened->catalog()}, std::move(model)), recorded, form,
                    files, limits);
}

}  // namespace hfshard
