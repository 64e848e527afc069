#include "service/scheme_files.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "service/described.h"
#include "service/onward.h"
#include "service/tree_names.h"
#include "service/vocabulary.h"
#include "service/written_config.h"

#include "hfshard/plan.h"

namespace hfshard {
namespace {

TreeOptions own_config(const Catalog& files) {
  TreeOptions out;
  out.config_text = files.config_text;
  out.config_name = config_path(files.location);
  return out;
}

// Returns whether no --include selects tensors. "*" only accepts that some are missing.
bool takes_all(const MappingOptions& mapping) {
  return mapping.include.empty() || mapping.include == std::vector<std::string>{"*"};
}

}  // namespace

bool has_scheme_names(const Catalog& files, const MappingOptions& mapping) {
  return !files.config_text.empty() && mapping.prefix.empty() && !schemes_of_names(files).empty() &&
         !has_names_of_files(files, own_config(files), mapping);
}

std::optional<OpenedSource> open_scheme_files(const std::shared_ptr<const Checkpoint>& files,
                                              const MappingOptions& mapping) {
  if (!takes_all(mapping) || !has_scheme_names(files->catalog(), mapping)) return {};
  const SchemeSummary scheme = schemes_of_names(files->catalog()).front();
  const TreeOptions asked = own_config(files->catalog());
  const std::string& config_text = files->catalog().config_text;
  OpenedSource out;
  out.checkpoint = with_model_names(files, asked, mapping);
  const Catalog& tensors = out.checkpoint->catalog();
  const std::string config = config_as_asked(config_text, asked.config_name, mapping);
  const Described described = describe_model(tensors, config, asked.config_name, mapping);
  check_vocabulary(tensors, described, config, asked.config_name, mapping);
  if (mapping.include.empty() && !has_all(tensors, described.model))
    refuse_missing(tensors, asked, mapping);
  const CompiledModel back =
      compile_inverse(described.model, described.catalog, tensors, to_model(mapping));
  out.model = compile_onward(back, config, tensors, mapping);
  out.model.source_dialect = scheme.name;
  out.model.notes.insert(out.model.notes.begin(),
                         fmt::format("the source has {} names, as they show", scheme.about));
  write_untied(mapping, tensors, out.model);
  return out;
}

}  // namespace hfshard
