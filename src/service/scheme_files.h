#pragma once

#include <memory>
#include <optional>

#include "bytes/store/store.h"
#include "catalog/checkpoint.h"
#include "service/source.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns whether a model's files have the names of a scheme. `asked`: their config.json, without
/// which they don't count as a model's.
bool has_scheme_names(const Catalog& files, const TreeOptions& asked,
                      const MappingOptions& mapping);

/// Opens a model's files whose tensors have the names of a scheme. Meta's own Llama files have
/// those of torchtitan. hfshard's record at `place`, or else a config, tells the model. Returns
/// nothing if the names are the model's own, or if neither exists. Throws: not_found (a tensor of
/// the model is missing), as compile_model.
std::optional<OpenedSource> open_scheme_files(const std::shared_ptr<const Checkpoint>& files,
                                              const StorePath& place,
                                              const MappingOptions& mapping);

}  // namespace hfshard
