// Compares leaf names, shapes, axes and shards at real model sizes with MaxText's own parameter
// trees (tests/oracle/abstract/PROVENANCE.md).

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/orbax/orbax.h"
#include "plan/plan.h"
#include "support/test_data.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {
namespace {

Shape shape_of(const Json& json) {
  Shape out;
  for (const Json& extent : json.as_array()) out.push_back(extent.as_uint());
  return out;
}

std::vector<std::string> axes_of(const Json& json) {
  std::vector<std::string> out;
  for (const Json& axis : json.as_array()) out.push_back(axis.is_null() ? "" : axis.as_string());
  return out;
}

// Returns facts by leaf path, with `layers_*` expanded.
std::map<std::string, const Json*> expanded(const Json& tree) {
  std::map<std::string, const Json*> out;
  for (const auto& [name, facts] : tree.as_object()) {
    std::string path = "params.params." + name;
    std::ranges::replace(path, '/', '.');
    const std::size_t star = path.find('*');
    if (star == std::string::npos) {
      out[path] = &facts;
      continue;
    }
    for (std::uint64_t layer = 0; layer < facts.at("layers").as_uint(); ++layer)
      out[std::string(path).replace(star, 1, std::to_string(layer))] = &facts;
  }
  return out;
}

std::vector<std::string> meshes_of(const Json& tree) {
  std::vector<std::string> out;
  for (const auto& [mesh, unused] : tree.as_object().begin()->second.at("shard").as_object())
    out.push_back(mesh);
  return out;
}

Plan plan_for(const Json& model, bool stacked, const std::string& mesh) {
  const Json& config = model.at("hf_config");
  FakeCatalog catalog = FakeCatalog::of(config.at("model_type").as_string(), config);
  for (TensorInfo& info : catalog.tensors)
    info.size_bytes = packed_bytes(info.dtype, info.shape.numel());
  PlanOptions options;
  options.mapping.stacked = stacked;
  options.mapping.options["maxtext"] = "0.2.4";  // the release of these trees
  options.meshes = {mesh};
  const Format& target = format::orbax::orbax_format();
  const auto form = [&](const Leaf& leaf, const Grid& grid) {
    return target.form(leaf, grid, options.encoding);
  };
  CompiledModel compiled = compile_model(catalog, options.mapping);
  return build_plan(make_model(catalog, std::move(compiled)), options, form, {}, {});
}

void expect_same(const Plan& plan, const std::map<std::string, const Json*>& expected,
                 const std::string& mesh) {
  ASSERT_EQ(plan.model().leaves.size(), expected.size());
  for (std::size_t i = 0; i < plan.model().leaves.size(); ++i) {
    const Leaf& leaf = plan.model().leaves[i];
    SCOPED_TRACE(leaf.name);
    const auto found = expected.find(leaf.name);
    ASSERT_NE(found, expected.end());
    EXPECT_EQ(leaf.shape, shape_of(found->second->at("shape")));
    std::vector<std::string> axes;
    for (std::size_t d = 0; d < leaf.shape.rank(); ++d) axes.emplace_back(leaf.axis(d));
    EXPECT_EQ(axes, axes_of(found->second->at("axes")));
    const Shape shard = shape_of(found->second->at("shard").at(mesh));
    EXPECT_EQ(plan.grids()[i].shard, shard);
    for (std::size_t d = 0; d < shard.rank(); ++d) {
      const Grid& grid = plan.grids()[i];
      EXPECT_TRUE(grid.chunk[d] % shard[d] == 0 || shard[d] % grid.chunk[d] == 0)
          << "a chunk of " << grid.chunk[d] << " lies across shards of " << shard[d];
    }
  }
}

class Abstract : public testing::TestWithParam<std::string> {};

TEST_P(Abstract, EveryLeafHasMaxTextsShapeAxesAndShardOnEveryMesh) {
  const std::string path = test_data("oracle/abstract/") + GetParam() + ".json";
  const Json model = parse_json(read_file(path), path);
  std::uint64_t compared = 0;
  for (const bool stacked : {true, false}) {
    const Json* tree = model.find(stacked ? "scanned" : "unscanned");
    if (tree == nullptr) continue;
    const auto expected = expanded(*tree);
    for (const std::string& mesh : meshes_of(*tree)) {
      SCOPED_TRACE(mesh + (stacked ? " stacked" : " separate"));
      expect_same(plan_for(model, stacked, mesh), expected, mesh);
      ++compared;
    }
  }
  EXPECT_GE(compared, 4U);
}

INSTANTIATE_TEST_SUITE_P(Models, Abstract,
                         testing::Values("qwen3-0.6b", "qwen3-14b", "llama3.1-8b", "llama3.1-405b",
                                         "mixtral-8x22b"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '.', '_');
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hfshard
