#include "tool/problem_groups.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

// A name without its numbers, and the numbers.
struct Numbered {
  std::vector<std::string> texts;    // one more than numbers
  std::vector<std::string> numbers;  // as written
};

Numbered numbers_of(std::string_view name) {
  Numbered out{{""}, {}};
  while (!name.empty()) {
    const auto end = std::ranges::find_if_not(name, is_digit) - name.begin();
    const std::string_view digits = name.substr(0, static_cast<std::size_t>(end));
    name.remove_prefix(digits.size());
    if (!digits.empty()) {
      out.numbers.emplace_back(digits);
      out.texts.emplace_back();
    }
    const auto text = std::ranges::find_if(name, is_digit) - name.begin();
    out.texts.back() += name.substr(0, static_cast<std::size_t>(text));
    name.remove_prefix(static_cast<std::size_t>(text));
  }
  return out;
}

// Only numbers in quoted names are layer numbers; any other number is a fact.
std::string without_numbers_of_names(std::string_view sentence) {
  std::string out;
  const std::vector<std::string> parts = split(sentence, '"');
  for (std::size_t i = 0; i < parts.size(); ++i)
    out += i % 2 == 0 ? parts[i] + '"' : join(numbers_of(parts[i]).texts, "#") + '"';
  return out;
}

// Returns "0-31" or "0, 2, 5-7".
std::string ranges_text(std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", numbers[i]);
    if (last > i) out += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return out;
}

// Returns the names as one name, with the numbers at each place.
std::string joined_names(const std::vector<std::string>& names) {
  const Numbered first = numbers_of(names.front());
  std::vector<std::vector<std::uint64_t>> numbers(first.numbers.size());
  for (const std::string& name : names) {
    const Numbered each = numbers_of(name);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto value = parse_bytes(each.numbers[i]);
      if (!value) return names.front();  // no layer number has so many digits
      numbers[i].push_back(*value);
    }
  }
  std::string out = first.texts.front();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string text = ranges_text(numbers[i]);
    const bool same = text.find_first_not_of("0123456789") == std::string::npos;
    out += (same ? first.numbers[i] : "{" + text + "}") + first.texts[i + 1];
  }
  return out;
}

}  // namespace

std::vector<ProblemGroup> group_problems(const std::vector<CheckReport::Problem>& problems) {
  std::vector<ProblemGroup> out;
  std::vector<std::vector<std::string>> names;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> known;
  for (const CheckReport::Problem& problem : problems) {
    const auto [at, fresh] =
        known.try_emplace({without_numbers_of_names(problem.what),
                           join(numbers_of(problem.tensor).texts, "#"), problem.rule},
                          out.size());
    if (fresh) {
      out.push_back({problem, problem.tensor, 1});
      names.emplace_back();
    } else {
      ++out[at->second].count;
    }
    names[at->second].push_back(problem.tensor);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].count > 1) out[i].tensors = joined_names(names[i]);
  }
  return out;
}

}  // namespace hfshard
