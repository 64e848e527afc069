#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "mapping/family.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard::mutation {

using Bytes = std::vector<std::byte>;

/// The bytes of a checkpoint's tensors, in the order of its catalog.
using TensorBytes = std::vector<Bytes>;

/// A checkpoint and options for which a table is compiled.
struct Case {
  std::string name;
  std::shared_ptr<const Catalog> catalog;
  MappingOptions options;
  CompiledModel original;
  std::shared_ptr<const TensorBytes> bytes;  ///< only where an oracle knows the leaves
  std::vector<Bytes> right;  ///< of the original's leaves, which the oracle confirms

  bool has_oracle() const noexcept { return bytes != nullptr; }
};

/// Where the oracles and the variants of the examples are.
struct CaseSources {
  std::string
      oracles;  ///< a directory with a checkpoint and its expected.json in each subdirectory
  std::string torchtitan;  ///< the same, in the names of torchtitan
  std::string modules;     ///< a JSON file: oracle -> lines of what transformers makes of it
  std::string variants;    ///< a JSON file: family -> name -> changed keys of its example
};

/// The bytes of one leaf, element by element.
Bytes execute_leaf(const Case& in, const CompiledModel& model, std::uint32_t leaf);

/// Every case of a family. Throws if its own table fails one of them.
std::vector<Case> make_cases(const FamilyFile& family, const CaseSources& sources);

}  // namespace hfshard::mutation
