#pragma once

#include <memory>

#include "catalog/checkpoint.h"
#include "ops/transfer.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Returns a model's files with the config of --config, and with the tokenizer and similar files
/// from its directory. Without --config, or with the same config.json, the files stay unchanged.
/// Throws: bad_input (invalid JSON).
std::shared_ptr<const Checkpoint> with_config(std::shared_ptr<const Checkpoint> files,
                                              const TreeOptions& asked);

/// Returns a part of a model without its config and tokenizer, which belong to the whole.
std::shared_ptr<const Checkpoint> without_side_files(std::shared_ptr<const Checkpoint> files);
/// Returns whether any codes stay as stored in a model that was compiled from this catalog.
bool keeps_codes(const CompiledModel& model, const Catalog& catalog);
/// Leaves out the side files that describe codes, if the model doesn't keep codes. Adds a note.
std::shared_ptr<const Checkpoint> with_files_of_codes(std::shared_ptr<const Checkpoint> files,
                                                      CompiledModel& model);

}  // namespace hfshard
