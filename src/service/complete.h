#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "catalog/catalog.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// The tensor names that one message lists (quoted_list).
inline constexpr std::size_t kShownNames = 3;

/// The difference between a checkpoint's tensors and those that its config expects.
struct Completeness {
  std::vector<std::string> others;           ///< names that the model lacks
  std::vector<std::string> left_out_others;  ///< those that --exclude leaves out
  std::string unchecked;                     ///< why nothing was compared; else empty
  bool is_unknown = false;                   ///< no family has a model of this config
  /// For a model that no scheme can compute, returns which of its family's names are missing and
  /// which names are unknown; empty if none are. The family's rules may not fit such a model, so
  /// the names may still be right. For a tree of no known family, returns that all arrays are below
  /// one key.
  std::string doubt;
  /// For such a model with its family's names and shapes, returns what they were compared with.
  std::string compared;
};

/// Returns that a checkpoint has nothing of some layers, and the number of layers in the config.
/// Empty if each layer has a tensor. `wanted`: names of all tensors of the model, which has its
/// layers' numbers in them; `missing`: those that the checkpoint lacks.
std::string missing_layers(const std::vector<std::string>& wanted,
                           const std::vector<std::string>& missing);

/// Compares a checkpoint that has the names of its model's files with its config. Compares nothing
/// if --include or --num-layers select tensors, or if no family knows the config. Throws:
/// not_found, bad_input (a missing tensor or another shape).
Completeness check_complete(const Catalog& catalog, const MappingOptions& mapping);

/// Does the same for a tree of arrays whose config names the model. Throws: also bad_input, for
/// arrays that the model lacks.
Completeness check_complete_tree(Catalog tree, std::string config_text,
                                 const MappingOptions& mapping);

}  // namespace hfshard
