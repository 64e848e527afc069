#include "catalog/manifest_head.h"

#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace hfshard {
namespace {

TEST(ManifestHead, OnlyAWholeManifestHasOne) {
  const TempDir dir;
  const auto plan_id = [&](const std::string& text) {
    write_text(dir / std::string(kManifestName), text);
    return manifest_head(dir.path()).plan_id;
  };
  EXPECT_EQ(plan_id("{\"plan_id\":\"abc\",\n\"files\":[\n]}\n"), "abc");
  EXPECT_EQ(plan_id("{\"plan_id\":\"abc\",\n\"files\":[\n"), "");
  EXPECT_EQ(plan_id(",\n"), "");
  EXPECT_EQ(plan_id(""), "");
}

}  // namespace
}  // namespace hfshard
