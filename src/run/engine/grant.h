#pragma once

#include <cstdint>

namespace hfshard {

/// Tries to get what a run will need from the system, before it writes anything. That is `threads`
/// - 1 threads in addition to the caller, at the same time. It is also `claim_bytes` of anonymous
/// memory, in addition to the process's and the stacks. In a process, one trial runs at a time. The
/// threads are kept for the run (crew.h). Throws: limit (memory), io (a thread).
void require_grant(std::uint64_t claim_bytes, unsigned threads);

}  // namespace hfshard
