#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"
#include "run/engine/budget.h"

namespace hfshard {

/// Returns the disk space of the files below a staged tree, committed or not, since the rest of a
/// run overwrites it. Files that have other names elsewhere don't count. Throws: io.
std::uint64_t staged_disk_bytes(const std::string& tree);
/// Throws: limit, if the file system of `directory` lacks space for the rest of an output and for
/// unpacked arrays. `done_bytes` of the output are written, and staged_disk_bytes(tree) is
/// allocated. The size of a packed output isn't known. Returns the bytes that stay free.
std::uint64_t check_output_disk(const Plan& plan, const std::string& directory,
                                const std::string& tree, const Budget& budget,
                                std::uint64_t done_bytes);
/// Throws: limit, if the file system of `directory` lacks this space for files of unpacked arrays.
void check_scratch_disk(const std::string& directory, std::uint64_t wanted_bytes);

}  // namespace hfshard
