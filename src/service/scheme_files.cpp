#include "service/scheme_files.h"

#include <string>
#include <utility>

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

std::optional<OpenedSource> open_scheme_files(const std::shared_ptr<const Checkpoint>& files,
                                              const MappingOptions& mapping) {
  const std::string& config_text = files->catalog().config_text;
  if (config_text.empty() || !mapping.include.empty() || !mapping.prefix.empty()) return {};
  const auto schemes = schemes_of_names(files->catalog());
  if (schemes.empty()) return {};
  TreeOptions asked;
  asked.config_text = config_text;
  asked.config_name = config_path(files->catalog().location);
  if (has_names_of_files(files->catalog(), asked, mapping)) return {};
  OpenedSource out;
  out.checkpoint = with_model_names(files, asked, mapping);
  const Catalog& tensors = out.checkpoint->catalog();
  const std::string config = config_as_asked(config_text, asked.config_name, mapping);
  const Described described = describe_model(tensors, config, asked.config_name, mapping);
  check_vocabulary(tensors, described, config, asked.config_name, mapping);
  if (!has_all(tensors, described.model)) refuse_missing(tensors, asked, mapping);
  const CompiledModel back =
      compile_inverse(described.model, described.catalog, tensors, to_model(mapping));
  out.model = compile_onward(back, config, tensors, mapping);
  out.model.source_dialect = schemes.front().name;
  out.model.notes.insert(
      out.model.notes.begin(),
      fmt::format("the source has {} names, as they show", schemes.front().about));
  write_untied(mapping, tensors, out.model);
  return out;
}

}  // namespace hfshard
