#include "service/tree_names.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace hfshard {
namespace {

TEST(WithConfigBeside, AConfigThatIsNamedIsKept) {
  const TempDir dir;
  write_text(dir / "config.json", R"({"a": 1})");
  const StorePath place(dir.path());
  EXPECT_EQ(with_config_beside(place, {}).config_text, R"({"a": 1})");
  TreeOptions asked;
  asked.config_text = R"({"b": 2})";
  EXPECT_EQ(with_config_beside(place, asked).config_text, R"({"b": 2})");
}

}  // namespace
}  // namespace hfshard
