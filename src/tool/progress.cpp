#include "tool/progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "tool/color.h"
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
// Time without a byte after which progress says so, as a share of 30 s between two lines.
constexpr int kStalledShare = 3;
constexpr std::chrono::milliseconds kShortestStall{200};
constexpr std::size_t kFewestCells = 8;
constexpr std::size_t kMostCells = 40;
constexpr std::size_t kDefaultColumns = 80;
constexpr std::size_t kLeastColumns = 20;  // no terminal has fewer
constexpr std::size_t kUncutColumns = 1000000;
constexpr double kLongestEtaSeconds = 99 * 3600.0;
constexpr double kShortestRateSeconds = 0.2;  // a rate means nothing before

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const std::uint64_t hours = whole / 3600;
  const std::uint64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

// Nothing here may fail: a run must not end because its bar can't be drawn.
void put(const std::string& text) {
  static_cast<void>(std::fputs(text.c_str(), stderr));
  static_cast<void>(std::fflush(stderr));
}

// Returns the width of the terminal itself, which bounds the bar.
std::optional<std::size_t> own_columns(int stream) {
  struct winsize size {};
  if (::ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

// Returns COLUMNS, or the terminal's width.
std::optional<std::size_t> known_columns(int stream) {
  const auto wanted = variable("COLUMNS");
  const auto given = wanted ? parse_whole(*wanted) : std::nullopt;
  if (given && *given >= kLeastColumns && *given <= kUncutColumns) return *given;
  return own_columns(stream);
}

// Returns whether the stream can overwrite a line.
bool on_terminal() {
  if (::isatty(STDERR_FILENO) != 1) return false;
  return variable("TERM") != "dumb";
}

// Returns the share that is done; for a remote source, of what came. It is 1 only at the end.
std::uint64_t shown_bytes(const ProgressFigures& figures) {
  const std::uint64_t total = figures.total_bytes;
  const std::uint64_t most_came = total - std::min(total, std::max<std::uint64_t>(total / 100, 1));
  return std::max(std::min(figures.done_bytes, total), std::min(figures.came_bytes, most_came));
}

double part_of(const ProgressFigures& figures) {
  if (figures.total_bytes == 0) return 1;
  return static_cast<double>(shown_bytes(figures)) / static_cast<double>(figures.total_bytes);
}

// The texts next to the bar; empty while unknown.
struct Texts {
  std::string percent, bytes, rate, left, limit;
};

Texts texts_of(const ProgressFigures& figures) {
  const std::uint64_t done = shown_bytes(figures);
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
  if (figures.link_bytes.value_or(0) > 0 && !is_early) {  // even before anything is done
    out.rate = "link " + text_of(rate_of(*figures.link_bytes));
  }
  if (fresh > 0 && !is_early) {
    const double rate = rate_of(fresh);
    if (!figures.link_bytes) out.rate = text_of(rate);
    const double recent = figures.recent_rate.value_or(0);
    const double left =
        static_cast<double>(figures.total_bytes - done) / (recent > 0 ? recent : rate);
    if (figures.recent_rate && left > 0 && left <= kLongestEtaSeconds)
      out.left = fmt::format("{} left", clock_text(left));
    if (!figures.limit.empty()) out.limit = fmt::format("limit {}", figures.limit);
  }
  if (figures.still_seconds > 0) {  // the time left would be a guess
    out.left =
        fmt::format("{} {}", figures.done_bytes >= figures.total_bytes ? "finishing" : "stalled",
                    clock_text(figures.still_seconds));
  }
  return out;
}

// Prints notes, and keeps the state that all kinds of progress need.
class Notes : public Progress {
 public:
  explicit Notes(bool quiet) : quiet_(quiet) {}
  void planned(const PlanSummary& plan) override {
    if (plan.source_bytes > 0)
      output_part_ =
          static_cast<double>(plan.output_bytes) / static_cast<double>(plan.source_bytes);
    for (const std::string& text : source_notes(plan)) held_.push_back(note_lines(text));
    for (const std::string& line : link_lines(plan)) {
      std::string text = printable(line) + "\n";
      if (plan.not_linked.empty()) {
        held_.push_back(std::move(text));
      } else {  // may explain why the output is refused
        say(text);
      }
    }
    for (const std::string& line : load_lines(plan)) held_.push_back(printable(line) + "\n");
  }
  void resumed(const FoundWork& found) override {
    release();
    if (found.bytes == 0 && found.arrived_bytes == 0)
      return note("nothing to resume: no earlier run with these options has written data here");
    const std::string total = human_bytes(found.total_bytes);
    const std::string done =
        found.bytes > 0
            ? fmt::format("{} of {} are already written (by {} {})", human_bytes(found.bytes),
                          total, found.workers, found.workers == 1 ? "worker" : "workers")
            : fmt::format("{} have arrived, and none of {} is written yet",
                          human_bytes(found.arrived_bytes), total);
    note(fmt::format("{}: {}{}", found.asked ? "resuming" : "continuing a stopped run", done,
                     found.asked ? "" : "; run hfshard clean OUT to start over"));
  }
  void note(const std::string& text) final { say(note_lines("note: " + text)); }
  void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) override {
    release();
  }
  void finish() override { release(); }

 protected:
  // Prints notes on the plan once the output can't be refused any more.
  void release() {
    for (const std::string& lines : std::exchange(held_, {})) say(lines);
  }
  // Prints whole lines.
  virtual void say(const std::string& lines) {
    if (!quiet_) put(lines);
  }
  // Bytes of output for a byte of the source.
  double output_part() const { return output_part_; }

 private:
  double output_part_ = 1;
  bool quiet_;
  std::vector<std::string> held_;  // whole lines
};

// The state of a run, shared between the working thread and the ticking one.
class Shown : public Notes {
 public:
  Shown(bool quiet, std::chrono::milliseconds interval)
      : Notes(quiet), stalled_(std::max(interval / kStalledShare, kShortestStall)) {}
  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) final {
    release();
    const std::lock_guard lock(mutex_);
    figures_ = {total_bytes, already_done_bytes, already_done_bytes, 0, {}, 0, {}};
    figures_.link_bytes = came();
    came_before_ = figures_.link_bytes.value_or(0);
    recent_ = {};
    begin_ = moved_ = Clock::now();
    begun_ = true;
    show_start();
  }
  void linked(const std::function<std::uint64_t()>& bytes) final {
    const std::lock_guard lock(mutex_);
    figures_.link_bytes = came();  // as many as ever
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
  void finish() final {
    release();
    const std::lock_guard lock(mutex_);
    show_end();
    ended_ = true;
  }

 protected:
  void say(const std::string& text) final {
    const std::lock_guard lock(mutex_);
    show_note(text);
  }
  // Called at intervals, even if nothing moves.
  void tick() {
    const std::lock_guard lock(mutex_);
    if (!ended_) show_tick();
  }
  // The caller makes sure that these don't run at the same time.
  virtual void show_start() = 0;
  virtual void show_step() = 0;
  virtual void show_tick() = 0;
  virtual void show_end() = 0;
  virtual void show_note(const std::string& text) { Notes::say(text); }

  bool begun() const { return begun_; }
  // Before the run knows its total.
  std::string preparing(Clock::time_point now) const {
    return fmt::format("{}  {}", "preparing",
                       clock_text(std::chrono::duration<double>(now - begin_).count()));
  }
  const ProgressFigures& figures(Clock::time_point now) {
    const auto link_bytes = came();
    if (link_bytes != figures_.link_bytes) moved_ = now;
    figures_.link_bytes = link_bytes;
    figures_.seconds = std::chrono::duration<double>(now - begin_).count();
    if (link_bytes) {
      const auto came = static_cast<double>(*link_bytes - std::min(*link_bytes, came_before_));
      figures_.came_bytes =
          figures_.earlier_bytes + static_cast<std::uint64_t>(came * output_part());
      recent_.add(figures_.seconds, shown_bytes(figures_) - figures_.earlier_bytes);
      figures_.recent_rate = recent_.value();
    }
    figures_.still_seconds =
        now - moved_ >= stalled_ ? std::chrono::duration<double>(now - moved_).count() : 0;
    return figures_;
  }

 private:
  std::optional<std::uint64_t> came() const { return link_ ? link_() : figures_.link_bytes; }

  std::mutex mutex_;
  std::function<std::uint64_t()> link_;  // for a remote source
  ProgressFigures figures_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point moved_;  // when the last bytes were done
  std::chrono::milliseconds stalled_;
  std::uint64_t came_before_ = 0;  // over the network, before the work
  RecentRate recent_;
  bool begun_ = false;
  bool ended_ = false;
};

// A bar that colors its finished part.
std::string in_color(const std::string& bar) {
  const std::size_t end = bar.find_last_of('#') + 1;
  if (end < 2) return bar;
  return bar.substr(0, 1) +
         colored(Tone::work, std::string_view(bar).substr(1, end - 1), STDERR_FILENO) +
         bar.substr(end);
}

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
        (begun() ? in_color(progress_bar(figures(drawn_), columns))
                 : preparing(drawn_).substr(0, columns)) +
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
  Ticker ticker_;  // last, because it ticks the members above
};

class Lines final : public Shown {
 public:
  // `whole`: also at the start and end.
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
  // The first tick may follow a line closely; then the next one isn't late.
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
  Ticker ticker_;  // last, because it ticks the members above
};

}  // namespace

void RecentRate::add(double seconds, std::uint64_t bytes) {
  constexpr double kShortestStep = 0.05;  // seconds; less means nothing
  constexpr double kMemory = 5;           // seconds with the most weight
  if (bytes == 0) return;
  if (!first_seconds_) {
    first_seconds_ = last_seconds_ = seconds;
    first_bytes_ = last_bytes_ = bytes;
    return;
  }
  const double step = seconds - last_seconds_;
  if (step < kShortestStep) return;
  const double now = static_cast<double>(bytes - std::min(bytes, last_bytes_)) / step;
  const double whole = seconds - *first_seconds_;
  const double weight = 1 - std::exp(-step / std::min(kMemory, whole));
  rate_ = last_seconds_ == *first_seconds_ ? now : rate_ + weight * (now - rate_);
  last_seconds_ = seconds;
  last_bytes_ = bytes;
}

std::optional<double> RecentRate::value() const {
  constexpr double kEnough = 2;  // seconds
  if (!first_seconds_ || last_seconds_ - *first_seconds_ < kEnough || rate_ <= 0)
    return std::nullopt;
  return rate_;
}

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
    std::size_t width;  // for the longest possible run
    bool shown = false;
  };
  const std::size_t bytes_width = 8 + 4 + human_bytes(figures.total_bytes).size();
  std::array<Part, 5> fields{{{&texts.percent, 4},
                              {&texts.bytes, bytes_width},
                              {&texts.rate, figures.link_bytes ? 15U : 10U},
                              {&texts.left, 13},
                              {&texts.limit, 13}}};
  // Most important first; the bar gets the remaining columns. A remote source doesn't show bytes.
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
  return [&progress](const std::string& text) { progress.note(text); };
}

OptionTable progress_table(Session& session) {
  return {{.name = "--progress",
           .to = &session.progress,
           .value = "auto|always|never",
           .choices = {"auto", "always", "never"},
           .help = "progress on standard error: a bar, or a line every 30 seconds without a "
                   "terminal; always: also at the start and end, and with --quiet"}};
}

std::size_t terminal_columns(int stream) { return known_columns(stream).value_or(kDefaultColumns); }

std::size_t file_columns(int stream) { return known_columns(stream).value_or(kUncutColumns); }

}  // namespace hfshard
