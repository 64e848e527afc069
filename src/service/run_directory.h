#pragma once

#include <string>

#include "hfshard/hub.h"

namespace hfshard {

/// Finds the checkpoint of a run that keeps it in a subdirectory of a known name: MaxText in
/// `checkpoints`, torchtitan in `checkpoint`, accelerate in `pytorch_model_fsdp_0`. Returns the
/// place itself if it is a checkpoint, or if no directory below it is one. Throws: bad_input
/// (several of those names are checkpoints), not_found (only directories of other names are), io.
std::string checkpoint_of_run(const std::string& place);

/// Does the same for a source, and tells which directory is read.
SourceName in_run(SourceName source);

}  // namespace hfshard
