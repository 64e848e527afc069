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

/// A run's progress, as the bar shows it.
struct ProgressFigures {
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;     ///< includes earlier runs
  std::uint64_t earlier_bytes = 0;  ///< before this run; not in the rate
  double seconds = 0;               ///< since this run began
  std::string_view limit;           ///< the slowest stage; empty: unknown
  /// Seconds without progress on disk or network, if long; else 0.
  double still_seconds = 0;
  /// Bytes that came over the network, for a remote source.
  std::optional<std::uint64_t> link_bytes = std::nullopt;
  /// For a remote source: `earlier_bytes` plus the bytes that came since, as bytes of output. The
  /// bar shows this while fewer bytes are done.
  std::uint64_t came_bytes = 0;
  /// Bytes per second over the last seconds, which give the time left; nothing while it is too
  /// early. If it isn't kept it is 0, and the whole run gives the time left.
  std::optional<double> recent_rate = 0;
};

/// The rate of the last seconds, smoothed, so that the time left neither jumps nor depends on how
/// the run began.
class RecentRate {
 public:
  /// Adds the bytes of a run this many seconds after it began.
  void add(double seconds, std::uint64_t bytes);
  /// Returns bytes per second; nothing before it has two seconds of data.
  std::optional<double> value() const;

 private:
  std::optional<double> first_seconds_;  // when the first bytes came
  std::uint64_t first_bytes_ = 0;
  double last_seconds_ = 0;
  std::uint64_t last_bytes_ = 0;
  double rate_ = 0;
};

/// Returns `[######....]  60%  1.8 GiB of 3 GiB  350 MiB/s  0:03 left  limit write`. It drops
/// figures that don't fit into `columns`; the bar takes the remaining columns. The figures' places
/// don't depend on their values. For a remote source the rate is `link 350 MiB/s`, the rate of the
/// network.
std::string progress_bar(const ProgressFigures& figures, std::size_t columns);
/// Returns the same as a line without a bar: `60%  1.8 GiB of 3 GiB  350 MiB/s  0:03 left`.
std::string progress_line(const ProgressFigures& figures);
/// Returns the limiting stage; empty while no stage has taken noticeable time.
std::string_view limit_of(const StageTimes& times, bool is_far);

/// A Reporter that shows progress on standard error.
class Progress : public Reporter {
 public:
  /// Ends the display after success: shows the last state, then clears the bar. Destruction without
  /// this call (failure or stop) only clears the bar.
  virtual void finish() = 0;
};

/// Creates the reporter that `--progress` asks for. A terminal gets a bar, redrawn at most ten
/// times a second. Other streams get a line every Session::progress_ms, and with `always` also at
/// the start and end. A thread keeps both going while nothing moves, and shows for how long. Notes
/// are printed unless --quiet is set, which also means `never` unless the user asked for `always`.
std::unique_ptr<Progress> make_progress(const Session& session);
/// Returns the HubOptions::note of a command that shows progress; it must not outlive `progress`.
std::function<void(const std::string&)> notes_of(Progress& progress);
/// Returns --progress, for commands that show it.
OptionTable progress_table(Session& session);

/// Returns the columns for lines on a file descriptor: COLUMNS, else the terminal's width, else 80.
std::size_t terminal_columns(int stream);
/// Returns the same for rows and notes, which have no bound in a file or a pipe.
std::size_t file_columns(int stream);

}  // namespace hfshard
