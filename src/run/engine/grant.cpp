#include "run/engine/grant.h"

#include <algorithm>
#include <cstddef>
#include <malloc.h>
#include <mutex>

#include <fmt/format.h>

#include "base/text.h"
#include "run/engine/crew.h"
#include <sys/mman.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kDeepBytes = std::size_t{192} << 10;

// Grows the caller's stack to the depth that kernels need (the widest transpose has 104 KiB of
// blocks). A stack grows on first use, and the process ends if the system refuses. So
// require_memory asks for as much before. Other threads have their whole stack from the start.
[[gnu::noinline]] void deepen_stack() {
  constexpr std::size_t kTouchBytes = 4096;
  [[maybe_unused]] volatile std::byte pages[kDeepBytes];
  for (std::size_t at = 0; at < kDeepBytes; at += kTouchBytes) pages[at] = std::byte{0};
}

void require_memory(std::uint64_t bytes) {
  void* trial = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) {
    throw Error(ErrorCode::limit,
                fmt::format("the system refuses the {} of memory that this run may use",
                            human_bytes(bytes)))
        .hint("lower --max-memory, or raise the limit (ulimit -d, ulimit -v)");
  }
  ::munmap(trial, bytes);
}

}  // namespace

void require_start() { require_memory(kStartBytes); }

void require_grant(std::uint64_t claim_bytes, unsigned threads) {
  ::malloc_trim(0);         // what opening the source took and freed
  static std::mutex mutex;  // trials must not fail each other
  const std::lock_guard lock(mutex);
  require_memory(std::max<std::uint64_t>(claim_bytes, kDeepBytes));
  deepen_stack();
  const Crew trial(threads - 1);
}

}  // namespace hfshard
