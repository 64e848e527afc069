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
/// Whether a terminal shows a character and does nothing else: no control character (C0, C1, DEL),
/// none that changes the direction of text, ends a line or is invisible.
bool is_shown(char32_t code) noexcept;
/// Columns that a terminal takes for a text: none for accents that combine, two for the wide
/// characters of East Asia and emoji.
std::size_t display_width(std::string_view text) noexcept;
/// A name from a file, in double quotes: UTF-8 as it is, what is not shown or is no UTF-8 escaped
/// (safe for a terminal).
std::string quote(std::string_view name);
/// Same escapes, without the quotes: for paths on a line of their own.
std::string printable(std::string_view text);
/// A word as a shell reads it back: in single quotes if it needs any, and where it has characters
/// that a terminal obeys, with names for those (`$'...'`, of bash, zsh and POSIX of 2024).
std::string shell_word(std::string_view text);
/// `64 MiB`, `1.19 GiB`, `20 B`: binary units, three significant digits.
std::string human_bytes(std::uint64_t bytes);
/// Parses `64MiB`, `2GiB`, `512K`, `1000000`, `1.5GiB`; K/M/G/T and KiB/MiB/... are binary,
/// KB/MB/GB decimal; case does not matter. Nothing if malformed or beyond 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// Shell-style glob over a whole name, as fnmatch(3) has it: `*` any run (dots and slashes too),
/// `?` one byte, `[a-c]`, `[!a]` and `[[:digit:]]` sets of bytes, in every locale alike; a
/// backslash is itself. A name with a NUL byte matches nothing.
bool glob_match(std::string_view pattern, std::string_view name);
/// The up to `count` candidates nearest to `name` by edit distance, nearest first; far ones are
/// left out.
std::vector<std::string> near_names(std::string_view name,
                                    const std::vector<std::string>& candidates,
                                    std::size_t count = 3);
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
/// Of ASCII; other bytes stay as they are, in every locale.
constexpr char lower_case(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower_case(std::string_view text);
/// How many bytes two texts begin with alike.
std::size_t common_prefix(std::string_view a, std::string_view b) noexcept;
/// Joins with a separator.
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// For hints: "there are a, b", or "the only one is a".
std::string there_are(const std::vector<std::string>& names);
/// Splits at every separator; n separators give n + 1 parts.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace hfshard
