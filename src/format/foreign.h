#pragma once

#include <string_view>

#include "bytes/store/store.h"

namespace hfshard {

/// Refuses a checkpoint of a kind that no format reads, and names the kind. Recognizes it by the
/// names in a directory or the first bytes of a file. Ignores unknown kinds. Throws: unsupported,
/// io.
void refuse_foreign(const StorePath& path);
/// Refuses directories where each DeepSpeed rank has part of the state in PyTorch files. Throws: as
/// above.
void refuse_foreign_ranks(const StorePath& path);
/// Returns whether Megatron-LM wrote a PyTorch checkpoint (DCP). Its names and shapes are its own.
/// Source: NVIDIA/Megatron-LM megatron/core/dist_checkpointing/strategies (common.pt,
/// metadata.json).
bool is_megatron_tree(const StorePath& path);
/// Returns the hint that tells how to turn Megatron-LM's checkpoints into models.
std::string_view megatron_hint();

}  // namespace hfshard
