#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

/// A character at the front of a text.
struct Utf8Char {
  char32_t code = 0;      ///< U+FFFD if the bytes are no UTF-8
  std::size_t bytes = 1;  ///< that it takes
  bool valid = false;
};
/// Throws nothing; an empty text has the character 0.
Utf8Char decode_utf8(std::string_view text) noexcept;
/// Returns whether a text is UTF-8. Python's texts can have surrogates, which UTF-8 excludes.
bool is_utf8(std::string_view text) noexcept;
/// Returns whether a terminal shows a character and does nothing else. False for control characters
/// (C0, C1, DEL) and characters that change the direction of text, end a line or are invisible.
bool is_shown(char32_t code) noexcept;
/// Returns the columns that a terminal takes for a text: 0 for combining accents, 2 for the wide
/// characters of East Asia and emoji.
std::size_t display_width(std::string_view text) noexcept;
/// Puts a name from a file in double quotes, safe for a terminal. Escapes what isn't UTF-8 and
/// characters that a terminal doesn't show.
std::string quote(std::string_view name);
/// Escapes the same without quotes, for paths on a line of their own.
std::string printable(std::string_view text);
/// Quotes a word for a shell, if it needs quotes. Words with control characters become `$'...'`,
/// which bash, zsh and POSIX 2024 read.
std::string shell_word(std::string_view text);
/// Formats a number with three significant digits, or with its whole part where that has four.
std::string three_digits(double value);
/// `64 MiB`, `1.19 GiB`, `20 B`: binary units, three significant digits.
std::string human_bytes(std::uint64_t bytes);
/// Parses `64MiB`, `2GiB`, `512K`, `1000000`, `1.5GiB`; K/M/G/T and KiB/MiB/... are binary,
/// KB/MB/GB decimal; case does not matter. Nothing if malformed or beyond 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// Matches a whole name against a shell-style glob, as fnmatch(3) does in the C locale. `*` is any
/// run (dots and slashes too), `?` one byte, `[a-c]`, `[!a]` and `[[:digit:]]` sets of bytes. A
/// backslash is itself. A name with a NUL byte matches nothing.
bool glob_match(std::string_view pattern, std::string_view name);
/// Returns the glob that matches only this name.
std::string glob_of(std::string_view name);
/// Returns up to `count` candidates that are near to `name` by edit distance, nearest first.
std::vector<std::string> near_names(std::string_view name,
                                    const std::vector<std::string>& candidates,
                                    std::size_t count = 3);
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
/// Lowers ASCII letters. Other bytes stay as they are, in every locale.
constexpr char lower_case(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower_case(std::string_view text);
/// Returns the length of the longest common prefix.
std::size_t common_prefix(std::string_view a, std::string_view b) noexcept;
/// Joins with a separator.
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// Formats names for one line: `"a", "b", "c"`. If there are more than `most`, prints the first
/// ones and how many follow.
std::string quoted_list(const std::vector<std::string>& names, std::size_t most = 8);
/// Formats names for hints: "there are a, b", or "the only one is a".
std::string there_are(const std::vector<std::string>& names);
/// Splits at every separator; n separators give n + 1 parts.
std::vector<std::string> split(std::string_view text, char separator);
/// Returns the first key of a dotted path: "opt_state" of "opt_state.mu.kernel".
std::string first_key(std::string_view path);

}  // namespace hfshard
