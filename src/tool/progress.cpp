#include "tool/progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "tool/environment.h"
#include "tool/plan_report.h"
#include "tool/ticker.h"
#include <sys/ioctl.h>

namespace hfshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr std::chrono::milliseconds kBarTick{1000};
constexpr std::chrono::milliseconds kShortestTick{100};
// So long without a byte is told; of the time between two lines, which is 30 s.
constexpr int kStalledShare = 3;
constexpr std::chrono::milliseconds kShortestStall{200};
constexpr std::size_t kFewestCells = 8;
constexpr std::size_t kMostCells = 40;
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

// Of the terminal itself, whose lines a bar must not overrun.
std::optional<std::size_t> own_columns(int stream) {
  struct winsize size {};
  if (::ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

// Those that the environment names, or a terminal has.
std::optional<std::size_t> known_columns(int stream) {
  const auto wanted = variable("COLUMNS");
  const auto given = wanted ? parse_whole(*wanted) : std::nullopt;
  if (given && *given >= kLeastColumns && *given <= kUncutColumns) return *given;
  return own_columns(stream);
}

// One that can take a line back.
bool on_terminal() {
  if (::isatty(STDERR_FILENO) != 1) return false;
  return variable("TERM") != "dumb";
}

double part_of(const ProgressFigures& figures) {
  if (figures.total_bytes == 0) return 1;
  return static_cast<double>(std::min(figures.done_bytes, figures.total_bytes)) /
         static_cast<double>(figures.total_bytes);
}

// What stands beside the bar; a text that is not known yet is empty.
struct Texts {
  std::string percent, bytes, rate, left, limit;
};

Texts texts_of(const ProgressFigures& figures) {
  const std::uint64_t done = std::min(figures.done_bytes, figures.total_bytes);
  Texts out;
  // Rounded down, so that 100% means that everything is done.
  out.percent = fmt::format("{}%", static_cast<int>(part_of(figures) * 100));
  out.bytes = fmt::format("{} of {}", human_bytes(done), human_bytes(figures.total_bytes));
  const std::uint64_t fresh = done - std::min(done, figures.earlier_bytes);
  const auto rate_of = [&](std::uint64_t bytes) {
    return static_cast<double>(bytes) / figures.seconds;
  };
  const auto text_of = [](double rate) {
    return fmt::format("{}/s", human_bytes(static_cast<std::uint64_t>(rate)));
  };
  const bool is_early = figures.seconds < kShortestRateSeconds;
  if (figures.link_bytes.value_or(0) > 0 && !is_early) {  // before anything is done, too
    out.rate = "link " + text_of(rate_of(*figures.link_bytes));
  }
  if (fresh > 0 && !is_early) {
    const double rate = rate_of(fresh);
    if (!figures.link_bytes) out.rate = text_of(rate);
    const double left = static_cast<double>(figures.total_bytes - done) / rate;
    if (left > 0 && left <= kLongestEtaSeconds) out.left = fmt::format("{} left", clock_text(left));
    if (!figures.limit.empty()) out.limit = fmt::format("limit {}", figures.limit);
  }
  if (figures.still_seconds > 0) {  // a time left would be a guess
    out.left = fmt::format("{} {}", done == figures.total_bytes ? "finishing" : "stalled",
                           clock_text(figures.still_seconds));
  }
  return out;
}

// Notes, and what all kinds of progress know.
class Notes : public Progress {
 public:
  explicit Notes(bool quiet) : quiet_(quiet) {}
  void planned(const PlanSummary& plan) override {
    for (const std::string& line : note_lines(plan)) note(line);
  }
  void resumed(const FoundWork& found) override {
    if (found.bytes == 0) {
      note("note: nothing to resume: no earlier run of this plan has written anything here");
      return;
    }
    note(fmt::format("note: {}: {} of {} were written before (journals of {} {}) and are skipped{}",
                     found.asked ? "resuming" : "going on where an earlier run stopped",
                     human_bytes(found.bytes), human_bytes(found.total_bytes), found.workers,
                     found.workers == 1 ? "worker" : "workers",
                     found.asked ? "" : "; hfshard clean OUT makes a fresh start"));
  }
  void note(const std::string& text) override {
    if (!quiet_) put(text + "\n");
  }
  void finish() override {}

 private:
  bool quiet_;
};

// What is shown of a run, by the thread that works and by one that ticks.
class Shown : public Notes {
 public:
  Shown(bool quiet, std::chrono::milliseconds interval)
      : Notes(quiet), stalled_(std::max(interval / kStalledShare, kShortestStall)) {}
  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) final {
    const std::lock_guard lock(mutex_);
    figures_ = {total_bytes, already_done_bytes, already_done_bytes, 0, {}, 0, {}};
    figures_.link_bytes = came();
    begin_ = moved_ = Clock::now();
    begun_ = true;
    show_start();
  }
  void linked(const std::function<std::uint64_t()>& bytes) final {
    const std::lock_guard lock(mutex_);
    figures_.link_bytes = came();  // all that will have
    link_ = bytes;
  }
  void timed(const StageTimes& times) final {
    const std::lock_guard lock(mutex_);
    figures_.limit = limit_of(times, figures_.link_bytes.has_value());
  }
  void advanced(std::uint64_t bytes) final {
    const std::lock_guard lock(mutex_);
    figures_.done_bytes += bytes;
    if (bytes > 0) moved_ = Clock::now();
    show_step();
  }
  void note(const std::string& text) final {
    const std::lock_guard lock(mutex_);
    show_note(text);
  }
  void finish() final {
    const std::lock_guard lock(mutex_);
    show_end();
    ended_ = true;
  }

 protected:
  // At intervals, also where nothing moves.
  void tick() {
    const std::lock_guard lock(mutex_);
    if (!ended_) show_tick();
  }
  // Those that follow are called while nobody else is.
  virtual void show_start() = 0;
  virtual void show_step() = 0;
  virtual void show_tick() = 0;
  virtual void show_end() = 0;
  virtual void show_note(const std::string& text) { Notes::note(text); }

  bool begun() const { return begun_; }
  // Before a run knows what there is to do.
  std::string preparing(Clock::time_point now) const {
    return fmt::format("{}  {}", "preparing",
                       clock_text(std::chrono::duration<double>(now - begin_).count()));
  }
  const ProgressFigures& figures(Clock::time_point now) {
    const auto link_bytes = came();
    if (link_bytes != figures_.link_bytes) moved_ = now;
    figures_.link_bytes = link_bytes;
    figures_.seconds = std::chrono::duration<double>(now - begin_).count();
    figures_.still_seconds =
        now - moved_ >= stalled_ ? std::chrono::duration<double>(now - moved_).count() : 0;
    return figures_;
  }

 private:
  std::optional<std::uint64_t> came() const { return link_ ? link_() : figures_.link_bytes; }

  std::mutex mutex_;
  std::function<std::uint64_t()> link_;  // of a source that is far
  ProgressFigures figures_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point moved_;  // when bytes were done last
  std::chrono::milliseconds stalled_;
  bool begun_ = false;
  bool ended_ = false;
};

class Bar final : public Shown {
 public:
  Bar(bool quiet, std::chrono::milliseconds interval)
      : Shown(quiet, interval),
        ticker_(std::clamp(interval, kShortestTick, kBarTick), [this] { tick(); }) {}
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  ~Bar() override {
    ticker_.stop();
    clear();
  }

 private:
  void show_start() override { draw(); }
  void show_step() override {
    if (Clock::now() - drawn_ >= kRedrawInterval) draw();
  }
  void show_tick() override { draw(); }
  void show_note(const std::string& text) override {
    const bool shown = shown_;
    clear();
    Shown::show_note(text);
    if (shown) draw();
  }
  void show_end() override {
    if (shown_ && begun()) draw();
    clear();
  }

  void draw() {
    drawn_ = Clock::now();
    const std::size_t columns = own_columns(STDERR_FILENO).value_or(kDefaultColumns) - 1;
    put("\r" +
        (begun() ? progress_bar(figures(drawn_), columns) : preparing(drawn_).substr(0, columns)) +
        "\x1b[K");
    shown_ = true;
  }
  void clear() {
    if (!shown_) return;
    put("\r\x1b[K");
    shown_ = false;
  }

  Clock::time_point drawn_;
  bool shown_ = false;
  Ticker ticker_;  // the last: it ticks what is above
};

class Lines final : public Shown {
 public:
  // `whole`: the beginning and the end too.
  Lines(bool quiet, std::chrono::milliseconds interval, bool whole)
      : Shown(quiet, interval),
        interval_(interval),
        whole_(whole),
        ticker_(std::max(interval, kShortestTick), [this] { tick(); }) {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() override { ticker_.stop(); }

 private:
  void show_start() override {
    printed_ = Clock::now();
    if (whole_) print();
  }
  void show_step() override {
    if (Clock::now() - printed_ >= interval_) print();
  }
  // The first tick may come soon after a line; then the next one is not late.
  void show_tick() override {
    if (Clock::now() - printed_ >= interval_ / 2) print();
  }
  void show_end() override {
    if (any_ && printed_bytes_ != figures(Clock::now()).done_bytes) print();
    any_ = false;
  }

  void print() {
    printed_ = Clock::now();
    if (!begun()) return put("progress: " + preparing(printed_) + "\n");
    any_ = true;
    printed_bytes_ = figures(printed_).done_bytes;
    put("progress: " + progress_line(figures(printed_)) + "\n");
  }

  std::chrono::milliseconds interval_;
  bool whole_;
  Clock::time_point printed_;
  std::uint64_t printed_bytes_ = 0;
  bool any_ = false;
  Ticker ticker_;  // the last: it ticks what is above
};

}  // namespace

std::string_view limit_of(const StageTimes& times, bool is_far) {
  constexpr double kNoticeableSeconds = 0.05;
  double most = kNoticeableSeconds;
  std::string_view out;
  const auto look = [&](double seconds, std::string_view name) {
    if (seconds <= most) return;
    most = seconds;
    out = name;
  };
  look(times.read_seconds, is_far ? "link" : "read");
  look(times.kernel_seconds, "kernels");
  look(times.write_seconds, "write");
  return out;
}

std::string progress_bar(const ProgressFigures& figures, std::size_t columns) {
  const Texts texts = texts_of(figures);
  struct Part {
    const std::string* text;
    std::size_t width;  // of the longest that this run can have
    bool shown = false;
  };
  const std::size_t bytes_width = 8 + 4 + human_bytes(figures.total_bytes).size();
  std::array<Part, 5> fields{{{&texts.percent, 4},
                              {&texts.bytes, bytes_width},
                              {&texts.rate, figures.link_bytes ? 15U : 10U},
                              {&texts.left, 13},
                              {&texts.limit, 13}}};
  // Most important first; the bar gets what they leave. Of a source that is far, not the bytes.
  constexpr std::array<std::size_t, 5> kNear{0, 3, 1, 2, 4};
  constexpr std::array<std::size_t, 5> kFar{0, 3, 2, 4, 1};
  std::size_t left = columns - std::min(columns, kFewestCells + 2);
  for (const std::size_t index : figures.link_bytes ? kFar : kNear) {
    const std::size_t taken = fields[index].width + (index == 0 ? 1 : 2);
    if (taken > left) break;
    fields[index].shown = true;
    left -= taken;
  }
  const std::size_t cells = std::min(kFewestCells + left, kMostCells);
  const auto full = static_cast<std::size_t>(part_of(figures) * static_cast<double>(cells));
  std::string out = fmt::format("[{}{}]", std::string(full, '#'), std::string(cells - full, '.'));
  for (const Part& field : fields) {
    if (!field.shown) continue;
    const char* gap = &field == fields.data() ? " " : "  ";
    out += &field == &fields.back() ? gap + *field.text
                                    : fmt::format("{}{:>{}}", gap, *field.text, field.width);
  }
  out.resize(std::min(out.find_last_not_of(' ') + 1, columns));
  return out;
}

std::string progress_line(const ProgressFigures& figures) {
  const Texts texts = texts_of(figures);
  std::vector<std::string> known;
  for (const auto* text : {&texts.percent, &texts.bytes, &texts.rate, &texts.left, &texts.limit}) {
    if (!text->empty()) known.push_back(*text);
  }
  return join(known, "  ");
}

std::unique_ptr<Progress> make_progress(const Session& session) {
  const bool always = session.progress == "always";
  if (session.progress == "never" || (session.quiet && !always))
    return std::make_unique<Notes>(session.quiet);
  const std::chrono::milliseconds interval(session.progress_ms);
  if (on_terminal()) return std::make_unique<Bar>(session.quiet, interval);
  return std::make_unique<Lines>(session.quiet, interval, always);
}

std::function<void(const std::string&)> notes_of(Progress& progress) {
  return [&progress](const std::string& text) { progress.note("note: " + text); };
}

OptionTable progress_table(Session& session) {
  return {{.name = "--progress",
           .to = &session.progress,
           .value = "auto|always|never",
           .choices = {"auto", "always", "never"},
           .help = "a bar, without a terminal a line every 30 seconds, on stderr; always: from "
                   "the beginning to the end, and with --quiet"}};
}

std::size_t terminal_columns(int stream) { return known_columns(stream).value_or(kDefaultColumns); }

std::size_t file_columns(int stream) { return known_columns(stream).value_or(kUncutColumns); }

}  // namespace hfshard
