#pragma once

#include <atomic>

namespace hfshard {

/// From now on the first Ctrl-C (or SIGTERM) sets the flag instead of ending the process; a second
/// one ends it.
const std::atomic<bool>& watch_interrupts();

}  // namespace hfshard
