#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "plan/layout/limits.h"
#include "support/temp_dir.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

TEST(Diff, DamageNamesTheNumberOfItsPlaces) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  const std::string embedding = "*.embedding";
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", source}).status, 0);
  ASSERT_EQ(run_tool({"convert", source, out, "--chunk-bytes", "64", "--quiet"}).status, 0);
  std::filesystem::remove(out + "/0/items/d/00000");
  Limits limits;
  limits.merge_bytes = 1;  // the chunks are read one by one
  const ToolRun run =
      run_tool({"diff", source, out, "--include", embedding, "--json", "--quiet"}, &limits);
  EXPECT_EQ(run.status, 5) << run.err;
  const Json json = run.json();
  ASSERT_EQ(json.at("tensors").as_array().size(), 1U);
  const Json& tensor = json.at("tensors").as_array()[0];
  EXPECT_EQ(tensor.at("kind").as_string(), "damaged");
  ASSERT_EQ(tensor.at("damage").as_array().size(), 1U);
  const Json& damage = tensor.at("damage").as_array()[0];
  EXPECT_EQ(damage.at("side").as_string(), "b");
  EXPECT_GT(damage.at("places").as_uint(), 1U);
}

}  // namespace
}  // namespace hfshard
