#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "catalog/format.h"

namespace hfshard::format::torch {

/// Returns whether a place has files of torch.save with a model. Throws: io.
bool has_torch_model(const StorePath& location);

/// Opens `pytorch_model.bin`, its parts, with or without an index, or one file of torch.save. Reads
/// the description of the tensors, but none of their elements. Throws: as open_hf_directory and
/// read_torch_file.
std::unique_ptr<Checkpoint> open_torch(const StorePath& location, const Choice& choice = {});

}  // namespace hfshard::format::torch
