#pragma once

#include <atomic>

namespace hfshard {

/// Makes the first Ctrl-C (or SIGTERM) set the flag instead of ending the process. A second one
/// ends it.
const std::atomic<bool>& watch_interrupts();

}  // namespace hfshard
