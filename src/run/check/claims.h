#pragma once

#include <cstdint>

#include "plan/plan.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Compares what a plan drops as a copy, a repeat or a constant with what it writes
/// (CompiledModel::claims, Drop::same_as). Reads those arrays of the source, and nothing if nothing
/// is claimed. Memory as run_convert. Throws: bad_input (an array that differs, by name), corrupt
/// (one that can't be read), limit, io, conflict, cancelled.
void check_claims(const Plan& plan, const RunOptions& options);

/// Throws: limit, as check_claims would.
void check_claims_budget(const Plan& plan, std::uint64_t max_memory_bytes, unsigned threads);
/// The --max-memory that check_claims needs; 0 if nothing is claimed. Throws: limit.
std::uint64_t claims_need_bytes(const Plan& plan, unsigned threads);

}  // namespace hfshard
