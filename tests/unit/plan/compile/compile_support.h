#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "unit/mapping/families.h"

namespace hfshard {

/// A catalog without files to compile against.
struct FakeCatalog : Catalog {
  FakeCatalog() {
    location = "fake";
    CatalogFile file;
    file.name = "model.safetensors";
    files.push_back(file);
  }

  /// Returns every tensor that the rules of a family's scheme name for the config.
  static FakeCatalog of(const std::string& family, const Json& config,
                        std::string_view scheme = {}) {
    FakeCatalog out;
    out.config_text = dump_json(config);
    for (const ExpectedTensor& tensor :
         expected_tensors(family_by_name(family), config, {}, scheme)) {
      out.add(tensor.name, tensor.shape);
    }
    return out;
  }

  FakeCatalog& add(const std::string& name, const Shape& shape, DType dtype = DType::bf16) {
    TensorInfo info;
    info.name = name;
    info.shape = shape;
    info.dtype = dtype;
    tensors.insert(std::ranges::lower_bound(tensors, name, {}, &TensorInfo::name), info);
    return *this;
  }

  FakeCatalog& remove(const std::string& name) {
    std::erase_if(tensors, [&](const TensorInfo& info) { return info.name == name; });
    return *this;
  }

  TensorInfo& get(const std::string& name) {
    return *std::ranges::find(tensors, name, &TensorInfo::name);
  }
};

/// Returns the example config of a family, with a few members replaced.
inline Json example_config(const std::string& family, const Json::Object& replaced = {}) {
  Json config = family_info(family).example;
  for (const auto& [key, value] : replaced) config[key] = value;
  return config;
}

/// Returns options that keep the names of the files.
inline MappingOptions hf_names() {
  MappingOptions out;
  out.scheme = "hf";
  return out;
}

/// Returns the example of a family with a place for scales, and all its codes and scales.
inline FakeCatalog kept_example() {
  const Json config = kept_codes_config();
  FakeCatalog out;
  out.config_text = dump_json(config);
  for (const ExpectedTensor& tensor :
       expected_tensors(family_by_name("qwen3_5"), config, {{"codes", "kept"}}))
    out.add(tensor.name, tensor.shape, tensor.dtype.value_or(DType::bf16));
  return out;
}

/// Returns the tree that a model's conversion makes.
inline Catalog tree_of(const CompiledModel& model) {
  return tensors_of({model.leaves.begin(), model.leaves.end()}, "", FakeCatalog());
}

inline const Leaf* find_leaf(const CompiledModel& model, std::string_view path) {
  const auto found =
      std::ranges::find(model.leaves, "params.params." + std::string(path), &Leaf::name);
  return found == model.leaves.end() ? nullptr : &*found;
}

}  // namespace hfshard
