#pragma once

#include <string>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {

// Compiles only these rules of the tiny family, with one tensor.
inline CompiledModel compile_one(const std::string& rules, const Catalog& catalog) {
  const std::string text = tiny_family_with("[\"norm.weight [D]\", \"norm.scale [D]\"]", rules);
  const MappingTable table = load_table(tiny_file(text));
  const Json config = parse_json(R"({"hidden_size": 6, "num_hidden_layers": 0})", "config.json");
  const Bindings::Options none;
  Bindings bindings(table, config, none, {});
  const ResolvedModel resolved = resolve(table.schemes[0], bindings, true);
  ModelBuilder builder(catalog, {});
  compile_rules(table, table.schemes[0], bindings, resolved, builder);
  return builder.finish();
}

struct ThereAndBack {
  CompiledModel forward;
  CompiledModel back;
};

// Compiles these rules alone, and the export of the tree that they make.
inline ThereAndBack there_and_back(const std::string& rules, const Catalog& catalog) {
  ThereAndBack out{compile_one(rules, catalog), {}};
  out.back = compile_inverse(out.forward, catalog, tree_of(out.forward), hf_names());
  return out;
}

}  // namespace hfshard
