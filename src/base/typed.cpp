#include "base/typed.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace hfshard {
namespace {

// Names that other programs have for the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kAliases = {{
    {"bfloat16", "bf16"},
    {"float16", "f16"},
    {"fp16", "f16"},
    {"half", "f16"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"float", "f32"},
    {"tp", "tensor"},
    {"dp", "data"},
    {"ep", "expert"},
    {"pp", "stage"},
    {"cp", "context"},
    {"pytorch", "dcp"},
    {"torch", "dcp"},
    {"hf", "safetensors"},
    {"huggingface", "safetensors"},
    {"huggingface", "hf"},
    {"transformers", "hf"},
}};

}  // namespace

std::string_view url_scheme(std::string_view text) noexcept {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view scheme = text.substr(0, colon);
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
  };
  const bool valid = std::isalpha(static_cast<unsigned char>(scheme.front())) != 0 &&
                     std::ranges::all_of(scheme, fits);
  return valid ? scheme : std::string_view{};
}

std::optional<std::uint64_t> parse_whole(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc() || at != end) return std::nullopt;
  return value;
}

std::vector<std::string> meant_names(std::string_view word, const std::vector<std::string>& known) {
  const std::string small = lower_case(word);
  if (std::ranges::find(known, small) != known.end()) return {small};
  for (const auto& [other, name] : kAliases) {
    if (other == small && std::ranges::find(known, name) != known.end()) return {std::string(name)};
  }
  // All short words are near to a short word.
  return small.size() < 3 ? std::vector<std::string>{} : near_names(small, known);
}

std::string name_hint(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string> meant = meant_names(word, known);
  return meant.empty() ? "pass one of " + join(known, ", ")
                       : "did you mean " + join(meant, " or ") + "?";
}

}  // namespace hfshard
