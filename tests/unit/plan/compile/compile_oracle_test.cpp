#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/json.h"
#include "format/formats.h"
#include "plan/compile/compile_model.h"
#include "support/test_data.h"
#include "unit/plan/compile/compile_reference.h"

namespace hfshard {
namespace {

struct OracleCase {
  std::string family;
  bool stacked;
};

std::string fixture(const std::string& name) { return test_data("oracle/") + name; }

Json read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse_json(text, path);
}

std::string dotted(std::string path) {
  std::ranges::replace(path, '/', '.');
  return "params.params." + path;
}

class CompileOracle : public testing::TestWithParam<OracleCase> {};

// expected.json has the result of MaxText's own converter for the fixture, leaf by leaf.
TEST_P(CompileOracle, MovesEveryElementWhereMaxTextDoes) {
  const std::string directory = fixture(GetParam().family);
  const Catalog catalog = open_catalog(directory);
  MappingOptions options;
  options.stacked = GetParam().stacked;
  const CompiledModel model = compile_model(catalog, options);
  const auto leaves = reference::execute(catalog, model);
  const Json expected =
      read_json(directory + "/expected.json").at(GetParam().stacked ? "scanned" : "unscanned");
  EXPECT_EQ(model.leaves.size(), expected.as_object().size());
  for (const auto& [path, facts] : expected.as_object()) {
    SCOPED_TRACE(path);
    const auto found = std::ranges::find(model.leaves, dotted(path), &Leaf::name);
    ASSERT_NE(found, model.leaves.end());
    Shape shape;
    for (const Json& extent : facts.at("shape").as_array()) shape.push_back(extent.as_uint());
    EXPECT_EQ(found->shape, shape);
    EXPECT_EQ(facts.at("dtype").as_string(), found->dtype == DType::bf16 ? "bfloat16" : "float32");
    Sha256 sha;
    sha.update(leaves.at(found->name));
    EXPECT_EQ(to_hex(sha.finish()), facts.at("sha256").as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CompileOracle,
                         testing::Values(OracleCase{"qwen3", true}, OracleCase{"qwen3", false},
                                         OracleCase{"llama3.1", true},
                                         OracleCase{"llama3.1", false}, OracleCase{"mixtral", true},
                                         OracleCase{"mixtral", false}),
                         [](const auto& one) {
                           std::string name = one.param.family;
                           std::erase(name, '.');
                           return name + (one.param.stacked ? "_stacked" : "_separate");
                         });

}  // namespace
}  // namespace hfshard
