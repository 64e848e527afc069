#pragma once

#include <string>

#include "bytes/store/store.h"

#include "hfshard/hub.h"

namespace hfshard {

/// Finds the checkpoint of a run that keeps it in a subdirectory of a known name: MaxText in
/// `checkpoints`, torchtitan in `checkpoint`, accelerate in `pytorch_model_fsdp_0`. Returns the
/// place itself if it is a checkpoint, or if no directory below it is one. Throws: bad_input
/// (several of those names are checkpoints), not_found (only directories of other names are), io.
std::string checkpoint_of_run(const std::string& place);

/// Does the same for a source, and tells which directory is read and what next to it isn't.
SourceName in_run(SourceName source);

/// Returns the directory with the config.json and tokenizer of a checkpoint's model: its parent for
/// one of accelerate's, else itself.
StorePath model_place(const StorePath& place);

}  // namespace hfshard
