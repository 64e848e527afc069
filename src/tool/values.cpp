#include "tool/values.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

#include "hfshard/error.h"

namespace hfshard {

std::size_t one_of(const std::string& value, const std::vector<std::string>& known,
                   std::string_view option) {
  const auto at = std::ranges::find(known, value);
  if (at != known.end()) return static_cast<std::size_t>(at - known.begin());
  throw Error(ErrorCode::usage, fmt::format("{} can't be {}", option, quote(value)))
      .hint(name_hint(value, known));
}

void check_whole(const std::string& text, std::string_view option, std::uint64_t least,
                 std::uint64_t most) {
  const auto value = parse_whole(text);
  if (value && *value >= least && *value <= most) return;
  const bool is_less = value && *value < least;
  throw Error(ErrorCode::usage, fmt::format("{} needs a whole number from {} to {}, not {}", option,
                                            least, most, quote(text)))
      .hint(value ? fmt::format("pass {} {} or {}", option, is_less ? least : most,
                                is_less ? "more" : "less")
                  : fmt::format("pass a number, such as {} {}", option,
                                std::max<std::uint64_t>(least, 1)));
}

}  // namespace hfshard
