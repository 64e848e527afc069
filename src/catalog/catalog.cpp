#include "catalog/catalog.h"

#include <algorithm>

namespace hfshard {

std::optional<std::uint32_t> Catalog::find(std::string_view name) const noexcept {
  const auto at = std::ranges::lower_bound(
      tensors, name, {}, [](const TensorInfo& t) { return std::string_view(t.name); });
  if (at == tensors.end() || at->name != name) return std::nullopt;
  return static_cast<std::uint32_t>(at - tensors.begin());
}

Grid Catalog::grid_of(std::uint32_t array) const {
  const TensorInfo& info = tensors[array];
  if (!info.is_whole()) return cuts[info.cut].grid;
  Shape whole;
  for (const std::uint64_t extent : info.shape) whole.push_back(std::max<std::uint64_t>(extent, 1));
  return {whole, whole, whole};
}

const std::vector<std::string>& Catalog::codecs_of(std::uint32_t array) const {
  static const std::vector<std::string> kNone;
  const TensorInfo& info = tensors[array];
  return info.is_whole() ? kNone : cuts[info.cut].codecs;
}

}  // namespace hfshard
