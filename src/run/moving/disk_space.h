#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"
#include "run/moving/budget.h"

namespace hfshard {

/// Throws: limit, if the file system of `directory` lacks room for the rest of an output, of which
/// `done_bytes` are there, and for arrays that are unpacked beside it. What a packed output will
/// take nothing tells.
void check_output_disk(const Plan& plan, const std::string& directory, const Budget& budget,
                       std::uint64_t done_bytes);
/// Throws: limit, if the file system of `directory` lacks so much for files of unpacked arrays.
void check_scratch_disk(const std::string& directory, std::uint64_t wanted_bytes);

}  // namespace hfshard
