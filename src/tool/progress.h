#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tool/cli.h"

#include "hfshard/convert.h"

namespace hfshard {

/// How far a run is, as the bar shows it.
struct ProgressFigures {
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;     ///< those of earlier runs too
  std::uint64_t earlier_bytes = 0;  ///< done before this run began; not in the rate
  double seconds = 0;               ///< since this run began
  std::string_view limit;           ///< stage that takes most time; empty: not known
  /// Since bytes were done or came over a network last, where that is long; else 0.
  double still_seconds = 0;
  /// That came over a network, of a source that is far.
  std::optional<std::uint64_t> link_bytes = std::nullopt;
};

/// `[######....]  60%   1.8 GiB of 3 GiB   350 MiB/s     0:03 left  limit write`: of that what fits
/// into `columns`, the bar in what is left of them. The figures' places do not depend on them. Of a
/// source that is far the rate is `link 350 MiB/s`, what comes over the network.
std::string progress_bar(const ProgressFigures& figures, std::size_t columns);
/// The same on a line of its own, without a bar: `60%  1.8 GiB of 3 GiB  350 MiB/s  0:03 left`.
std::string progress_line(const ProgressFigures& figures);
/// The stage that limits; empty while none has taken a noticeable time.
std::string_view limit_of(const StageTimes& times, bool is_far);

/// A Reporter that shows on stderr what it is told.
class Progress : public Reporter {
 public:
  /// The work is done: all of it is shown, and then the bar is gone. One that is destroyed without
  /// this (the work failed, or was stopped) only clears the bar.
  virtual void finish() = 0;
};

/// What `--progress` asks for. On a terminal a bar, redrawn at most ten times a second; elsewhere a
/// line every Session::progress_ms, for `always` at the beginning and the end too. Both go on where
/// nothing moves, by a thread of their own, and say for how long. Notes are
/// printed unless --quiet, which also means `never` unless `always` was asked for.
std::unique_ptr<Progress> make_progress(const Session& session);
/// HubOptions::note, of a command that shows progress; must not outlive that.
std::function<void(const std::string&)> notes_of(Progress& progress);
/// --progress, for a command that shows it.
OptionTable progress_table(Session& session);

/// Columns for lines on a file descriptor: those that the environment names by COLUMNS, or of the
/// terminal that it is; else 80.
std::size_t terminal_columns(int stream);
/// The same for what a file or a pipe has on one line each, however long: rows of tables, notes.
std::size_t file_columns(int stream);

}  // namespace hfshard
