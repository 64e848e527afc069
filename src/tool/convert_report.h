#pragma once

#include <string>

#include "base/json.h"

#include "hfshard/report.h"

namespace hfshard {

/// Returns the result of `convert`, `reshard` or `finalize` for --json.
Json result_json(const ConvertReport& report);

// Prints the result on standard output.

/// Prints the network traffic, if there was any.
void print_network(const RunResult& run);
/// Prints how many values a cast made infinite.
void print_overflows(const RunResult& run);
/// Prints the family and the tokenizer of an output.
void print_about(const PlanSummary& plan);
/// Prints the loader's arguments. `out`: the output as the user typed it.
void print_end(const ConvertReport& report, const std::string& out);
/// Prints where the output is.
void print_path(const RunResult& run);
/// Prints all of this.
void print_published(const ConvertReport& report, const std::string& out);
/// Prints that the output was already complete.
void print_complete(const RunResult& run);

}  // namespace hfshard
