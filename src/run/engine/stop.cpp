#include "run/engine/stop.h"

#include "hfshard/error.h"

namespace hfshard {

void check_stop(const RunOptions& options) {
  if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed))
    throw_stopped(options);
}

void throw_stopped(const RunOptions& options, bool kept) {
  Error nothing(ErrorCode::cancelled, "stopped; hfshard kept nothing");
  if (options.out.empty()) throw Error(nothing);
  if (!kept) throw nothing.in_file(options.out).hint("run the same command again to start over");
  throw Error(ErrorCode::cancelled, "stopped; hfshard kept everything written so far")
      .in_file(options.out)
      .hint("run the same command again to continue, convert and link with --resume");
}

}  // namespace hfshard
