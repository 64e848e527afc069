#pragma once

namespace hfshard {

/// Prints the error for a lack of memory, without allocating any.
void print_out_of_memory() noexcept;

/// Makes std::terminate print that error and end the process with its status, if the current
/// exception is std::bad_alloc. Other exceptions abort, as before.
void report_out_of_memory_on_terminate();

}  // namespace hfshard
