#include "service/onward.h"

#include <utility>

#include "plan/compile/steps.h"

namespace hfshard {

MappingOptions to_model(const MappingOptions& asked) {
  MappingOptions out;
  out.scheme = "hf";
  out.flat_names = true;
  out.keep_dtype = asked.keep_dtype;
  out.options = asked.options;
  out.files = asked.files;
  out.drop = asked.drop;
  out.untie = asked.untie;
  return out;
}

CompiledModel compile_onward(const CompiledModel& back, std::string config, const Catalog& source,
                             const MappingOptions& mapping) {
  const Catalog tensors =
      tensors_of({back.leaves.begin(), back.leaves.end()}, std::move(config), source);
  MappingOptions onward = mapping;
  onward.drop.clear();  // its globs match the source's names
  CompiledModel out = compile_through(back, compile_model(tensors, onward), source, mapping.drop);
  const bool other = !source.config_text.empty() && tensors.config_text != source.config_text;
  if (out.config_text.empty() && other) out.config_text = tensors.config_text;
  return out;
}

}  // namespace hfshard
