#include "tool/steps.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

#include "hfshard/error.h"

namespace hfshard {

StepList parse_step_list(const std::string& text) {
  StepList out;
  out.all = text == "all";
  if (out.all) return out;
  const bool is_last = text.starts_with('-');
  bool good = true;
  for (const std::string& part : split(is_last ? text.substr(1) : text, ',')) {
    const auto number = parse_whole(part);
    good = good && number.has_value();
    if (number) out.numbers.push_back(*number);
  }
  if (is_last) {
    good = good && out.numbers.size() == 1 && out.numbers.front() > 0;
    if (good) out.last = out.numbers.front();
    out.numbers.clear();
  }
  if (good) return out;
  throw Error(ErrorCode::usage, fmt::format("--steps can't be {}", quote(text)))
      .hint("pass all, numbers such as 3,10, or -2 for the last two");
}

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
  // The highest steps are the likely ones.
  const std::size_t first = others.size() - std::min(kNamed, others.size());
  std::string out = fmt::format("{}; other steps: ", step);
  if (first > 0) out += fmt::format("{} lower ones, ", first);
  return out + fmt::format("{}", fmt::join(others.begin() + static_cast<std::ptrdiff_t>(first),
                                           others.end(), ", "));
}

}  // namespace hfshard
