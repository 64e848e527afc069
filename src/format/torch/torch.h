#pragma once

#include "catalog/format.h"

namespace hfshard::format::torch {

/// Returns the format of models in files of torch.save, such as `pytorch_model.bin`. Read only.
const Format& torch_format();

}  // namespace hfshard::format::torch
