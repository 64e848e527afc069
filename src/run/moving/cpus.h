#pragma once

#include <optional>
#include <string>

namespace hfshard {

/// CPUs that this process may use: those of its affinity mask, but no more than its control groups
/// give it time on. At least 1.
unsigned usable_cpus();

/// The CPU time that the control groups of this process (version 1 or 2) and those above them
/// allow, in CPUs, rounded up; nothing where none is limited. `system`: before /proc and the places
/// where groups are mounted, for tests.
std::optional<unsigned> quota_cpus(const std::string& system = {});

}  // namespace hfshard
