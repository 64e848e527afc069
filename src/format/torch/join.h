#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/torch/assembled.h"
#include "format/torch/mesh.h"

#include "hfshard/dtype.h"

namespace hfshard::format::torch {

/// A tensor that is joined from the files of several ranks.
struct Joined {
  Shape units;                      ///< of the whole tensor
  std::vector<AssembledBox> boxes;  ///< `file` is the part's number
};

/// Joins the files of a mesh's ranks. Placements join DTensors; other tensors must be the same in
/// every file. `meshes`: narrowed by all tensors. Throws: unsupported; as RankMeshes::of.
Joined join_ranks(const Parts& parts, const RankMeshes& meshes);

/// Joins the shards of Meta's releases, by the tensor names of Llama's checkpoints. `width` is the
/// model's. Throws: unsupported (a name without a rule), corrupt. Source: huggingface/transformers
/// src/transformers/models/llama/convert_llama_weights_to_hf.py; meta-llama/llama llama/model.py
/// (ColumnParallelLinear, RowParallelLinear, ParallelEmbedding).
Joined join_shards(const Parts& parts, std::uint64_t width);

}  // namespace hfshard::format::torch
