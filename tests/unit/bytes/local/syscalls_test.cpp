#include "bytes/local/syscalls.h"

#include <cerrno>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(SystemFailure, SaysWhatToDo) {
  const std::pair<int, std::string> hints[] = {
      {EMFILE, "ulimit -n"}, {ENFILE, "fs.file-max"},    {EACCES, "ls -ld"},
      {EPERM, "ls -ld"},     {EROFS, "writable"},        {ENAMETOOLONG, "shorter name"},
      {ENOMEM, "ulimit -d"}, {ENOSPC, "free some space"}};
  for (const auto& [number, words] : hints) {
    const Error error = sys::failure("open", "a", number);
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(error.hint_text().find(words), std::string::npos) << number << error.hint_text();
  }
  EXPECT_EQ(sys::failure("open", "a", EIO).hint_text(), "");
}

}  // namespace
}  // namespace hfshard
