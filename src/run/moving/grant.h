#pragma once

#include <cstdint>

namespace hfshard {

/// Tries, before anything is written, what a run will ask the system for: `threads` - 1 threads
/// beside the caller, all at once, and `claim_bytes` of anonymous memory beside what the process
/// has and the stacks. Of runs in one process one tries at a time. oneTBB ends the process when a
/// thread of its own cannot be made or cannot have its first few bytes, so that must not happen
/// later. What is left of the trial is the stacks, which the C library keeps for the next threads.
/// Throws: limit.
void require_grant(std::uint64_t claim_bytes, unsigned threads);

}  // namespace hfshard
