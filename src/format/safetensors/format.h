#pragma once

#include "catalog/format.h"

namespace hfshard::format::safetensors {

/// HuggingFace directories and single `.safetensors` files. Read only.
const Format& safetensors_format();

}  // namespace hfshard::format::safetensors
