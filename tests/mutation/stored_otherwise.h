#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/tables/table.h"
#include "mutation/cases.h"

namespace hfshard::mutation {

/// The tensors of a checkpoint, sorted by name, with their bytes.
using StoredTensors = std::vector<std::pair<TensorInfo, Bytes>>;

/// A checkpoint made from an oracle's with plain loops, and the bytes that its leaves must have.
struct StoredOtherwise {
  std::string how;
  Json config;
  StoredTensors tensors;
  std::function<Bytes(const Leaf&)> right;
};

/// Returns those of an oracle, which must outlive them. For torchtitan, embeddings are tied if they
/// aren't, and untied if they are. DeepSeek has no biases of the router, narrow ones, or two dense
/// layers. For Qwen 3.5: fused experts transposed, and split; experts whose codes stay fused.
std::vector<StoredOtherwise> stored_otherwise_of(const Case& oracle, const Json& config,
                                                 const MappingTable& table);

}  // namespace hfshard::mutation
