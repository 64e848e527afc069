#pragma once

#include <string>

#include <gtest/gtest.h>

#include "plan/compile/steps.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {

// Compiles a family file that only the test has, for features that no embedded family uses.
inline CompiledModel compile_text(const std::string& text, const Catalog& catalog,
                                  const MappingOptions& options = {}, int hidden_size = 7) {
  const MappingTable table = load_table(tiny_file(text));
  const Json config = Json::Object{
      {"hidden_size", hidden_size}, {"vocab_size", hidden_size}, {"num_hidden_layers", 2}};
  Bindings bindings(table, config, options.options, {});
  const ResolvedModel resolved = resolve(table.schemes[0], bindings, true);
  ModelBuilder builder(catalog, options);
  compile_rules(table, table.schemes[0], bindings, resolved, builder);
  return builder.finish();
}

inline FakeCatalog tiny_catalog() {
  FakeCatalog out;
  out.add("norm.weight", {7});
  for (const char* layer : {"layers.0.", "layers.1."}) {
    out.add(std::string(layer) + "up.weight", {5, 7});
    out.add(std::string(layer) + "experts.0.weight", {5, 7});
    out.add(std::string(layer) + "experts.1.weight", {5, 7});
  }
  return out;
}

inline std::string with_norm_rule(const std::string& rules) {
  return tiny_family_with("[\"norm.weight [D]\", \"norm.scale [D]\"]", rules);
}

constexpr const char* kBlocks =
    R"({"dtype": "F8_E4M3", "kind": "block", "scale": "{name}_s", "block": [4, 3]})";

inline FakeCatalog coded_catalog() {
  FakeCatalog out = tiny_catalog();
  for (const char* layer : {"layers.0.", "layers.1."}) {
    out.get(std::string(layer) + "up.weight").dtype = DType::f8_e4m3;
    out.add(std::string(layer) + "up.weight_s", {2, 3}, DType::f32);
  }
  return out;
}

inline const Transfer& transfer_of(const CompiledModel& model, std::string_view path) {
  const auto leaf = std::ranges::find(model.leaves, path, &Leaf::name);
  const auto index = static_cast<std::uint32_t>(leaf - model.leaves.begin());
  return *std::ranges::find(model.transfers, index, &Transfer::target);
}

}  // namespace hfshard
