#include "tool/out_of_memory.h"

#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "unit/tool/terminal.h"
#include <sys/resource.h>

namespace hfshard {
namespace {

constexpr int kLimitStatus = 3;

// Lets an exception out of a thread's start function, as a library can.
template <typename Thrown>
void end_by(const Thrown& thrown) {
  report_out_of_memory_on_terminate();
  report_out_of_memory_on_terminate();  // as when a program calls tool_main twice
  std::thread([&] { throw thrown; }).join();
}

// Throws while it unwinds, as the destructor of a oneTBB task group does.
struct ThrowsAtItsEnd {
  ThrowsAtItsEnd() = default;
  ThrowsAtItsEnd(const ThrowsAtItsEnd&) = delete;
  ThrowsAtItsEnd& operator=(const ThrowsAtItsEnd&) = delete;
  ~ThrowsAtItsEnd() noexcept(false) {
    throw std::bad_alloc();
  }  // NOLINT(bugprone-exception-escape)
};

void unwind_twice() {
  report_out_of_memory_on_terminate();
  try {
    const ThrowsAtItsEnd second;
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {  // isn't reached
  }
}

TEST(OutOfMemory, TerminateForLackOfMemoryIsAnErrorWithAHint) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const said = "^hfshard: error \\[limit\\]: out of memory\n  hint  .*--resume.*\n$";
  EXPECT_EXIT(end_by(std::bad_alloc()), testing::ExitedWithCode(kLimitStatus), said);
  EXPECT_EXIT(end_by(std::bad_array_new_length()), testing::ExitedWithCode(kLimitStatus), said);
  EXPECT_EXIT(unwind_twice(), testing::ExitedWithCode(kLimitStatus), said);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The standard library ends the process like this if it has no memory for an exception.
TEST(OutOfMemory, TerminateWithoutAnExceptionButAlsoWithoutMemoryIsThatErrorToo) {
  const auto starved = [] {
    report_out_of_memory_on_terminate();
    const struct rlimit none = {1, 1};
    ::setrlimit(RLIMIT_AS, &none);
    std::terminate();
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(starved(), testing::ExitedWithCode(kLimitStatus), "out of memory");
}
#endif

TEST(OutOfMemory, TheErrorReplacesTheBarOfATerminal) {
  const std::string text =
      "hfshard: error [limit]: out of memory\n"
      "  hint    give the process more memory; pass --resume to continue a conversion\n";
  testing::internal::CaptureStderr();
  print_out_of_memory();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), text);
  const Terminal terminal;
  const int before = ::dup(STDERR_FILENO);
  ::dup2(terminal.stream(), STDERR_FILENO);
  print_out_of_memory();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  const std::string clear = "\r\x1b[K";
  EXPECT_EQ(terminal.read(clear.size() + text.size()).substr(0, clear.size()), clear);
}

TEST(OutOfMemory, TerminateForABugStillAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_by(std::logic_error("a bug")), testing::KilledBySignal(SIGABRT), "a bug");
  EXPECT_EXIT(
      {
        report_out_of_memory_on_terminate();
        std::terminate();
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace hfshard
