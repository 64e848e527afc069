#pragma once

#include <cstddef>
#include <string_view>

#include "hfshard/error.h"

namespace hfshard {

/// Returns the error for a thread that the system refuses. `number` is out of the `count` threads
/// that the work needs, its caller's included. `error_number` is what pthread_create returned.
Error refused_thread(std::size_t number, std::size_t count, int error_number,
                     std::string_view hint);

}  // namespace hfshard
