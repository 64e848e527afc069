#include "base/json_shape.h"

#include <utility>

namespace hfshard {

Json shape_json(const Shape& shape) {
  Json::Array out;
  for (const std::uint64_t extent : shape) out.emplace_back(extent);
  return {std::move(out)};
}

}  // namespace hfshard
