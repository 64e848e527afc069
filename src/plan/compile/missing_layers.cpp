#include "plan/compile/missing_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

namespace hfshard {
namespace {

// The text before the first component of a name with only digits, and its number.
using Layer = std::pair<std::string, std::uint64_t>;

std::optional<Layer> layer_of(const std::string& name) {
  std::size_t at = 0;
  for (const std::string& part : split(name, '.')) {
    if (const auto number = parse_whole(part)) return Layer{name.substr(0, at), *number};
    at += part.size() + 1;
  }
  return std::nullopt;
}

}  // namespace

std::string missing_layers(const std::vector<std::string>& wanted,
                           const std::vector<std::string>& missing) {
  std::map<Layer, std::size_t> there;  // tensors of each layer that the checkpoint has
  for (const std::string& name : wanted) {
    if (const auto layer = layer_of(name)) ++there[*layer];
  }
  for (const std::string& name : missing) {
    if (const auto layer = layer_of(name)) --there[*layer];
  }
  const auto is_gone = [](const auto& entry) { return entry.second == 0; };
  const auto first = std::ranges::find_if(there, is_gone);
  if (first == there.end()) return {};
  std::size_t layers = 0;
  std::size_t gone = 0;
  for (const auto& entry : there) {
    if (entry.first.first != first->first.first) continue;
    ++layers;
    if (is_gone(entry)) ++gone;
  }
  if (gone == layers) return {};
  return fmt::format("config.json asks for {} layers, and the checkpoint has nothing of {}{}",
                     layers, gone == 1 ? "layer " : fmt::format("{} of them, first layer ", gone),
                     first->first.second);
}

}  // namespace hfshard
