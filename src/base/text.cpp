#include "base/text.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <fnmatch.h>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

namespace hfshard {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<Unit, 14> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"k", 1ULL << 10},
                                       {"m", 1ULL << 20},
                                       {"g", 1ULL << 30},
                                       {"t", 1ULL << 40},
                                       {"kib", 1ULL << 10},
                                       {"mib", 1ULL << 20},
                                       {"gib", 1ULL << 30},
                                       {"tib", 1ULL << 40},
                                       {"kb", 1'000},
                                       {"mb", 1'000'000},
                                       {"gb", 1'000'000'000},
                                       {"tb", 1'000'000'000'000}}};

// Reads digits from the front of `text`; nothing on overflow. `count` is how many there were.
std::optional<std::uint64_t> take_digits(std::string_view& text, std::size_t& count) noexcept {
  std::uint64_t value = 0;
  count = 0;
  while (!text.empty() && is_digit(text.front())) {
    const auto tens = checked_mul(value, 10);
    const auto next =
        tens ? checked_add(*tens, static_cast<std::uint64_t>(text.front() - '0')) : std::nullopt;
    if (!next) return std::nullopt;
    value = *next;
    text.remove_prefix(1);
    ++count;
  }
  return value;
}

// Sets the C locale for this thread while it lives. Globs decide which tensors are written, so they
// must not depend on the locale of the host or of the calling program.
class CLocale {
 public:
  CLocale() : before_(::uselocale(plain())) {}
  CLocale(const CLocale&) = delete;
  CLocale& operator=(const CLocale&) = delete;
  ~CLocale() { ::uselocale(before_); }

 private:
  static ::locale_t plain() {
    static const ::locale_t kLocale = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return kLocale;
  }

  ::locale_t before_;
};

struct CodeRange {
  char32_t first;
  char32_t last;
};

template <std::size_t N>
constexpr bool is_in(const std::array<CodeRange, N>& ranges, char32_t code) noexcept {
  return std::ranges::any_of(
      ranges, [&](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

// The bytes of a character as they are, or as escapes.
void append_shown(std::string& out, std::string_view bytes, bool shown) {
  if (shown) {
    out += bytes;
    return;
  }
  for (const char c : bytes)
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
}

// Levenshtein distance, or more than `limit` once it is sure to exceed it.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    std::size_t smallest = row[0];
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
      smallest = std::min(smallest, row[j + 1]);
    }
    if (smallest > limit) return limit + 1;
  }
  return row.back();
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) noexcept {
  constexpr char32_t kReplacement = 0xfffd;
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  std::uint32_t code = lead & (0x7fU >> size);
  bool good = lead >= 0xc2 && lead <= 0xf4;
  for (std::size_t i = 1; i < size; ++i) {
    good = good && (byte(i) & 0xc0U) == 0x80;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  good = good && code >= kSmallest[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return good ? Utf8Char{code, size, true} : Utf8Char{kReplacement, 1, false};
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (!next.valid) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

bool is_shown(char32_t code) noexcept {
  // Unicode's Cc, Cf, Zl and Zp, as far as they reach a terminal, and what is no character.
  constexpr std::array<CodeRange, 16> kHidden{{{0x00, 0x1f},
                                               {0x7f, 0x9f},
                                               {0xad, 0xad},
                                               {0x600, 0x605},
                                               {0x61c, 0x61c},
                                               {0x6dd, 0x6dd},
                                               {0x70f, 0x70f},
                                               {0x180e, 0x180e},
                                               {0x200b, 0x200f},
                                               {0x2028, 0x202e},
                                               {0x2060, 0x206f},
                                               {0xfdd0, 0xfdef},
                                               {0xfeff, 0xfeff},
                                               {0xfff9, 0xfffb},
                                               {0x1d173, 0x1d17a},
                                               {0xe0000, 0xe0fff}}};
  return (code & 0xfffeU) != 0xfffe && !is_in(kHidden, code);
}

std::size_t display_width(std::string_view text) noexcept {
  // Source: Unicode 15, EastAsianWidth.txt (W, F) and the blocks of combining marks, joined.
  constexpr std::array<CodeRange, 6> kCombining{{{0x300, 0x36f},
                                                 {0x1ab0, 0x1aff},
                                                 {0x1dc0, 0x1dff},
                                                 {0x20d0, 0x20ff},
                                                 {0xfe00, 0xfe0f},
                                                 {0xfe20, 0xfe2f}}};
  constexpr std::array<CodeRange, 9> kWide{{{0x1100, 0x115f},
                                            {0x2e80, 0x303e},
                                            {0x3041, 0xa4cf},
                                            {0xac00, 0xd7a3},
                                            {0xf900, 0xfaff},
                                            {0xfe30, 0xfe6f},
                                            {0xff00, 0xff60},
                                            {0x1f300, 0x1faff},
                                            {0x20000, 0x3fffd}}};
  std::size_t out = 0;
  while (!text.empty()) {
    const Utf8Char at = decode_utf8(text);
    text.remove_prefix(at.bytes);
    if (!is_in(kCombining, at.code)) out += is_in(kWide, at.code) ? std::size_t{2} : std::size_t{1};
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char at = decode_utf8(text);
    append_shown(out, text.substr(0, at.bytes), at.valid && is_shown(at.code));
    text.remove_prefix(at.bytes);
  }
  return out;
}

std::string quote(std::string_view name) {
  std::string out = "\"";
  while (!name.empty()) {
    const Utf8Char at = decode_utf8(name);
    if (at.code == '"' || at.code == '\\') out.push_back('\\');
    append_shown(out, name.substr(0, at.bytes), at.valid && is_shown(at.code));
    name.remove_prefix(at.bytes);
  }
  out.push_back('"');
  return out;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(text);
  const auto controls = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  // Where a terminal would obey a character, in the form that has a name for it.
  const bool named = std::ranges::any_of(text, controls);
  std::string out = named ? "$'" : "'";
  for (const char c : text) {
    if (controls(c)) {
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else if (c == '\'') {
      out += named ? "\\'" : "'\\''";
    } else if (c == '\\' && named) {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string three_digits(double value) {
  return value >= 999.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1023.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kNames[unit]);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::size_t count = 0;
  const auto whole = take_digits(text, count);
  if (!whole || count == 0) return std::nullopt;
  std::uint64_t fraction = 0;
  std::uint64_t scale = 1;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    const auto digits = take_digits(text, count);
    if (!digits || count == 0 || count > 6) return std::nullopt;
    fraction = *digits;
    for (; count > 0; --count) scale *= 10;
  }
  if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const std::string name = lower_case(text);
  const auto unit = std::ranges::find(kUnits, std::string_view(name), &Unit::name);
  if (unit == kUnits.end() || (scale != 1 && unit->bytes == 1)) return std::nullopt;
  const auto base = checked_mul(*whole, unit->bytes);
  if (!base) return std::nullopt;
  return checked_add(*base, fraction * unit->bytes / scale);
}

bool glob_match(std::string_view pattern, std::string_view name) {
  // fnmatch ends at a NUL, and would take a name for its beginning.
  if (pattern.find('\0') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return false;
  }
  // Most names differ before the first wildcard, and most patterns have one `*` or none.
  constexpr std::string_view kWild = "*?[";
  const std::size_t literal = std::min(pattern.find_first_of(kWild), pattern.size());
  if (!name.starts_with(pattern.substr(0, literal))) return false;
  pattern.remove_prefix(literal);
  name.remove_prefix(literal);
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*' && pattern.find_first_of(kWild, 1) == std::string_view::npos)
    return name.ends_with(pattern.substr(1));
  const CLocale plain;
  return ::fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

std::string glob_of(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool wild = c == '*' || c == '?' || c == '[';
    out += wild ? std::string{'[', c, ']'} : std::string(1, c);
  }
  return out;
}

std::vector<std::string> near_names(std::string_view name,
                                    const std::vector<std::string>& candidates, std::size_t count) {
  const std::size_t limit = std::max<std::size_t>(2, name.size() / 3);
  std::vector<std::pair<std::size_t, const std::string*>> found;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate, limit);
    if (distance <= limit) found.emplace_back(distance, &candidate);
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  std::vector<std::string> out;
  for (const auto& [distance, candidate] : found) {
    if (out.size() == count) break;
    out.push_back(*candidate);
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower_case(c);
  return out;
}

std::size_t common_prefix(std::string_view a, std::string_view b) noexcept {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string quoted_list(const std::vector<std::string>& names, std::size_t most) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) shown.push_back(quote(names[i]));
  std::string out = join(shown, ", ");
  if (names.size() > most) out += " and " + std::to_string(names.size() - most) + " more";
  return out;
}

std::string there_are(const std::vector<std::string>& names) {
  return (names.size() == 1 ? "the only one is " : "there are ") + join(names, ", ");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator)) {
    out.emplace_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  out.emplace_back(text);
  return out;
}

std::string first_key(std::string_view path) { return std::string(path.substr(0, path.find('.'))); }

}  // namespace hfshard
