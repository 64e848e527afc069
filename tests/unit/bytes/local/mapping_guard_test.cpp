#include "bytes/local/mapping_guard.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/syscalls.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace hfshard {
namespace {

constexpr std::size_t kPages = 8;

// A mapped file with kPages pages of 'x' that can be truncated. It has no name that could remain.
class MappedFile {
 public:
  MappedFile()
      : fd_(::memfd_create("mapped", 0)),
        size_(kPages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    const std::string text(size_, 'x');
    EXPECT_EQ(::pwrite(fd_.get(), text.data(), size_, 0), static_cast<ssize_t>(size_));
    at_ = static_cast<const volatile char*>(
        ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_.get(), 0));
  }
  ~MappedFile() { ::munmap(const_cast<char*>(at_), size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const void* begin() const { return const_cast<const char*>(at_); }
  std::size_t size() const { return size_; }
  std::size_t page() const { return size_ / kPages; }
  char operator[](std::size_t at) const { return at_[at]; }
  void truncate(std::size_t pages) {
    ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(pages * page())), 0);
  }

 private:
  sys::Descriptor fd_;
  std::size_t size_;
  const volatile char* at_ = nullptr;
};

TEST(MappingGuard, APageThatIsGoneReadsAsZerosAndIsTold) {
  MappedFile file;
  const MappingGuard guard(file.begin(), file.size());
  ASSERT_TRUE(guard);
  EXPECT_EQ(file[file.size() - 1], 'x');
  EXPECT_FALSE(guard.gone());
  file.truncate(3);
  EXPECT_EQ(file[3 * file.page() - 1], 'x');
  EXPECT_FALSE(guard.gone()) << "nothing that is gone was touched";
  EXPECT_EQ(file[5 * file.page() + 7], 0);
  EXPECT_TRUE(guard.gone());
  EXPECT_EQ(file[4 * file.page()], 0);  // before the first touched page
  EXPECT_EQ(file[3 * file.page() - 1], 'x');
}

TEST(MappingGuard, APageThatIsGoneIsToldForItsOwnRange) {
  MappedFile file;
  const std::size_t half = file.size() / 2;
  const MappingGuard front(file.begin(), half);
  const MappingGuard back(static_cast<const char*>(file.begin()) + half, half);
  file.truncate(kPages / 2);
  EXPECT_EQ(file[half], 0);
  EXPECT_EQ(file[half - 1], 'x');
  EXPECT_FALSE(front.gone());
  EXPECT_TRUE(back.gone());
}

TEST(MappingGuard, AFaultBeforeARangeIsNotToldForIt) {
  MappedFile file;
  const std::size_t half = file.size() / 2;
  const MappingGuard back(static_cast<const char*>(file.begin()) + half, half);
  const MappingGuard front(file.begin(), half);
  file.truncate(0);
  EXPECT_EQ(file[half - 1], 0);
  EXPECT_TRUE(front.gone());
  EXPECT_FALSE(back.gone());
}

TEST(MappingGuard, ARangeThatIsGuardedNextBeginsAnew) {
  for (int round = 0; round < 3000; ++round) {  // more than the table has slots
    MappingGuard guard(&round, 1);
    ASSERT_TRUE(guard) << round;
    EXPECT_FALSE(guard.gone());
    MappingGuard moved = std::move(guard);
    EXPECT_TRUE(moved);
  }
}

TEST(MappingGuard, WhereThereIsNoPlaceNothingIsGuarded) {
  std::vector<MappingGuard> guards;
  const char byte = 0;
  while (guards.size() < 10'000) {
    guards.emplace_back(&byte, 1);
    if (!guards.back()) break;
  }
  EXPECT_FALSE(guards.back());
  EXPECT_GE(guards.size(), 1000U);
  guards.clear();
  EXPECT_TRUE(MappingGuard(&byte, 1));
  EXPECT_FALSE(MappingGuard(&byte, 0));
}

TEST(MappingGuard, ThreadsFaultAtTheSameTime) {
  for (int round = 0; round < 20; ++round) {
    MappedFile one;
    MappedFile other;
    MappedFile whole;
    const MappingGuard guard_one(one.begin(), one.size());
    const MappingGuard guard_other(other.begin(), other.size());
    const MappingGuard guard_whole(whole.begin(), whole.size());
    one.truncate(0);
    other.truncate(4);
    std::atomic<int> seen = 0;
    const auto read = [&](const MappedFile& file) {
      for (std::size_t at = 0; at < file.size(); at += file.page()) seen += file[at] == 'x' ? 1 : 0;
    };
    std::vector<std::thread> threads;
    for (const MappedFile* file : {&one, &other, &whole, &one, &other, &whole})
      threads.emplace_back([&, file] { read(*file); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(seen, 2 * (0 + 4 + 8));
    EXPECT_TRUE(guard_one.gone());
    EXPECT_TRUE(guard_other.gone());
    EXPECT_FALSE(guard_whole.gone());
  }
}

// Returns how a child that calls `work` ends: its exit status, or minus the signal.
template <typename Work>
int end_of(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// The thread sanitizer takes no end by _exit of a process that was forked beside another thread.
void leave(int status) { ::syscall(SYS_exit_group, status); }

// A mapping's last page is whole, even if the file or the window ends in it.
TEST(MappingGuard, APageThatBelongsToTheRangeInPartIsGuarded) {
  EXPECT_EQ(end_of([] {
              MappedFile file;
              const std::size_t end = 3 * file.page() + 5;
              const MappingGuard guard(file.begin(), end);
              file.truncate(0);
              const bool zeros = file[end - 1] == 0 && file[3 * file.page()] == 0;
              leave(zeros && guard.gone() ? 0 : 1);
            }),
            0);
}

void leave_with_5(int /*number*/) { leave(5); }
void leave_with_6(int /*number*/, siginfo_t* info, void* /*context*/) {
  leave(info->si_code == BUS_ADRERR ? 6 : 7);
}

void set_handler(void (*handler)(int)) { ::signal(SIGBUS, handler); }

class ForeignSignal : public testing::Test {
 protected:
  // The handler must be set before the first guard of a process, so this program runs again. The
  // handler also replaces a sanitizer's own one.
  int end_with_handler(const std::string& name) {
    return end_of([&] {
      ::setenv("HFSHARD_TEST_HANDLER", name.c_str(), 1);
      ::execl("/proc/self/exe", "unit_bytes", "--gtest_filter=MappingGuardChild.*",
              "--gtest_also_run_disabled_tests", nullptr);
    });
  }
};

TEST_F(ForeignSignal, EndsTheProcessWhereNobodyHadIt) {
  EXPECT_EQ(end_with_handler("nobody's"), -SIGBUS);
  EXPECT_EQ(end_with_handler("nobody's, sent"), -SIGBUS);
}

TEST_F(ForeignSignal, GoesToTheHandlerThatWasThereBefore) {
  EXPECT_EQ(end_with_handler("plain"), 5);
  EXPECT_EQ(end_with_handler("with information"), 6);
  EXPECT_EQ(end_with_handler("ignored"), -SIGBUS);
  EXPECT_EQ(end_with_handler("ignored, sent"), 42) << "it isn't a fault";
}

// Not a test by itself: the re-executed program runs it.
TEST(MappingGuardChild, DISABLED_TouchesAForeignPage) {
  const char* what = ::getenv("HFSHARD_TEST_HANDLER");
  if (what == nullptr) GTEST_SKIP() << "run by ForeignSignal";
  const std::string name = what;
  struct sigaction action {};
  if (name == "plain") {
    set_handler(&leave_with_5);
  } else if (name.starts_with("ignored")) {
    set_handler(SIG_IGN);
  } else if (name.starts_with("nobody's")) {
    set_handler(SIG_DFL);
  } else {
    action.sa_sigaction = &leave_with_6;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
  }
  MappedFile guarded;
  MappedFile foreign;
  const MappingGuard guard(guarded.begin(), guarded.size());
  guarded.truncate(0);
  if (!guard || guarded[0] != 0 || !guard.gone()) leave(98);
  if (name.starts_with("ignored")) ::kill(::getpid(), SIGBUS);
  if (name == "ignored, sent") leave(42);
  if (name == "nobody's, sent") {
    ::kill(::getpid(), SIGBUS);
    ::pause();
  }
  foreign.truncate(0);
  leave(foreign[0] + 97);
}

// A later handler that doesn't pass the signal on. hfshard must not depend on its own handler then.
TEST_F(ForeignSignal, NothingIsGuardedOnceItWasGivenToSomebodyElse) {
  EXPECT_EQ(end_of([] {
              const char byte = 0;
              { const MappingGuard first(&byte, 1); }
              set_handler(&leave_with_5);
              leave(MappingGuard(&byte, 1) ? 1 : 0);
            }),
            0);
}

TEST_F(ForeignSignal, NothingIsGuardedWhereItIsBlocked) {
  EXPECT_EQ(end_of([] {
              sigset_t bus;
              ::sigemptyset(&bus);
              ::sigaddset(&bus, SIGBUS);
              ::pthread_sigmask(SIG_BLOCK, &bus, nullptr);
              const char byte = 0;
              leave(MappingGuard(&byte, 1) ? 1 : 0);
            }),
            0);
}

}  // namespace
}  // namespace hfshard
