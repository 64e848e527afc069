// The signal handler only uses lock-free atomics, mmap and sigaction:
//  1. A table of fixed size has the guarded ranges. The end is stored before the beginning, and the
//     beginning is removed first. The handler reads beginning, end, beginning, so it never sees
//     halves of two ranges.
//  2. On a fault inside a range, it records that the range is gone. It maps zeros from the faulting
//     page to the end, so the repeated instruction reads zeros. If the file was truncated, all
//     bytes behind the page are gone too. The reader discards them in any case.
//  3. All other faults go to the previous handler. A later handler can call this one, so it can
//     never leave the chain. It stays for good.
//  4. If another handler took the signal without passing it on, hfshard guards nothing more.
//     Callers then read instead of mapping.

#include "bytes/local/mapping_guard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <unistd.h>
#include <utility>

#include <sys/mman.h>

namespace hfshard {
namespace {

// More windows than threads ever hold. Ranges beyond them are read.
constexpr int kSlots = 1024;

struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<bool> gone{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

// The table and the previous handler. A process has one of each.
std::array<Slot, kSlots> slots;
std::atomic<unsigned> next_slot{0};
std::atomic<std::uintptr_t> page_bytes{0};
struct sigaction before {};
std::once_flag installed;

bool is_fault(const siginfo_t& info) noexcept {
  return info.si_code == BUS_ADRERR || info.si_code == BUS_OBJERR || info.si_code == BUS_MCEERR_AR;
}

// Replaces a guarded page with zeros. Returns false if the address isn't in a guarded range.
bool answer(std::uintptr_t address) noexcept {
  for (Slot& slot : slots) {
    const std::uintptr_t begin = slot.begin.load();
    const std::uintptr_t end = slot.end.load();
    if (begin == 0 || slot.begin.load() != begin || address < begin || address >= end) continue;
    slot.gone.store(true);
    const std::uintptr_t page = address / page_bytes.load() * page_bytes.load();
    void* at = std::bit_cast<void*>(page);
    return ::mmap(at, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
  }
  return false;
}

void pass_on(int number, siginfo_t* info, void* context) noexcept {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL || (before.sa_handler == SIG_IGN && is_fault(*info))) {
    // Restores the default action, which runs once this handler returns.
    struct sigaction none {};
    none.sa_handler = SIG_DFL;
    ::sigaction(number, &none, nullptr);
    (void)::raise(number);
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  }
}

void on_signal(int number, siginfo_t* info, void* context) noexcept {
  const int error_number = errno;
  if (!is_fault(*info) || !answer(std::bit_cast<std::uintptr_t>(info->si_addr)))
    pass_on(number, info, context);
  errno = error_number;
}

void install() noexcept {
  page_bytes.store(static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)));
  // Must be known before hfshard's handler can run.
  if (::sigaction(SIGBUS, nullptr, &before) != 0) return;
  struct sigaction ours {};
  ours.sa_sigaction = &on_signal;
  ours.sa_mask = before.sa_mask;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_RESTART | SA_NODEFER));
  ::sigaction(SIGBUS, &ours, nullptr);
}

// Returns whether hfshard's handler would get a fault of this thread.
bool is_ours() noexcept {
  struct sigaction now {};
  sigset_t blocked;
  return ::sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
         now.sa_sigaction == &on_signal && ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 &&
         ::sigismember(&blocked, SIGBUS) == 0;
}

}  // namespace

MappingGuard::MappingGuard(const void* begin, std::size_t size_bytes) noexcept {
  std::call_once(installed, install);
  if (size_bytes == 0 || !is_ours()) return;
  const std::uintptr_t page = page_bytes.load();
  const auto first = std::bit_cast<std::uintptr_t>(begin);
  const unsigned start = next_slot.fetch_add(1);
  for (unsigned i = 0; i < kSlots && slot_ < 0; ++i) {
    const unsigned index = (start + i) % kSlots;
    if (!slots[index].taken.exchange(true)) slot_ = static_cast<int>(index);
  }
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<std::size_t>(slot_)];
  slot.gone.store(false);
  slot.end.store((first + size_bytes + page - 1) / page * page);
  slot.begin.store(first / page * page);
}

MappingGuard::~MappingGuard() {
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<std::size_t>(slot_)];
  slot.begin.store(0);
  slot.end.store(0);
  slot.taken.store(false);
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

bool MappingGuard::gone() const noexcept {
  if (slot_ < 0) return false;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // after all reads
  return slots[static_cast<std::size_t>(slot_)].gone.load();
}

}  // namespace hfshard
