#include "support/syscall_faults.h"

#include <atomic>
#include <utility>

#include "bytes/local/syscalls.h"

namespace hfshard {
namespace {

// The hook is a plain function, so its state is here. It is written only while no hook is set.
std::string fault_call;
int fault_first = 0;
int fault_last = 0;
int fault_errno = 0;
std::atomic<int> calls_seen{0};

int fail_nth(const char* call, const char* /*path*/) {
  if (!fault_call.empty() && fault_call != call) return 0;
  const int seen = ++calls_seen;
  return seen >= fault_first && seen <= fault_last ? fault_errno : 0;
}

}  // namespace

SyscallFault::SyscallFault(std::string call, int nth, int error_number, int times) {
  fault_call = std::move(call);
  fault_first = nth;
  fault_last = nth + times - 1;
  fault_errno = error_number;
  calls_seen = 0;
  sys::set_fault_hook(fail_nth);
}

SyscallFault::~SyscallFault() { sys::set_fault_hook(nullptr); }

bool SyscallFault::fired() const noexcept { return calls_seen >= fault_first; }

}  // namespace hfshard
