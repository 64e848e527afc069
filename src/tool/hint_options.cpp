#include "tool/hint_options.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

bool has_option(const Command& command, std::string_view name) {
  return std::ranges::any_of(command.options,
                             [&](const Option& option) { return option.name == name; });
}

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

bool names_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_character(text[at - 1])) &&
        (end == text.size() || !is_word_character(text[end])))
      return true;
  }
  return false;
}

// Returns the first command of `app` that has the option, or null.
const Command* owner_of(const Command& app, std::string_view option) {
  for (const Command& other : app.commands) {
    if (has_option(other, option)) return &other;
  }
  return nullptr;
}

// Returns whether `hint` names a command that has the option, as in "run convert --to safetensors".
bool names_owner(const Command& app, std::string_view option, std::string_view hint) {
  return std::ranges::any_of(app.commands, [&](const Command& other) {
    return has_option(other, option) && names_word(hint, other.name);
  });
}

// Returns the options that `text` names, such as `--scheme`.
std::vector<std::string_view> options_in(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = text.find("--"); at != std::string_view::npos; at = text.find("--", at)) {
    std::size_t end = at + 2;
    while (end < text.size() && is_word_character(text[end])) ++end;
    const bool is_start = at == 0 || !is_word_character(text[at - 1]);
    if (is_start && end > at + 2) out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace

std::string with_owners(const Command& app, const Command& command, std::string_view hint) {
  std::vector<std::string> names;
  const Command* owner = nullptr;
  for (const std::string_view option : options_in(hint)) {
    if (has_option(command, option) || names_owner(app, option, hint)) continue;
    const Command* const has = owner_of(app, option);
    if (has == nullptr) continue;
    if (owner == nullptr) owner = has;
    if (owner == has && !std::ranges::count(names, option)) names.emplace_back(option);
  }
  if (names.empty()) return std::string(hint);
  return fmt::format("{} ({} of {})", hint,
                     names.size() == 1 ? fmt::format("{} is an option", names.front())
                                       : fmt::format("{} are options", join(names, ", ")),
                     owner->name);
}

}  // namespace hfshard
