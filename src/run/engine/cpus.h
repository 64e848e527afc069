#pragma once

#include <optional>
#include <string>

namespace hfshard {

/// Returns the CPUs that this process may use: those of its affinity mask, limited by the time that
/// its control groups grant. At least 1.
unsigned usable_cpus();

/// Returns the CPU time that the control groups of this process (version 1 or 2) and their parents
/// allow, in CPUs, rounded up. Empty without a limit. `system` is prefixed to /proc and the mount
/// points, for tests.
std::optional<unsigned> quota_cpus(const std::string& system = {});

}  // namespace hfshard
