#pragma once

#include <memory>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "catalog/format.h"

namespace hfshard::format::safetensors {

/// The index of several files.
inline constexpr const char* kIndexName = "model.safetensors.index.json";

/// Opens a Hugging Face directory (with an index, one file, or several files and no index) or one
/// `.safetensors` file. The index and the headers must agree. Throws: not_found, bad_input,
/// corrupt, unsupported (only .bin/.pth/GGUF, adapters), io; each names file and tensor. Only uses
/// `files` and `despite_loss` of `choice`.
Catalog open_hf_catalog(const StorePath& location, const Choice& choice = {});

/// Opens the same for reading its data.
std::unique_ptr<Checkpoint> open_hf(const StorePath& location, const Choice& choice = {});

}  // namespace hfshard::format::safetensors
