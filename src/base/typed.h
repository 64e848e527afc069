#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

// What people type.

/// The scheme of a URL: "gs" of `gs://bucket/x`; empty if the text is none (RFC 3986, 3.1).
std::string_view url_scheme(std::string_view text) noexcept;

/// A whole number in decimal digits. Nothing of anything else: signs, fractions, blanks, beyond 64
/// bits.
std::optional<std::uint64_t> parse_whole(std::string_view text) noexcept;

/// What was probably meant by a word that is none of `known`: as near_names, and the long and
/// short names of dtypes and mesh axes ("bfloat16", "tp") and capitals.
std::vector<std::string> meant_names(std::string_view word, const std::vector<std::string>& known);

/// `did you mean A or B?`, or `known are A, B, C` if nothing is near.
std::string name_hint(std::string_view word, const std::vector<std::string>& known);

}  // namespace hfshard
