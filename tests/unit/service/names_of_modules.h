#pragma once

#include <algorithm>
#include <string>

#include "plan/compile/compile_model.h"
#include "service/example.h"
#include "unit/mapping/families.h"

namespace hfshard {

inline MappingOptions in_modules() {
  MappingOptions options;
  options.scheme = "hf";
  options.dialect = "modules";
  options.flat_names = true;
  return options;
}

// Returns the tensors of a family's example with its files' names.
inline Catalog files_of(const std::string& family, const Json::Object& changed = {}) {
  Json config = family_info(family).example;
  for (const auto& [key, value] : changed) config[key] = value;
  Catalog out = example_catalog(family_by_name(family), config, DType::bf16);
  out.config_text = dump_json(config);
  return out;
}

// Returns the same with the names of modules.
inline Catalog modules_of(const Catalog& files) {
  const CompiledModel model = compile_model(files, in_modules());
  return tensors_of({model.leaves.begin(), model.leaves.end()}, files.config_text, files);
}

inline void erase_below(Catalog& catalog, const std::string& begin) {
  std::erase_if(catalog.tensors,
                [&](const TensorInfo& info) { return info.name.starts_with(begin); });
}

inline void take_below(const Catalog& from, const std::string& begin, Catalog& to) {
  for (const TensorInfo& info : from.tensors) {
    if (info.name.starts_with(begin)) to.tensors.push_back(info);
  }
  std::ranges::sort(to.tensors, {}, &TensorInfo::name);
}

inline const std::string kExperts = "model.layers.1.mlp.experts.";

// Returns those experts with the names of files, and all else with the names of modules.
inline Catalog mixed_of(const Catalog& files) {
  Catalog out = modules_of(files);
  erase_below(out, kExperts);
  take_below(files, kExperts, out);
  return out;
}

}  // namespace hfshard
