#include "tool/steps.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace hfshard {

void add_steps(std::optional<std::uint64_t> step, const std::vector<std::uint64_t>& others,
               Json& out) {
  if (!step) return;
  out["step"] = *step;
  Json::Array numbers;
  for (const std::uint64_t number : others) numbers.emplace_back(number);
  out["other_steps"] = std::move(numbers);
}

std::string steps_text(std::uint64_t step, const std::vector<std::uint64_t>& others) {
  if (others.empty()) return std::to_string(step);
  constexpr std::size_t kNamed = 8;
  // The newest are the likely ones.
  const std::size_t first = others.size() - std::min(kNamed, others.size());
  std::string out = fmt::format("{}; also there: ", step);
  if (first > 0) out += fmt::format("{} below, ", first);
  return out + fmt::format("{}", fmt::join(others.begin() + static_cast<std::ptrdiff_t>(first),
                                           others.end(), ", "));
}

}  // namespace hfshard
