#include "tool/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <unistd.h>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "tool/plan_report.h"
#include <sys/ioctl.h>

namespace hfshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr std::size_t kBarCells = 24;
constexpr std::size_t kDefaultColumns = 80;
constexpr std::size_t kLeastColumns = 20;  // fewer are no terminal
constexpr std::size_t kUncutColumns = 1000000;
constexpr double kLongestEtaSeconds = 99 * 3600.0;
constexpr double kShortestRateSeconds = 0.2;  // before that a rate says nothing

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const std::uint64_t hours = whole / 3600;
  const std::uint64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

// Nothing here may fail: a run must not end because its bar cannot be drawn.
void put(const std::string& text) {
  static_cast<void>(std::fputs(text.c_str(), stderr));
  static_cast<void>(std::fflush(stderr));
}

class TerminalProgress final : public Reporter {
 public:
  TerminalProgress() = default;
  TerminalProgress(const TerminalProgress&) = delete;
  TerminalProgress& operator=(const TerminalProgress&) = delete;
  ~TerminalProgress() override { clear(); }

  void planned(const PlanSummary& plan) override {
    for (const std::string& line : note_lines(plan)) note(line);
  }

  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
    figures_ = {total_bytes, already_done_bytes, already_done_bytes, 0};
    begin_ = Clock::now();
    draw();
  }

  void advanced(std::uint64_t bytes) override {
    figures_.done_bytes += bytes;
    if (Clock::now() - drawn_ >= kRedrawInterval) draw();
  }

  void note(const std::string& text) override {
    const bool shown = shown_;
    clear();
    put(text + "\n");
    if (shown) draw();
  }

 private:
  void draw() {
    drawn_ = Clock::now();
    figures_.seconds = std::chrono::duration<double>(drawn_ - begin_).count();
    const std::string line = progress_line(figures_, terminal_columns(STDERR_FILENO) - 1);
    put("\r" + line + "\x1b[K");
    shown_ = true;
  }

  void clear() {
    if (!shown_) return;
    put("\r\x1b[K");
    shown_ = false;
  }

  ProgressFigures figures_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_;
  bool shown_ = false;
};

// Where there is no terminal: notes only, or nothing.
class PlainProgress final : public Reporter {
 public:
  explicit PlainProgress(bool quiet) : quiet_(quiet) {}
  void planned(const PlanSummary& plan) override {
    for (const std::string& line : note_lines(plan)) note(line);
  }
  void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) override {}
  void advanced(std::uint64_t /*bytes*/) override {}
  void note(const std::string& text) override {
    if (!quiet_) put(text + "\n");
  }

 private:
  bool quiet_;
};

// Those that the environment names, or a terminal has.
std::optional<std::size_t> known_columns(int stream) {
  const char* wanted = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): one thread
  const auto given = wanted == nullptr ? std::nullopt : parse_whole(wanted);
  if (given && *given >= kLeastColumns && *given <= kUncutColumns) return *given;
  struct winsize size {};
  if (::ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace

std::size_t terminal_columns(int stream) { return known_columns(stream).value_or(kDefaultColumns); }

std::size_t note_columns() { return known_columns(STDERR_FILENO).value_or(kUncutColumns); }

std::string progress_line(const ProgressFigures& figures, std::size_t columns) {
  const std::uint64_t done = std::min(figures.done_bytes, figures.total_bytes);
  const double part = figures.total_bytes == 0
                          ? 1.0
                          : static_cast<double>(done) / static_cast<double>(figures.total_bytes);
  const auto cells = static_cast<std::size_t>(part * kBarCells);
  // Rounded down, so that 100% means that everything is done.
  std::string out = fmt::format("[{}{}] {:3}%  {} of {}", std::string(cells, '#'),
                                std::string(kBarCells - cells, '.'), static_cast<int>(part * 100),
                                human_bytes(done), human_bytes(figures.total_bytes));
  const std::uint64_t fresh = done - std::min(done, figures.earlier_bytes);
  if (fresh > 0 && figures.seconds >= kShortestRateSeconds) {
    const double rate = static_cast<double>(fresh) / figures.seconds;
    out += fmt::format("  {}/s", human_bytes(static_cast<std::uint64_t>(rate)));
    const double left = static_cast<double>(figures.total_bytes - done) / rate;
    if (left > 0 && left <= kLongestEtaSeconds) out += fmt::format("  {} left", clock_text(left));
  }
  if (out.size() > columns) out.resize(columns);
  return out;
}

std::unique_ptr<Reporter> make_progress(bool quiet) {
  if (!quiet && ::isatty(STDERR_FILENO) == 1) return std::make_unique<TerminalProgress>();
  return std::make_unique<PlainProgress>(quiet);
}

}  // namespace hfshard
