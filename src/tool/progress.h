#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hfshard/convert.h"

namespace hfshard {

/// How far a run is, as the bar shows it.
struct ProgressFigures {
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;     ///< those of earlier runs too
  std::uint64_t earlier_bytes = 0;  ///< done before this run began; not in the rate
  double seconds = 0;               ///< since this run began
};

/// Columns for lines on a file descriptor: those that the environment names by COLUMNS, or of the
/// terminal that it is; else 80.
std::size_t terminal_columns(int stream);
/// The same for notes on standard error, which a file has on one line each, however long.
std::size_t note_columns();

/// The bar: `[######....]  60%  1.8 GiB of 3 GiB  350 MiB/s  0:03 left`, cut to `columns`.
std::string progress_line(const ProgressFigures& figures, std::size_t columns);

/// A bar on stderr with bytes, rate and ETA; silent when stderr is not a terminal or `quiet`.
/// Redrawn at most ten times a second. Notes are printed unless `quiet`.
std::unique_ptr<Reporter> make_progress(bool quiet);

}  // namespace hfshard
