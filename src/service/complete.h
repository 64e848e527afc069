#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// The tensor names that one message lists (quoted_list).
inline constexpr std::size_t kShownNames = 3;

/// The difference between a checkpoint's tensors and those that its config expects.
struct Completeness {
  std::string family;                        ///< whose rules compared them; else empty
  std::vector<std::string> others;           ///< names that no rule has
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

/// Compares a checkpoint that has the names of its model's files with its config. Compares nothing
/// if --num-layers selects tensors, or if no family knows the config. With --include, only sets
/// `doubt`. Throws: not_found, bad_input (a missing tensor or another shape), but not with
/// --include.
Completeness check_complete(const Catalog& catalog, const MappingOptions& mapping);

/// Does the same for a tree of arrays whose config names the model. Throws: also bad_input, for
/// arrays that the model lacks.
Completeness check_complete_tree(Catalog tree, std::string config_text,
                                 const MappingOptions& mapping);

/// Returns how many tensors a tree lacks of those that the files of a config's model have, or
/// nothing if it has others. Rules can accept several kinds of names, depending on which tensors
/// exist.
std::optional<std::size_t> count_lacking(Catalog tree, std::string config_text,
                                         const MappingOptions& mapping);

}  // namespace hfshard
