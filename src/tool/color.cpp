#include "tool/color.h"

#include <atomic>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/environment.h"
#include "tool/help.h"
#include "tool/progress.h"

namespace hfshard {
namespace {

enum class When : std::uint8_t { automatic, always, never };

std::atomic<When> g_when{
    When::automatic};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): set once

// Source: ECMA-48, 8.3.117 (SGR).
std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::error:
      return "1;31";
    case Tone::warning:
      return "1;33";
    case Tone::difference:
      return "31";
    case Tone::work:
      return "32";
  }
  return "0";
}

}  // namespace

void choose_color(std::string_view when) {
  g_when = when == "always" ? When::always : when == "never" ? When::never : When::automatic;
}

bool has_color(int stream) {
  if (g_when != When::automatic) return g_when == When::always;
  if (variable("NO_COLOR")) return false;
  if (const auto force = variable("CLICOLOR_FORCE"); force && *force != "0") return true;
  if (const auto wanted = variable("CLICOLOR"); wanted && *wanted == "0") return false;
  return ::isatty(stream) == 1 && variable("TERM").value_or("dumb") != "dumb";
}

std::string colored(Tone tone, std::string_view text, int stream) {
  if (text.empty() || !has_color(stream)) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(tone), text);
}

std::string note_lines(const std::string& text) {
  constexpr std::string_view kWarning = "warning:";
  constexpr std::size_t kHang = 2;  // of a line that continues
  const std::string shown = printable(text);
  std::vector<std::string> lines = wrapped(shown, file_columns(STDERR_FILENO) - kHang);
  if (shown.starts_with(kWarning)) {
    lines.front() =
        colored(Tone::warning, kWarning, STDERR_FILENO) + lines.front().substr(kWarning.size());
  }
  return join(lines, "\n" + std::string(kHang, ' ')) + "\n";
}

}  // namespace hfshard
