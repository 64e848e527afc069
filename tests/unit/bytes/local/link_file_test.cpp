#include "bytes/local/link_file.h"

#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include "support/test_data.h"

namespace hfshard {
namespace {

class LinkFileTest : public testing::TestWithParam<LinkKind> {
 protected:
  LinkFileTest() {
    write_text(from_, "values");
    write_text(other_, "other values");
  }

  void expect_linked() const {
    EXPECT_EQ(read_text(to_), "values");
    EXPECT_EQ(std::filesystem::is_symlink(to_), GetParam() == LinkKind::symbolic);
    EXPECT_EQ(std::filesystem::hard_link_count(from_), GetParam() == LinkKind::hard ? 2U : 1U);
  }

  TempDir dir_;
  std::string from_ = dir_ / "from";
  std::string other_ = dir_ / "other";
  std::string to_ = dir_ / "to";
};

TEST_P(LinkFileTest, NeedsAFile) {
  const Error error = catch_error([&] { (void)link_file(dir_ / "nothing", to_, GetParam()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir_ / "nothing");
  EXPECT_EQ(error.sentence(), "no such file");
  EXPECT_FALSE(exists(to_));
}

TEST_P(LinkFileTest, KeepsTheOtherFileIfTheSourceCannotBeFound) {
  write_text(to_, "old");
  const Error error = catch_error([&] { (void)link_file(from_ + "/below", to_, GetParam()); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.sentence(), "can't find: Not a directory");
  EXPECT_EQ(error.file(), from_ + "/below");
  EXPECT_EQ(read_text(to_), "old");
}

// Making a hard link anew would change the ctime of the source, so that a resumed run refuses it.
TEST_P(LinkFileTest, KeepsALinkThatIsThere) {
  ASSERT_TRUE(link_file(from_, to_, GetParam()));
  expect_linked();
  const SyscallFault fault("", 1, EIO);
  EXPECT_TRUE(link_file(from_, to_, GetParam()));
  EXPECT_FALSE(fault.fired());
  expect_linked();
}

TEST_P(LinkFileTest, ReplacesAnythingElse) {
  const auto expect_replaced = [&](const char* what) {
    SCOPED_TRACE(what);
    EXPECT_TRUE(link_file(from_, to_, GetParam()));
    expect_linked();
    std::filesystem::remove(to_);
  };
  write_text(to_, "values");
  expect_replaced("a copy");
  ASSERT_TRUE(link_file(other_, to_, GetParam()));
  expect_replaced("a link to another file");
  std::filesystem::create_symlink(from_, to_);
  expect_replaced("a symbolic link");
  std::filesystem::create_hard_link(from_, to_);
  expect_replaced("a hard link");
  EXPECT_EQ(read_text(other_), "other values");
}

// The errors of a file system without such links, or of links between two file systems, are for the
// caller, who copies then. Any other one is an error.
TEST_P(LinkFileTest, TellsWhatCannotBeLinkedFromWhatFails) {
  const char* const call = GetParam() == LinkKind::hard ? "link" : "symlink";
  for (const int number : {EXDEV, EPERM, EMLINK, EOPNOTSUPP, ENOSYS, EINVAL, ENOTTY}) {
    const SyscallFault fault(call, 1, number);
    EXPECT_FALSE(link_file(from_, to_, GetParam())) << number;
    EXPECT_TRUE(fault.fired());
    EXPECT_FALSE(exists(to_));
  }
  const SyscallFault fault(call, 1, EIO);
  const Error error = catch_error([&] { (void)link_file(from_, to_, GetParam()); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.file(), to_);
  EXPECT_EQ(error.sentence(),
            "can't link to " + std::filesystem::canonical(from_).string() + ": Input/output error");
  EXPECT_FALSE(exists(to_));
}

// If the copy can't be made, the source isn't written.
TEST(LinkFile, AFailedCloneLeavesNothing) {
  const TempDir dir;
  write_text(dir / "from", "values");
  for (const char* call : {"open", "clone"}) {
    const SyscallFault fault(call, 1, EOPNOTSUPP);
    EXPECT_FALSE(link_file(dir / "from", dir / "to", LinkKind::reflink)) << call;
    EXPECT_TRUE(fault.fired());
    EXPECT_FALSE(exists(dir / "to"));
  }
  {
    const SyscallFault fault("open", 2, EPERM);  // of the copy
    EXPECT_FALSE(link_file(dir / "from", dir / "to", LinkKind::reflink));
    EXPECT_TRUE(fault.fired());
  }
  const SyscallFault fault("open", 2, EROFS);
  const Error error =
      catch_error([&] { (void)link_file(dir / "from", dir / "to", LinkKind::reflink); });
  EXPECT_TRUE(error.sentence().ends_with(": Read-only file system")) << error.sentence();
  EXPECT_EQ(read_text(dir / "from"), "values");
}

// A hard link shares its bytes with the source, and a clone must not.
TEST(LinkFile, ACloneReplacesALinkToItsSource) {
  const TempDir dir;
  write_text(dir / "from", "values");
  const auto expect_replaced = [&](const char* what) {
    const bool cloned = link_file(dir / "from", dir / "to", LinkKind::reflink);
    EXPECT_EQ(std::filesystem::hard_link_count(dir / "from"), 1U) << what;
    EXPECT_FALSE(std::filesystem::is_symlink(dir / "to")) << what;
    EXPECT_EQ(exists(dir / "to"), cloned) << what << ": not every file system clones";
    EXPECT_EQ(read_text(dir / "from"), "values") << what;
    std::filesystem::remove(dir / "to");
  };
  std::filesystem::create_hard_link(dir / "from", dir / "to");
  expect_replaced("a hard link");
  std::filesystem::create_symlink(std::filesystem::canonical(dir / "from"), dir / "to");
  expect_replaced("a symbolic link");
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkFileTest, testing::Values(LinkKind::hard, LinkKind::symbolic));

// A file of a cache is a link to the file with the bytes.
TEST_P(LinkFileTest, LinksToTheFileAtTheEndOfLinks) {
  std::filesystem::create_symlink("from", dir_ / "link");
  std::filesystem::create_symlink("link", dir_ / "second");
  ASSERT_TRUE(link_file(dir_ / "second", to_, GetParam()));
  expect_linked();
  if (GetParam() == LinkKind::symbolic) {
    EXPECT_EQ(std::filesystem::read_symlink(to_), std::filesystem::canonical(from_));
  }
  const SyscallFault fault("", 1, EIO);
  EXPECT_TRUE(link_file(dir_ / "link", to_, GetParam()));
  EXPECT_FALSE(fault.fired()) << "it is there";
}

}  // namespace
}  // namespace hfshard
