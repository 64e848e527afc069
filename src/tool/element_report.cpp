#include "tool/element_report.h"

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"

namespace hfshard {

Json element_place_json(const ElementPlace& place) {
  Json out;
  out["tensor"] = place.tensor;
  out["index"] = shape_json(place.index);
  if (!place.file.empty()) out["file"] = place.file;
  if (place.byte) out["byte"] = *place.byte;
  return out;
}

std::string element_place_text(const ElementPlace& place) {
  std::string out = printable(place.file);
  if (place.byte) return out + fmt::format(", byte {}", *place.byte);
  if (!place.range) return out;
  return out + fmt::format(", in bytes [{}, {})", place.range->begin, place.range->end);
}

}  // namespace hfshard
