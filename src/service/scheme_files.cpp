#include "service/scheme_files.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "service/config_sizes.h"
#include "service/described.h"
#include "service/onward.h"
#include "service/recorded.h"
#include "service/recorded_model.h"
#include "service/tree_names.h"
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

// Returns whether no --include selects tensors.
bool takes_all(const MappingOptions& mapping) {
  return mapping.include.empty() || mapping.include == std::vector<std::string>{"*"};
}

// Returns whether a record says that a model got the names of a scheme.
bool was_mapped(const Recorded& recorded) {
  const MappingOptions made_with = mapping_of(recorded);
  return has_rules(made_with) && asked_dialect(made_with).empty();
}

// Compiles the model of the files, and what it becomes. `said`: the evidence for its names.
CompiledModel compile_named(const CompiledModel& back, const std::string& config,
                            const SchemeSummary& scheme, std::string_view said,
                            const Catalog& tensors, const MappingOptions& mapping) {
  CompiledModel out = compile_onward(back, config, tensors, mapping);
  out.source_dialect = scheme.name;
  out.notes.insert(out.notes.begin(),
                   fmt::format("the source has {} names, as {}", scheme.about, said));
  write_untied(mapping, tensors, out);
  return out;
}

OpenedSource by_record(const std::shared_ptr<const Checkpoint>& files, const Recorded& recorded,
                       const MappingOptions& mapping) {
  Catalog tensors = files->catalog();
  const SchemeSummary scheme = schemes_of_names(tensors).front();
  const CompiledModel back = compile_recorded(recorded, to_model(mapping), tensors);
  const std::string config =
      back.config_text.empty()
          ? config_as_asked(tensors.config_text, config_path(tensors.location), mapping)
          : back.config_text;
  OpenedSource out;
  out.checkpoint = files;
  out.model = compile_named(back, config, scheme, "hfshard.json says", tensors, mapping);
  return out;
}

OpenedSource by_names(const std::shared_ptr<const Checkpoint>& files,
                      const MappingOptions& mapping) {
  const SchemeSummary scheme = schemes_of_names(files->catalog()).front();
  const TreeOptions asked = own_config(files->catalog());
  OpenedSource out;
  out.checkpoint = with_model_names(files, asked, mapping);
  const Catalog& tensors = out.checkpoint->catalog();
  std::string config = config_as_asked(*asked.config_text, asked.config_name, mapping);
  const Described described = describe_numbers(tensors, config, asked.config_name, mapping);
  check_sizes(tensors, described, config, asked.config_name, mapping);
  if (!has_all(tensors, described.model)) refuse_missing(tensors, asked, mapping);
  const CompiledModel back =
      compile_inverse(described.model, described.catalog, tensors, to_model(mapping));
  out.model = compile_named(back, config, scheme, "they show", tensors, mapping);
  return out;
}

}  // namespace

bool has_scheme_names(const Catalog& files, const TreeOptions& asked,
                      const MappingOptions& mapping) {
  return asked.config_text && !asked.config_text->empty() && mapping.prefix.empty() &&
         !schemes_of_names(files).empty() && !has_names_of_files(files, asked, mapping);
}

std::optional<OpenedSource> open_scheme_files(const std::shared_ptr<const Checkpoint>& files,
                                              const StorePath& place,
                                              const MappingOptions& mapping) {
  const Catalog& tensors = files->catalog();
  if (!takes_all(mapping) || !has_scheme_names(tensors, own_config(tensors), mapping)) return {};
  if (auto recorded = recorded_at(model_directory(place)); recorded && was_mapped(*recorded))
    return by_record(files, *recorded, mapping);
  return by_names(files, mapping);
}

}  // namespace hfshard
