#pragma once

#include "catalog/format.h"

namespace hfshard::format::safetensors {

/// Returns the format of Hugging Face directories and single `.safetensors` files.
const Format& safetensors_format();

}  // namespace hfshard::format::safetensors
