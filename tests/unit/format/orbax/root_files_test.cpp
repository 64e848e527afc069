#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/orbax/open.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr const char* kFile = "metadata/_ROOT_METADATA";

// The file holds the `metadata=` of a CheckpointManager, which can be empty.
TEST(OrbaxRootFiles, OnlyMetadataOfTheUserCount) {
  const auto found = [](const std::string& text) {
    const TempDir dir;
    write_text(dir / kFile, text);
    return find_root_files(dir.path());
  };
  const std::vector<std::string> none;
  EXPECT_EQ(found("{}"), none);
  EXPECT_EQ(found("[]"), none);
  EXPECT_EQ(found(R"({"custom_metadata":null})"), none);
  EXPECT_EQ(found(R"({"custom_metadata":{}})"), none);
  const std::vector<std::string> file{kFile};
  EXPECT_EQ(found(R"({"custom_metadata":{"run":"x"}})"), file);
  EXPECT_EQ(found(R"({"custom_metadata":)"), file) << "copied as it is";
  EXPECT_EQ(find_root_files(TempDir().path()), none);
}

TEST(OrbaxRootFiles, AFailedReadIsAnError) {
  const TempDir dir;
  write_text(dir / kFile, "{}");
  const SyscallFault fault("pread", 1, EIO);
  EXPECT_EQ(catch_error([&] { find_root_files(dir.path()); }).code(), ErrorCode::io);
}

}  // namespace
}  // namespace hfshard::format::orbax
