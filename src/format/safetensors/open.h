#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bytes/store.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "catalog/format.h"

namespace hfshard::format::safetensors {

/// The names of a directory that has config.json and model.safetensors.index.json and none of the
/// files that the index lists; nothing for any other location. Throws: bad_input (index), io.
std::optional<NameList> open_hf_names(const StorePath& location);

/// Opens a HuggingFace directory (with an index, one file, or several files and no index) or one
/// `.safetensors` file. The index and the headers must agree. Throws: not_found, bad_input,
/// corrupt, unsupported (only .bin/.pth/GGUF, adapters), io; each names file and tensor.
/// Of `choice` the files and despite_loss count.
Catalog open_hf_catalog(const StorePath& location, const Choice& choice = {});

/// The same, to read its data.
std::unique_ptr<Checkpoint> open_hf(const StorePath& location, const Choice& choice = {});

}  // namespace hfshard::format::safetensors
