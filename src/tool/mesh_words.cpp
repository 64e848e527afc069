#include "tool/mesh_words.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "base/text.h"
#include "base/typed.h"
#include "tool/habit_tables.h"

namespace hfshard {

std::string axis_of(std::string_view axis) {
  constexpr std::string_view kEnd = "-parallelism";
  if (axis.starts_with("ici-") && axis.ends_with(kEnd)) {
    axis.remove_prefix(4);
    axis.remove_suffix(kEnd.size());
  }
  const auto* found = std::ranges::find(habit::kAxes, axis, &habit::Other::typed);
  return found == std::end(habit::kAxes) ? std::string() : std::string(found->meant);
}

std::string mesh_of(std::string typed) {
  if (parse_whole(typed)) return "fsdp=" + typed;
  std::erase_if(typed, [](char c) { return c == '{' || c == '}' || c == '"' || c == '\''; });
  std::ranges::replace(typed, ':', '=');
  for (const char* blank : {" =", "= "}) {
    for (std::size_t at = 0; (at = typed.find(blank)) != std::string::npos;)
      typed.replace(at, 2, "=");
  }
  std::ranges::replace_if(
      typed, [](char c) { return c == ' ' || c == ';'; }, ',');
  std::vector<std::string> out;
  for (std::string axis : split(typed, ',')) {
    if (axis.empty()) continue;
    std::size_t sign = axis.find('=');
    const std::size_t digits = axis.find_last_not_of("0123456789") + 1;
    const bool named = !axis_of(lower_case(axis.substr(0, digits))).empty();
    if (sign == std::string::npos && named && digits < axis.size()) {  // `fsdp16`
      axis.insert(digits, "=");
      sign = digits;
    }
    const std::string name = lower_case(std::string_view(axis).substr(0, sign));
    const std::string meant = axis_of(name);
    out.push_back(sign == std::string::npos ? axis
                                            : (meant.empty() ? name : meant) + axis.substr(sign));
  }
  return join(out, ",");
}

bool is_axis(const std::string& word) {
  const std::size_t sign = word.find('=');
  return sign != std::string::npos && sign > 0 && sign + 1 < word.size() &&
         std::ranges::all_of(word.substr(0, sign),
                             [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; }) &&
         std::ranges::all_of(word.substr(sign + 1), is_digit);
}

bool is_mesh(const std::string& text) { return std::ranges::all_of(split(text, ','), is_axis); }

}  // namespace hfshard
