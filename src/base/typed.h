#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

// Reads words that people type.

/// Returns the scheme of a URL: "gs" for `gs://bucket/x`. Empty if the text isn't a URL (RFC 3986,
/// 3.1).
std::string_view url_scheme(std::string_view text) noexcept;

/// Parses a whole number in decimal digits. Returns nothing for signs, fractions, blanks, and
/// numbers beyond 64 bits.
std::optional<std::uint64_t> parse_whole(std::string_view text) noexcept;

/// Returns the names that an unknown word probably meant. Like near_names, but also resolves
/// capitals and other names for dtypes and mesh axes ("bfloat16", "tp").
std::vector<std::string> meant_names(std::string_view word, const std::vector<std::string>& known);

/// Returns `did you mean A or B?`, or `known are A, B, C` if nothing is near.
std::string name_hint(std::string_view word, const std::vector<std::string>& known);

}  // namespace hfshard
