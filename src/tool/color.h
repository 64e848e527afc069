#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hfshard {

/// The meaning of a text, which decides its color on a terminal.
enum class Tone : std::uint8_t {
  error,       ///< a run that failed
  warning,     ///< a result that may be unwanted
  difference,  ///< data that should be equal
  work,        ///< the finished part of the bar
};

/// Sets when to use color: "auto", "always" or "never", as in --color.
void choose_color(std::string_view when);
/// Returns whether a stream gets color. For "auto", NO_COLOR and CLICOLOR_FORCE decide first;
/// otherwise a terminal that has colors gets color. Source: no-color.org; bixense.com/clicolors.
bool has_color(int stream);
/// Returns the text in its color, or unchanged.
std::string colored(Tone tone, std::string_view text, int stream);
/// Returns the printable lines of a note for standard error, wrapped at words. A first word
/// `warning:` is colored.
std::string note_lines(const std::string& text);

}  // namespace hfshard
