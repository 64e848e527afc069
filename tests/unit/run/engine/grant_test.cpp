#include "run/engine/grant.h"

#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "run/engine/crew.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include <sys/resource.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kClaimBytes = 1024 * kMiB;

// Lowers a soft limit while it lives.
class Lowered {
 public:
  Lowered(decltype(RLIMIT_DATA) which, std::uint64_t bytes) : which_(which) {
    ::getrlimit(which_, &before_);
    struct rlimit lower = before_;
    lower.rlim_cur = bytes;
    ::setrlimit(which_, &lower);
  }
  ~Lowered() { ::setrlimit(which_, &before_); }
  Lowered(const Lowered&) = delete;
  Lowered& operator=(const Lowered&) = delete;

 private:
  decltype(RLIMIT_DATA) which_;
  struct rlimit before_ = {};
};

// Returns whether this system maps memory that it may not have. Otherwise it can refuse any claim.
bool overcommits() {
  std::ifstream file("/proc/sys/vm/overcommit_memory");
  int mode = 0;
  file >> mode;
  struct rlimit space {};
  ::getrlimit(RLIMIT_AS, &space);
  return mode != 2 && space.rlim_cur == RLIM_INFINITY;
}

TEST(Grant, WhatTheSystemHasIsGranted) {
  if (!overcommits()) GTEST_SKIP() << "this system may refuse 1 GiB";
  EXPECT_NO_THROW(require_grant(kClaimBytes, 8));
  EXPECT_NO_THROW(require_grant(0, 1));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Returns private writable memory of this process as RLIMIT_DATA counts it: field 6 of statm, in
// pages.
std::uint64_t mapped_data_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The system ends a main thread whose stack can't grow.
TEST(Grant, TheCallersStackIsAsDeepAsARunNeedsIt) {
  require_grant(0, 1);
  std::ifstream status("/proc/self/status");
  std::uint64_t stack_kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmStk:")) stack_kib = std::stoull(line.substr(6));
  }
  EXPECT_GE(stack_kib, 192U);
}

// Frees blocks of each small size. The allocator keeps some, so an error can be made without more.
void leave_small_blocks() {
  std::vector<std::string> blocks;
  for (std::size_t bytes = 32; bytes < 1000; bytes += 16) {
    for (int i = 0; i < 5; ++i) blocks.emplace_back(bytes, 'x');
  }
}

// A missing stack is an error, and doesn't end the process.
TEST(Grant, AStackThatCannotBecomeAsDeepIsRefused) {
  const auto starved = [] {
    leave_small_blocks();
    const Lowered limit(RLIMIT_AS, 1);
    const ErrorCode code = catch_error([] { require_grant(0, 1); }).code();
    std::_Exit(code == ErrorCode::limit ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // its stack is in its initial state
  EXPECT_EXIT(starved(), testing::ExitedWithCode(0), "");
}

// Other memory of the process isn't part of it.
TEST(Grant, TheClaimComesOnTopOfWhatTheProcessHas) {
  if (!overcommits()) GTEST_SKIP() << "this system may refuse 1 GiB";
  const std::uint64_t has = mapped_data_bytes();
  // Stacks and arenas of other threads change it a little.
  {
    const Lowered limit(RLIMIT_DATA, has + kClaimBytes + 64 * kMiB);
    EXPECT_NO_THROW(require_grant(kClaimBytes, 2));
  }
  const Lowered limit(RLIMIT_DATA, has + kClaimBytes - 64 * kMiB);
  EXPECT_EQ(catch_error([] { require_grant(kClaimBytes, 2); }).code(), ErrorCode::limit);
}

// Each alone would be granted, but not both at once.
TEST(Grant, TwoAtOnceWaitForEachOther) {
  if (!overcommits()) GTEST_SKIP() << "this system may refuse 1 GiB";
  const Lowered limit(RLIMIT_DATA, mapped_data_bytes() + kClaimBytes * 3 / 2);
  const auto claim = [] {
    for (int i = 0; i < 5000; ++i) require_grant(kClaimBytes, 1);
  };
  std::vector<std::future<void>> others;
  for (int i = 0; i < 3; ++i) others.push_back(std::async(std::launch::async, claim));
  EXPECT_NO_THROW(claim());
  for (std::future<void>& other : others) EXPECT_NO_THROW(other.get());
}

TEST(Grant, ALimitBelowTheClaimIsRefused) {
  for (const auto which : {RLIMIT_DATA, RLIMIT_AS}) {
    const Lowered limit(which, kClaimBytes / 2);
    const Error error = catch_error([] { require_grant(kClaimBytes, 2); });
    EXPECT_EQ(error.code(), ErrorCode::limit);
    EXPECT_EQ(error.sentence(), "the system refuses the 1 GiB of memory that this run may use");
    EXPECT_EQ(error.hint_text(), "lower --max-memory, or raise the limit (ulimit -d, ulimit -v)");
  }
}

// The caller is the first of them. Threads that wait already aren't asked for again.
TEST(Crew, ARefusedThreadIsToldWithItsNumber) {
  const auto refused = [](unsigned waiting, unsigned asked, const std::string& which) {
    { const Crew first(waiting); }
    leave_small_blocks();
    const Lowered limit(RLIMIT_AS, 1);
    const Error error = catch_error([&] { const Crew crew(asked); });
    { const Crew again(waiting); }
    const std::string begin = "the system refuses thread " + which + ": ";
    const bool is_told = error.code() == ErrorCode::io && error.sentence().starts_with(begin);
    std::_Exit(is_told ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no threads of other tests wait
  EXPECT_EXIT(refused(0, 3, "2 of 4"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(refused(3, 5, "5 of 6"), testing::ExitedWithCode(0), "");
}

// 512 KiB each.
TEST(Grant, ThreadsWithoutRoomForTheirStacksAreRefused) {
  const Lowered limit(RLIMIT_DATA, kClaimBytes);
  const Error error = catch_error([] { require_grant(0, 4096); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.hint_text(),
            "lower --jobs, or raise the limit (ulimit -u, ulimit -v, cgroup pids.max)");
  EXPECT_NE(error.sentence().find("of 4096"), std::string::npos) << error.sentence();
}
#endif

}  // namespace
}  // namespace hfshard
