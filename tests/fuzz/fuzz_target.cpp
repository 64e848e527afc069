#include "fuzz/fuzz_target.h"

#include "hfshard/error.h"

namespace hfshard {

void run_target(FuzzTarget target, std::string_view bytes) {
  try {
    target(bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
}

}  // namespace hfshard
