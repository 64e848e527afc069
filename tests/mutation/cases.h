#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "mapping/tables/family.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard::mutation {

using Bytes = std::vector<std::byte>;

/// The bytes of a checkpoint's tensors, in the order of its catalog.
using TensorBytes = std::vector<Bytes>;

/// A checkpoint and options for compiling a table.
struct Case {
  std::string name;
  std::shared_ptr<const Catalog> catalog;
  MappingOptions options;
  CompiledModel original;
  std::shared_ptr<const TensorBytes> bytes;  ///< only if an oracle knows the leaves
  /// The original's leaves, which the oracle confirms.
  std::vector<Bytes> right;

  bool has_oracle() const noexcept { return bytes != nullptr; }
};

/// The places of the oracles, and the variants of the examples.
struct CaseSources {
  /// A directory whose subdirectories each have a checkpoint and its expected.json.
  std::string oracles;
  std::string torchtitan;  ///< the same, with torchtitan's names
  /// A JSON file: oracle -> lines of transformers' result.
  std::string modules;
  /// A JSON file: family -> name -> changed keys of its example.
  std::string variants;
};

/// Returns the bytes of one leaf, element by element.
Bytes execute_leaf(const Case& in, const CompiledModel& model, std::uint32_t leaf);

/// Makes every case of a family. Throws if its own table fails one of them.
std::vector<Case> make_cases(const FamilyFile& family, const CaseSources& sources);

}  // namespace hfshard::mutation
