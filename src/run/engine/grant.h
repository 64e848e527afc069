#pragma once

#include <cstdint>

namespace hfshard {

/// Memory that oneTBB's allocator maps when a run starts: 6.4 MiB on Debian 12. A claim includes
/// it.
inline constexpr std::uint64_t kStartBytes = std::uint64_t{8} << 20;

/// Tries to get what oneTBB maps when it starts. If the system refuses it to oneTBB itself, the
/// process ends or waits forever. Throws: limit.
void require_start();

/// Tries to get what a run will need from the system, before it writes anything. That is `threads`
/// - 1 threads in addition to the caller, at the same time. It is also `claim_bytes` of anonymous
/// memory, in addition to the process's and the stacks. In a process, one trial runs at a time. The
/// threads are kept for the run (crew.h). Throws: limit (memory), io (a thread).
void require_grant(std::uint64_t claim_bytes, unsigned threads);

}  // namespace hfshard
