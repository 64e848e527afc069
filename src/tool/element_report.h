#pragma once

#include <string>

#include "base/json.h"

#include "hfshard/diff.h"

namespace hfshard {

/// Returns an element's tensor and index, and its file and byte if they are known.
Json element_place_json(const ElementPlace& place);
/// Returns `FILE, byte N`, or the bytes that hold the element.
std::string element_place_text(const ElementPlace& place);

}  // namespace hfshard
