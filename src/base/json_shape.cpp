#include "base/json_shape.h"

#include <utility>

namespace hfshard {

Json shape_json(const Shape& shape) {
  Json::Array out;
  for (const std::uint64_t extent : shape) out.emplace_back(extent);
  return {std::move(out)};
}

Json texts_json(const std::vector<std::string>& texts) {
  Json::Array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return {std::move(out)};
}

}  // namespace hfshard
