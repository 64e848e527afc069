#include "tool/values.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

#include "hfshard/error.h"

namespace hfshard {

std::size_t one_of(const std::string& value, const std::vector<std::string>& known,
                   std::string_view flag) {
  const auto at = std::ranges::find(known, value);
  if (at != known.end()) return static_cast<std::size_t>(at - known.begin());
  throw Error(ErrorCode::usage, fmt::format("{} {} is not known", flag, quote(value)))
      .hint(name_hint(value, known));
}

CLI::Validator choice(std::string flag, std::vector<std::string> known) {
  const auto check = [flag = std::move(flag), known = std::move(known)](const std::string& text) {
    one_of(text, known, flag);
    return std::string();
  };
  return {check, ""};
}

CLI::Validator whole(std::string flag, std::uint64_t least, std::uint64_t most) {
  const auto check = [flag = std::move(flag), least, most](const std::string& text) {
    const auto value = parse_whole(text);
    if (value && *value >= least && *value <= most) return std::string();
    throw Error(ErrorCode::usage, fmt::format("{} wants a whole number from {} to {}, not {}", flag,
                                              least, most, quote(text)));
  };
  return {check, ""};
}

}  // namespace hfshard
