#pragma once

#include <string>

#include "base/json.h"

#include "hfshard/diff.h"

namespace hfshard {

/// Where an element is: its tensor and index, and its file and byte where those are known.
Json element_place_json(const ElementPlace& place);
/// `FILE, byte N`, or the bytes that hold it.
std::string element_place_text(const ElementPlace& place);

}  // namespace hfshard
