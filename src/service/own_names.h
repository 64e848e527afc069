#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Tensor names as the model itself has them.
struct OwnNames {
  std::vector<std::string> names;  ///< in the given order
  std::vector<std::string> notes;  ///< removed or added prefixes
};

/// Undoes changes that tools make to every name of a model. It removes wrappers of torch.compile,
/// FSDP, DDP and PEFT, and --prefix unless it is written. It adds the base model prefix that
/// AutoModel drops. Throws: bad_input (a wrapper before some names only, or two names that become
/// the same).
OwnNames own_names(const std::vector<std::string>& names, const std::string& config_text,
                   const std::string& location, const MappingOptions& mapping);

/// Returns the checkpoint at this place with these names. Returns it unchanged if it already has
/// them, or if its record tells what its names are.
std::shared_ptr<const Checkpoint> with_own_names(std::shared_ptr<const Checkpoint> opened,
                                                 const StorePath& place,
                                                 const MappingOptions& mapping);

/// Does the same for a model of this config, whatever a record says.
std::shared_ptr<const Checkpoint> with_names_by_config(std::shared_ptr<const Checkpoint> opened,
                                                       const std::string& config_text,
                                                       const MappingOptions& mapping);

/// Does the same, and returns the checkpoint unchanged if it can't undo its names.
std::shared_ptr<const Checkpoint> with_names_if_any(std::shared_ptr<const Checkpoint> opened,
                                                    const StorePath& place,
                                                    const MappingOptions& mapping);

/// Returns the note for arrays that are left out because the model computes them.
std::string computed_note(const std::vector<std::string>& names);

/// Returns a name without wrapping modules.
std::string without_wrappers(std::string name);

/// Throws: unsupported, if a model of a known family has tensors of an unmerged adapter.
void refuse_adapter_tensors(const Catalog& catalog, const std::string& config_text,
                            const MappingOptions& mapping);

/// Returns the tensors of a model's files under the names in its family's rules, if the files have
/// others, such as the base model's.
std::optional<Catalog> under_rules_names(const Catalog& files, const MappingOptions& mapping);

/// Returns whether --prefix is removed from the source's names. Only scheme "hf" writes it.
bool takes_prefix_off(const MappingOptions& mapping);

}  // namespace hfshard
