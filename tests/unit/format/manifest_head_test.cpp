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

TEST(ManifestHead, HasThePlanTheToolAndTheIdentity) {
  const TempDir dir;
  EXPECT_EQ(manifest_head(dir.path()).plan_id, "") << "no file";
  const std::string end = "\n\"files\":[\n]}\n";
  const auto head = [&](const std::string& line) {
    write_text(dir / std::string(kManifestName), line + end);
    return manifest_head(dir.path());
  };
  const ManifestHead whole =
      head(R"({"plan_id":"abc","tool":"hfshard 0.2.0","identity":{"sources":[1]},)");
  EXPECT_EQ(whole.plan_id, "abc");
  EXPECT_EQ(whole.tool, "hfshard 0.2.0");
  EXPECT_EQ(dump_json(whole.identity), R"({"sources":[1]})");
  const ManifestHead odd = head(R"({"plan_id":7,"tool":null,)");
  EXPECT_EQ(odd.plan_id + odd.tool, "");
  EXPECT_TRUE(odd.identity.is_null());
  EXPECT_EQ(head(R"({"plan_id":"abc")").plan_id, "") << "the line doesn't go on";
  EXPECT_EQ(head(R"({"plan_id":abc,)").plan_id, "") << "not JSON";
  EXPECT_EQ(head(R"([1],)").plan_id, "");
}

// A model in many files has a long first line.
TEST(ManifestHead, CanBeLongerThanTheFirstBytesThatAreRead) {
  const TempDir dir;
  for (const std::size_t size : {std::size_t{65'000}, std::size_t{65'536}, std::size_t{300'000}}) {
    const std::string line =
        R"({"plan_id":"abc","tool":")" + std::string(size, 't') + R"(","identity":3,)";
    write_text(dir / std::string(kManifestName), line + "\n\"files\":[\n]}\n");
    const ManifestHead head = manifest_head(dir.path());
    EXPECT_EQ(head.plan_id, "abc") << size;
    EXPECT_EQ(head.tool.size(), size);
    EXPECT_EQ(head.identity, Json(3));
  }
  write_text(dir / std::string(kManifestName), "{\"plan_id\":\"" + std::string(200'000, 'x'));
  EXPECT_EQ(manifest_head(dir.path()).plan_id, "") << "no line ends";
}

}  // namespace
}  // namespace hfshard
