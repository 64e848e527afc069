#include "format/below.h"

#include <cstddef>
#include <deque>
#include <utility>

#include "base/text.h"
#include "format/formats.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kMostFound = 4;
constexpr std::size_t kMostLookedAt = 500;
constexpr std::size_t kDeepest = 5;

}  // namespace

std::vector<std::string> checkpoints_below(const StorePath& directory) {
  std::vector<std::string> out;
  std::deque<std::pair<StorePath, std::size_t>> left{{directory, 0}};
  for (std::size_t looked = 0; !left.empty() && looked < kMostLookedAt; ++looked) {
    const auto [place, depth] = std::move(left.front());
    left.pop_front();
    try {
      if (depth > 0 && recognise(place)) {
        out.push_back(place.text());
        if (out.size() == kMostFound) break;
        continue;
      }
      if (depth == kDeepest) continue;
      for (const std::string& name : place.list()) {
        const StorePath below = place / name;
        if (!name.starts_with('.') && below.is_directory() && !below.is_closed())
          left.emplace_back(below, depth + 1);
      }
    } catch (const Error&) {  // skips what it can't read
    }
  }
  return out;
}

std::string hint_of_below(const std::vector<std::string>& places) {
  std::vector<std::string> words;
  words.reserve(places.size());
  for (const std::string& place : places) words.push_back(shell_word(place));
  return words.size() == 1 ? "the checkpoint is below it: pass " + words.front()
                           : "pass one of the checkpoints below it: " + join(words, ", ");
}

}  // namespace hfshard
