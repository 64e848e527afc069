#include "run/moving/stop.h"

#include "hfshard/error.h"

namespace hfshard {

void check_stop(const RunOptions& options) {
  if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed))
    throw_stopped(options);
}

void throw_stopped(const RunOptions& options) {
  if (options.out.empty()) throw Error(ErrorCode::cancelled, "stopped; nothing was to be kept");
  throw Error(ErrorCode::cancelled, "stopped; everything written so far is kept")
      .in_file(options.out)
      .hint("run the same command again to go on, convert and link with --resume");
}

}  // namespace hfshard
