#include "format/unreadable.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard::format {

Error with_way_out(Error why, std::string_view name) {
  why.hint(fmt::format("if the model doesn't need the tensor, pass --exclude '{}'",
                       printable(glob_of(name))));
  return why;
}

UnreadableArray accept_unreadable(const std::vector<std::string>& without, std::string_view name,
                                  Error why) {
  if (why.code() != ErrorCode::unsupported) throw std::move(why);
  const auto fits = [&](const std::string& glob) { return glob_match(glob, name); };
  if (std::ranges::any_of(without, fits)) return {std::string(name), why.sentence()};
  throw with_way_out(std::move(why), name);
}

}  // namespace hfshard::format
