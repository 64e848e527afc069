#include "run/moving/grant.h"

#include <algorithm>
#include <cstddef>
#include <latch>
#include <mutex>
#include <new>
#include <pthread.h>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "run/moving/tbb_stages.h"
#include <sys/mman.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Takes some heap, so that the heap for threads is there too, and stays until all are.
void* try_thread(void* all_there) {
  constexpr std::size_t kSomeBytes = 64;
  void* some = ::operator new(kSomeBytes, std::nothrow);
  static_cast<std::latch*>(all_there)->wait();
  return some;
}

void require_threads(unsigned threads) {
  std::vector<pthread_t> made;
  made.reserve(threads);
  std::latch all_there(1);
  pthread_attr_t attributes;
  int error = ::pthread_attr_init(&attributes);
  if (error == 0) error = ::pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  while (error == 0 && made.size() + 1 < threads) {
    pthread_t one{};
    error = ::pthread_create(&one, &attributes, &try_thread, &all_there);
    if (error == 0) made.push_back(one);
  }
  all_there.count_down();
  bool starved = false;
  for (const pthread_t one : made) {
    void* some = nullptr;
    ::pthread_join(one, &some);
    starved |= some == nullptr;
    ::operator delete(some);
  }
  ::pthread_attr_destroy(&attributes);
  if (error == 0 && starved) throw std::bad_alloc();
  if (error != 0) {
    throw Error(ErrorCode::limit,
                fmt::format("the system refuses thread {} of {}: {}", made.size() + 2, threads,
                            std::generic_category().message(error)))
        .hint("lower --jobs, or raise the limit (ulimit -u, ulimit -v, cgroup pids.max)");
  }
}

constexpr std::size_t kDeepBytes = std::size_t{192} << 10;

// Makes the caller's own stack as deep as a kernel needs it (the widest transpose has 104 KiB of
// blocks): it grows when it is first used, and a system that refuses that ends the process, so
// that it is asked for as much before (require_memory). Other threads have theirs from the start.
[[gnu::noinline]] void deepen_stack() {
  constexpr std::size_t kTouchBytes = 4096;
  [[maybe_unused]] volatile std::byte pages[kDeepBytes];
  for (std::size_t at = 0; at < kDeepBytes; at += kTouchBytes) pages[at] = std::byte{0};
}

void require_memory(std::uint64_t bytes) {
  void* trial = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) {
    throw Error(ErrorCode::limit,
                fmt::format("the system refuses the {} that this run may use", human_bytes(bytes)))
        .hint("lower --max-memory, or raise the limit (ulimit -d, ulimit -v)");
  }
  ::munmap(trial, bytes);
}

}  // namespace

void require_grant(std::uint64_t claim_bytes, unsigned threads) {
  static std::mutex mutex;  // what one trial holds must not fail another
  const std::lock_guard lock(mutex);
  require_memory(std::max<std::uint64_t>(claim_bytes, kDeepBytes));
  deepen_stack();
  require_threads(threads);
}

}  // namespace hfshard
