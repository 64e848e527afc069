#include "base/threads.h"

#include <system_error>

#include <fmt/format.h>

namespace hfshard {

Error refused_thread(std::size_t number, std::size_t count, int error_number,
                     std::string_view hint) {
  Error out(ErrorCode::io, fmt::format("the system refuses thread {} of {}: {}", number, count,
                                       std::generic_category().message(error_number)));
  out.hint(hint);
  return out;
}

}  // namespace hfshard
