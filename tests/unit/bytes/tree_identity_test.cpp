// A directory as one file of a source.

#include "bytes/tree_identity.h"

#include <gtest/gtest.h>

#include "bytes/files.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(TreeIdentity, ChangesWithAnyFileBelow) {
  const TempDir directory;
  write_text(directory / "a", "one");
  write_text(directory / "below/b", "two");
  const TreeIdentity first = identify_tree(directory.path());
  EXPECT_EQ(first.size_bytes, 6U);
  const auto opened = first.path.open_data(IoMode::automatic, nullptr);
  EXPECT_EQ(opened->identity().version, first.version);
  opened->check_unchanged();
  EXPECT_EQ(identify_tree(directory.path()).content_sha256, first.content_sha256);

  write_text(directory / "below/b", "owt");  // of the same size
  const TreeIdentity second = identify_tree(directory.path());
  EXPECT_NE(second.version, first.version);
  EXPECT_NE(second.content_sha256, first.content_sha256);
  EXPECT_EQ(catch_error([&] { opened->check_unchanged(); }).code(), ErrorCode::conflict);
}

TEST(TreeIdentity, OfOtherNamesIsAnother) {
  const TempDir one;
  const TempDir other;
  write_text(one / "a", "x");
  write_text(other / "b", "x");
  EXPECT_NE(identify_tree(one.path()).content_sha256, identify_tree(other.path()).content_sha256);
}

}  // namespace
}  // namespace hfshard
