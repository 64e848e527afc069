#include <gtest/gtest.h>

#include "format/orbax/open.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard::format::orbax {
namespace {

// A file in an item directory: enough to be found.
void make_item(const std::string& item) { write_text(item + "/manifest.ocdbt", ""); }

TEST(OrbaxLocate, TheHighestStepIsByNumberAndOnlyDirectoriesCount) {
  const TempDir dir;
  make_item(dir / "9/items");
  make_item(dir / "10/items");
  EXPECT_EQ(locate(dir.path()).item, dir / "10/items");
  make_item(dir / "100/items");
  make_item(dir / "0200/items");
  make_item(dir / "300x/items");
  make_item(dir / "step_400/items");
  write_text(dir / "500", "a file");
  EXPECT_EQ(locate(dir.path()).item, dir / "100/items");
  EXPECT_EQ(locate(dir.path()).step, dir / "100");
}

TEST(OrbaxLocate, OrbaxAndMaxTextNameTheItemInThreeWays) {
  for (const char* name : {"items", "state", "default"}) {
    const TempDir dir;
    make_item(dir / ("7/" + std::string(name)));
    EXPECT_EQ(locate(dir.path()).item, dir / ("7/" + std::string(name)));
    write_text(dir / "7/_CHECKPOINT_METADATA", "{}");
    EXPECT_EQ(locate(dir / "7").item, dir / ("7/" + std::string(name)));
    EXPECT_EQ(locate(dir / "7").step, dir / "7");
  }
  const TempDir dir;
  for (const char* name : {"default", "items", "state"})
    make_item(dir / ("7/" + std::string(name)));
  EXPECT_EQ(locate(dir.path()).item, dir / "7/items");
}

TEST(OrbaxLocate, AnItemKnowsItsStepByTheStepsOwnFile) {
  const TempDir dir;
  make_item(dir / "7/items");
  EXPECT_FALSE(locate(dir / "7/items").step.has_value());
  write_text(dir / "7/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(locate(dir / "7/items").step, dir / "7/items/..");
  make_item(dir / "flat");  // step and item in one, as link --in-place makes it
  write_text(dir / "flat/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(locate(dir / "flat").step, dir / "flat");
  EXPECT_EQ(locate(dir / "flat").item, dir / "flat");
}

TEST(OrbaxLocate, AnUnfinishedStepOrItemIsCorruptHoweverItIsNamed) {
  const TempDir dir;
  make_item(dir / "5.orbax-checkpoint-tmp-3/items");
  make_item(dir / "6/items.orbax-checkpoint-tmp");
  for (const char* path :
       {"5.orbax-checkpoint-tmp-3", "5.orbax-checkpoint-tmp-3/", "5.orbax-checkpoint-tmp-3//",
        "6/items.orbax-checkpoint-tmp", "6/items.orbax-checkpoint-tmp/"}) {
    EXPECT_EQ(catch_error([&] { locate(dir / path); }).code(), ErrorCode::corrupt) << path;
  }
  const TempDir root;
  make_item(root / "5.orbax-checkpoint-tmp/items");
  write_text(root / "zz", "");
  const Error error = catch_error([&] { locate(root.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_FALSE(error.hint_text().empty());
}

}  // namespace
}  // namespace hfshard::format::orbax
