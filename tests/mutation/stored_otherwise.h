#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/table.h"
#include "mutation/cases.h"

namespace hfshard::mutation {

/// The tensors of a checkpoint, sorted by name, with their bytes.
using StoredTensors = std::vector<std::pair<TensorInfo, Bytes>>;

/// A checkpoint made of an oracle's by plain loops, and the bytes that its leaves must have.
struct StoredOtherwise {
  std::string how;
  Json config;
  StoredTensors tensors;
  std::function<Bytes(const Leaf&)> right;
};

/// Those that an oracle has; it must outlive them. Of torchtitan: tied where it is not, and with a
/// head of its own where it is; DeepSeek without biases of the router, with narrow ones, with two
/// dense layers. Of Qwen 3.5: fused experts turned, and split.
std::vector<StoredOtherwise> stored_otherwise_of(const Case& oracle, const Json& config,
                                                 const MappingTable& table);

}  // namespace hfshard::mutation
